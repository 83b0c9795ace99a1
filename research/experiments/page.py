"""The page of a paper's experiments: our figure, what the paper reports, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import polars as pl

from research.experiments.figure import Figure, Finding, Paper, Setting, Verdict
from veilstream.errors import InvalidInputError

MOST_ROWS: Final = 60
SMALLER: Final = " These are the sizes of the paper scale; what is shown ran on less, to see that it runs."
INDEX: Final = """# Experiments: the papers' figures, run again

Every figure of the papers behind this library, under guarantees that hold: the same axes and curves, what the paper
reports, and whether it holds here. Written by `python -m research reproduce`:

```sh
python -m research reproduce --list                                   # what there is
python -m research reproduce dsat-2 fast --out experiments            # small: minutes, to see that it runs
python -m research reproduce --scale paper --data DIRECTORY --out docs/experiments
```

Finished measurements are kept below `runs/`: the same command goes on after an interruption. Those of another version
of the library are made again, unless you say `--any-code`. Real data are read from the directory that you name
(`research.datasets` lists them); figures that need what is not there are left out, by name.

A verdict is computed from the table of results by fixed rules: a claim of several parts holds in part if some of
its main ones do; means within 3 % are even. Claims that fail are explained beside their figures.

Of the claims below, {counted}.

| figure | about | the claim |
|---|---|---|
"""


def write_section(paper: Paper, figure: Figure, finding: Finding, setting: Setting, runs: int, directory: Path) -> Path:
    """Puts the figure's section into the paper's page, in the order of the paper, and leaves the others as they are."""
    page = directory / f"{paper.name}.md"
    sections = _sections(page)
    sections[figure.name] = _section(figure, finding, setting, runs)
    order = [member.name for member in paper.figures]
    body = "\n\n".join(sections[name] for name in order if name in sections)
    _write(page, f"{_head(paper)}\n\n{body}\n")
    return page


def write_index(papers: Iterable[Paper], directory: Path) -> Path:
    """The page of all verdicts, from the sections that the papers' pages have."""
    rows: list[str] = []
    verdicts: list[str] = []
    for paper in papers:
        sections = _sections(directory / f"{paper.name}.md")
        for figure in (figure for figure in paper.figures if figure.name in sections):
            verdicts.append(_verdict(sections[figure.name]))
            where = f"[{figure.name}]({paper.name}.md#{_anchor(figure)})"
            rows.append(f"| {where} | {figure.title} | {verdicts[-1]} |")
    counted = ", ".join(f"{verdict}: {verdicts.count(verdict)}" for verdict in Verdict if verdict in verdicts)
    page = directory / "index.md"
    _write(page, INDEX.format(counted=counted) + "\n".join(rows) + "\n")
    return page


def _verdict(section: str) -> str:
    return section.partition("**The claim ")[2].partition(".**")[0]


def _anchor(figure: Figure) -> str:
    """The anchor that Markdown makes of the section's heading."""
    words = f"figure {figure.number} {figure.title}".lower().split()
    return "-".join("".join(letter for letter in word if letter.isalnum() or letter in "-_") for word in words)


def _write(page: Path, text: str) -> None:
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(
            name="page", value=page, limit=f"{error.strerror}; results are kept, the page was not written"
        ) from None


def _head(paper: Paper) -> str:
    return (
        f"# {paper.title}\n\n{paper.reference}\n\nWritten by `python -m research reproduce {paper.name}`. Every "
        "mechanism ran with the corrected privacy of this library, at the guarantee named. "
        "Bands and error bars are 95 % intervals "
        "of the mean over seeds."
    )


def _section(figure: Figure, finding: Finding, setting: Setting, runs: int) -> str:
    parts = [
        f"<!-- begin {figure.name} -->\n## Figure {figure.number}: {figure.title}",
        f"![{figure.title}]({figure.name}.png)",
        f"**The paper reports:** {figure.claim}",
        f"**Run here** ({setting.scale} scale, {runs:,} runs): {figure.setup}{SMALLER if setting.small else ''}",
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
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.3g}"
    return "" if value is None else str(value)
