"""Tables of measurements, the page of each suite that holds them, and the page that leads to all of them."""

from __future__ import annotations

import ast
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from veilstream.evaluate.pages import markdown_table

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "benchmarks.md"
"""The page that leads to the pages of the suites, which lie in the folder of the same name."""
_HEADER: Final = """# Benchmarks

Every page is written by `python -m benchmarks [name ...]`. Ratios compare with the named peer in the same run on the
same machine; each time is the best of several repeats unless a note says otherwise.
"""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a suite: cells are ready to print."""

    title: str
    notes: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self, level: int = 3) -> str:
        """The table with its notes under a heading of this level.

        >>> print(Table("T", "Why.", ["a", "b"], [["1", "2"]]).markdown())
        ### T
        <BLANKLINE>
        Why.
        <BLANKLINE>
        | a | b |
        |---|---|
        | 1 | 2 |
        """
        return "\n\n".join([f"{'#' * level} {self.title}", self.notes, markdown_table(self.columns, self.rows)])


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


def page_of(suite: str) -> Path:
    """The page that a suite writes.

    >>> page_of("noise").relative_to(ROOT).as_posix()
    'docs/benchmarks/noise.md'
    """
    return PAGE.with_suffix("") / f"{suite}.md"


def write_page(suite: str, tables: Sequence[Table]) -> Path:
    """Writes the tables of one suite to its page, which it replaces."""
    page = page_of(suite)
    page.parent.mkdir(parents=True, exist_ok=True)
    body = "\n\n".join([f"# {suite}", machine(), *(table.markdown(level=2) for table in tables)])
    page.write_text(f"{body}\n", encoding="utf-8")
    return page


def write_overview(suites: Mapping[str, str]) -> None:
    """Writes the page that leads to the suites."""
    PAGE.write_text(overview(suites), encoding="utf-8")


def overview(suites: Mapping[str, str]) -> str:
    """What each suite measures and the titles of its tables, for the suites that have a page."""
    parts = [_HEADER.rstrip()]
    for suite, module in suites.items():
        page = page_of(suite)
        if page.exists():
            lines = page.read_text(encoding="utf-8").splitlines()
            titles = "; ".join(line.removeprefix("## ") for line in lines if line.startswith("## "))
            parts += [f"## {suite}", f"{_summary(module)} [Tables](benchmarks/{page.name}): {titles}."]
    return "\n\n".join(parts) + "\n"


def _summary(module: str) -> str:
    """The first paragraph of a module's docstring, without importing the module: its peers may be missing."""
    source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    return " ".join((ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0].split())
