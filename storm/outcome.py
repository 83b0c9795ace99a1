"""What came of an attack."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Outcome:
    """How often it struck, how many strikes were survived to the end, and what was violated."""

    tried: int = 0
    resumed: int = 0
    problems: list[str] = field(default_factory=list[str])
