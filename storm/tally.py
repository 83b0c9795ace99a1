"""What was tried so far, in a file that survives interruptions, and the table of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from storm.outcome import Outcome
from veilstream.evaluate.pages import markdown_table, with_section

ROOT: Final = Path(__file__).resolve().parent.parent
SECTION: Final = "storm"
SHOWN: Final = 200
"""So many problems are kept by their text; the table counts all."""


@dataclass(slots=True)
class Tally:
    """Strikes by row of the table; it belongs to one state of the code and one seed."""

    code: str
    seed: int
    rounds: int = 0
    rows: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    done: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])

    @classmethod
    def load(cls, path: Path, seed: int) -> Tally:
        """What the file holds, or a new tally if there is none of this code and seed."""
        code = code_digest()
        if path.exists():
            stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if (stored["code"], stored["seed"]) == (code, seed):
                return cls(**stored)
        return cls(code, seed)

    def store(self, path: Path) -> None:
        """Replace the file as a whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".new")
        partial.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        partial.replace(path)

    def add(self, row: str, outcome: Outcome) -> None:
        """Count what came of a round."""
        counts = self.rows.setdefault(row, [0, 0, 0])
        for place, more in enumerate((outcome.tried, outcome.resumed, len(outcome.problems))):
            counts[place] += more
        self.problems += [f"{row}: {problem}" for problem in outcome.problems][: SHOWN - len(self.problems)]

    def tried(self, row: str) -> int:
        """How often a row was struck."""
        return self.rows.get(row, [0])[0]

    @property
    def violations(self) -> int:
        return sum(counts[2] for counts in self.rows.values())

    def table(self, order: list[str]) -> str:
        """The table of all rows, in the given order, and their sums."""
        known = [row for row in order if row in self.rows]
        cells = [[*row.split(" | "), *(f"{count:,}" for count in self.rows[row])] for row in known]
        sums = [f"{sum(self.rows[row][place] for row in known):,}" for place in range(3)]
        return markdown_table(["attack", "ledger", "tried", "resumed", "violations"], [*cells, ["all", "", *sums]])


def write_page(page: Path, tally: Tally, order: list[str]) -> None:
    """Put the table into its section of the page."""
    text = page.read_text(encoding="utf-8")
    body = f"`python -m storm`, seed {tally.seed}:\n\n{tally.table(order)}"
    page.write_text(with_section(text, SECTION, body), encoding="utf-8")


def code_digest() -> str:
    """A digest of the library and of this package: after a change everything is tried anew."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "storm").rglob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
