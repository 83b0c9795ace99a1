"""The measured rows of docs/comparison.md, taken from the pages of benchmarks: ``python -m website compare``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from veilstream.evaluate.pages import markdown_table, with_section
from website.outside import ROOT

PAGE: Final = ROOT / "docs" / "comparison.md"
TABLES: Final = ROOT / "docs" / "benchmarks"
PEERS: Final = ("OpenDP", "PipelineDP", "diffprivlib", "dpmm", "jax_privacy", "Tumult", "SmartNoise", "filterpy")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table of measurements: which table and row, which columns, and what they say."""

    what: str
    suite: str
    title: str
    row: str
    columns: tuple[str, ...]


ROWS: Final = (
    Row(
        "10⁶ draws of exact Laplace noise of scale 10: speed against OpenDP", "noise", "Discrete Laplace", "10",
        ("against OpenDP",),
    ),
    Row(
        "10⁶ draws of exact Gaussian noise of scale 10: speed against OpenDP", "noise", "Discrete Gaussian", "10",
        ("against OpenDP",),
    ),
    Row(
        "bounding 5 million events, PipelineDP on one machine: its time in multiples of ours", "ingest",
        "Bounding 5,000,000",
        "PipelineDP, local backend", ("times ours",),
    ),
    Row(
        "median of a million points, seconds: ours, diffprivlib", "metric", "Time of a release",
        "ChosenMedian, 10⁶ points", ("seconds", "its seconds"),
    ),
    Row(
        "running totals over 256 steps, error of one event: ours, BLT and dense of jax_privacy (optimised)", "totals",
        "Running totals against optimised", "256", ("ours", "jax_privacy BLT, 4 buffers", "jax_privacy dense"),
    ),
    Row(
        "synthetic Adult, ε = 1, error of ranges: ours, MST, AIM of dpmm", "synthesis", "All methods", "Adult, ε = 1",
        ("DPCopula", "MST", "AIM"),
    ),
    Row(
        "synthetic ACS, ε = 1, error of ranges: ours, MST, AIM of dpmm", "synthesis", "All methods",
        "ACS year 0, ε = 1",
        ("DPCopula", "MST", "AIM"),
    ),
)  # fmt: skip
"""Rows on both sides: where we are better, and where others are."""


def write() -> None:
    """Writes the measured rows and the list of tables into their sections."""
    text = PAGE.read_text(encoding="utf-8")
    text = with_section(text, "measured", measured())
    text = with_section(text, "tables", tables())
    PAGE.write_text(text, encoding="utf-8")


def measured() -> str:
    """The chosen rows; one whose table is not written yet is left out."""
    found = [(row, cells(row)) for row in ROWS]
    lines = [
        [row.what, ", ".join(values), f"[{row.suite}](benchmarks/{row.suite}.md)"] for row, values in found if values
    ]
    return markdown_table(["measured", "result", "table"], lines)


def cells(row: Row) -> list[str]:
    """The cells of a row in its table; empty if there is no such table."""
    page = TABLES / f"{row.suite}.md"
    lines = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    inside = False
    header: list[str] = []
    for line in lines:
        if line.startswith("## "):
            inside, header = line.removeprefix("## ").startswith(row.title), []
        elif inside and line.startswith("|"):
            values = [cell.strip() for cell in line.strip("|").split("|")]
            header = header or values
            if values[0] == row.row:
                return [values[header.index(column)] for column in row.columns if column in header]
    return []


def tables() -> str:
    """Every table that names another library."""
    lines: list[str] = []
    for page in sorted(TABLES.glob("*.md")):
        for part in page.read_text(encoding="utf-8").split("\n## ")[1:]:
            named = [peer for peer in PEERS if peer.lower() in part.lower()]
            if named:
                lines.append(f"- [{page.stem}](benchmarks/{page.name}), *{part.splitlines()[0]}*: {', '.join(named)}")
    return "\n".join(lines)
