"""The page of a paper's experiments: our figure, what the paper reports, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import polars as pl

from research.figure import Figure, Finding, Paper, Setting, Verdict
from veilstream.errors import InvalidInputError
from veilstream.evaluate.pages import markdown_table, section, sections

MOST_ROWS: Final = 60
SMALLER: Final = " These are the sizes of the paper scale; what is shown ran on less, to see that it runs."
INDEX: Final = """# Experiments: the papers' figures, run again

Every figure of the papers behind this library, under guarantees that hold: the same axes and curves, what the paper
reports, and whether it holds here. Written by `python -m research reproduce`:

```sh
python -m research list                                               # what there is
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
    bodies = _bodies(page)
    bodies[figure.name] = _body(figure, finding, setting, runs)
    order = [member.name for member in paper.figures]
    body = "\n\n".join(section(name, bodies[name]) for name in order if name in bodies)
    _write(page, f"{_head(paper)}\n\n{body}\n")
    return page


def write_index(papers: Iterable[Paper], directory: Path) -> Path:
    """The page of all verdicts, from the sections that the papers' pages have."""
    rows: list[str] = []
    verdicts: list[str] = []
    for paper in papers:
        bodies = _bodies(directory / f"{paper.name}.md")
        for figure in (figure for figure in paper.figures if figure.name in bodies):
            verdicts.append(_verdict(bodies[figure.name]))
            where = f"[{figure.name}]({paper.name}.md#{_anchor(figure)})"
            rows.append(f"| {where} | {figure.title} | {verdicts[-1]} |")
    counted = ", ".join(f"{verdict}: {verdicts.count(verdict)}" for verdict in Verdict if verdict in verdicts)
    page = directory / "index.md"
    _write(page, INDEX.format(counted=counted) + "\n".join(rows) + "\n")
    return page


def _verdict(body: str) -> str:
    return body.partition("**The claim ")[2].partition(".**")[0]


def _anchor(figure: Figure) -> str:
    """The anchor that Markdown makes of the section's heading."""
    heading = f"figure {figure.number} {figure.title}".lower().split()
    return "-".join("".join(letter for letter in word if letter.isalnum() or letter in "-_") for word in heading)


def _write(page: Path, text: str) -> None:
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(
            name="page", value=page, limit=error.strerror, outcome="results are kept, the page was not written"
        ) from None


def _head(paper: Paper) -> str:
    return (
        f"# {paper.title}\n\n{paper.reference}\n\nWritten by `python -m research reproduce {paper.name}`. Every "
        "mechanism ran with the corrected privacy of this library, at the guarantee named. "
        "Bands and error bars are 95 % intervals "
        "of the mean over seeds."
    )


def _body(figure: Figure, finding: Finding, setting: Setting, runs: int) -> str:
    parts = [
        f"## Figure {figure.number}: {figure.title}",
        f"![{figure.title}]({figure.name}.png)",
        f"**The paper reports:** {figure.claim}",
        f"**Run here** ({setting.scale} scale, {runs:,} runs): {figure.setup}{SMALLER if setting.small else ''}",
        f"**The claim {finding.verdict}.** {finding.explanation}",
    ]
    if finding.table is not None:
        parts.append(_markdown(finding.table))
    return "\n\n".join(parts)


def _bodies(page: Path) -> dict[str, str]:
    return sections(page.read_text(encoding="utf-8")) if page.exists() else {}


def _markdown(table: pl.DataFrame) -> str:
    rows = table.head(MOST_ROWS).iter_rows()
    return markdown_table(table.columns, ([_cell(value) for value in row] for row in rows))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.3g}"
    return "" if value is None else str(value)
