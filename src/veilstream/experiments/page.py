"""The page of a paper's experiments: our figure, what the paper reports, and whether it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from veilstream.errors import InvalidInput
from veilstream.experiments.figure import Figure, Finding, Paper, Setting

MOST_ROWS: Final = 60


def write_section(paper: Paper, figure: Figure, finding: Finding, setting: Setting, runs: int, directory: Path) -> Path:
    """Puts the figure's section into the paper's page, in the order of the paper, and leaves the others as they are."""
    page = directory / f"{paper.name}.md"
    sections = _sections(page)
    sections[figure.name] = _section(figure, finding, setting, runs)
    order = [member.name for member in paper.figures]
    body = "\n\n".join(sections[name] for name in order if name in sections)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        page.write_text(f"{_head(paper)}\n\n{body}\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"page {page}: {error.strerror}; results are kept, the page was not written") from None
    return page


def _head(paper: Paper) -> str:
    return (
        f"# {paper.title}\n\n{paper.reference}\n\nWritten by `veilstream reproduce {paper.name}`. Every mechanism ran "
        "with the corrected privacy of this library, at the guarantee named. Bands and error bars are 95 % intervals "
        "of the mean over seeds."
    )


def _section(figure: Figure, finding: Finding, setting: Setting, runs: int) -> str:
    parts = [
        f"<!-- begin {figure.name} -->\n## Figure {figure.number}: {figure.title}",
        f"![{figure.title}]({figure.name}.png)",
        f"**The paper reports:** {figure.claim}",
        f"**Run here** ({setting.scale} scale, {runs:,} runs): {figure.setup}",
        f"**The claim {finding.verdict}.** {finding.words}",
    ]
    if finding.table is not None:
        parts.append(_markdown(finding.table))
    return "\n\n".join(parts) + f"\n<!-- end {figure.name} -->"


def _sections(page: Path) -> dict[str, str]:
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    found: dict[str, str] = {}
    for part in text.split("<!-- begin ")[1:]:
        name, rest = part.split(" -->", 1)
        body, end, _ = rest.partition(f"<!-- end {name} -->")
        found[name] = f"<!-- begin {name} -->{body}{end}"
    return found


def _markdown(table: pl.DataFrame) -> str:
    rows = [
        "| " + " | ".join(table.columns) + " |",
        "|" + "---|" * table.width,
        *("| " + " | ".join(map(_cell, row)) + " |" for row in table.head(MOST_ROWS).iter_rows()),
    ]
    return "\n".join(rows)


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else "" if value is None else str(value)
