"""Tables of measurements, and the sections of docs/benchmarks.md that hold them."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from veilstream.evaluate.pages import markdown_table, section, sections, with_section

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
_HEADER: Final = """# Benchmarks

Every section is written by `python -m benchmarks [name ...]`. Ratios compare with the named peer in the same
run on the same machine; each time is the best of several repeats unless a note says otherwise.
"""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a suite: cells are ready to print."""

    title: str
    notes: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table with its title and notes.

        >>> print(Table("T", "Why.", ["a", "b"], [["1", "2"]]).markdown())
        ### T
        <BLANKLINE>
        Why.
        <BLANKLINE>
        | a | b |
        |---|---|
        | 1 | 2 |
        """
        return "\n\n".join([f"### {self.title}", self.notes, markdown_table(self.columns, self.rows)])


Suite: TypeAlias = Callable[..., Sequence[Table]]


def progress(line: str) -> None:
    """One line per measurement, at once."""
    print(line, flush=True)


def best_seconds(call: Callable[[], object], repeats: int) -> float:
    """The shortest of ``repeats`` timed calls."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def machine() -> str:
    """What the figures were measured on."""
    return (
        f"Measured on {os.cpu_count()} cores of {_processor()}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}."
    )


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def write_section(name: str, tables: Sequence[Table], page: Path = PAGE) -> None:
    """Puts the tables of one suite into its section, which is replaced or appended."""
    body = "\n\n".join([f"## {name}", machine(), *(table.markdown() for table in tables)])
    text = page.read_text(encoding="utf-8") if page.exists() else _HEADER
    known = name in sections(text)
    text = with_section(text, name, body) if known else f"{text.rstrip()}\n\n{section(name, body)}\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")
