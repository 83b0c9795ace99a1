"""One page per mechanism of the catalogues: idea, picture, mathematics, corrections, use, example, measurement."""

from __future__ import annotations

import json
from typing import Any, Final

from veilstream.evaluate.pages import markdown_table
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS
from website.docstrings import blocks, code_cell, is_example, markdown, text_cell, text_of
from website.members import Member
from website.outside import ROOT
from website.uses import HISTOGRAM_USES, STREAM_USES, Use

FOLDER: Final = ROOT / "docs" / "mechanisms"
MEASURED: Final = FOLDER / "measured.json"
_STREAM_TEXT: Final = """The picture: visits for influenza-like illness in one region and age group (grey), and what the
mechanism publishes of them (blue) at ε = {epsilon} for any {w} successive weeks{tasks}. Where fresh
releases are few, points mark them."""
_HISTOGRAM_TEXT: Final = """The picture: one row of a table of 10 groups by 156 weeks (grey), and what the
mechanism publishes of it (blue) at ε = {epsilon} for the whole table."""
_INDEX: Final = """# Mechanisms

A **stream** mechanism publishes a vector of counts at every step within one guarantee. A **histogram** mechanism is
its release step (`--histogram`), a release of its own (`veilstream histogram`), or the margins of a synthetic table. Do
not choose by private data: `veilstream advise` chooses by public facts, `veilstream compare` by a public stream.
{note}

## Streams

{streams}

## Histograms

{histograms}

Other releases have pages of their own: [synthetic tables](../synthesis.md), [personal budgets](../personalised.md),
[points that move little](../metric.md), [sums and means](../measures.md).
"""


def measured() -> dict[str, Any]:
    """What ``python -m website measure`` wrote."""
    loaded: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return loaded


def pages() -> dict[str, str]:
    """Path below the folder of mechanisms -> Markdown."""
    results = measured()
    made = {"index.md": _index()}
    for name, kind in STREAMS.items():
        made[f"{name}.md"] = _page(name, kind, STREAM_USES[name], results["streams"], "streams")
    for name, histogram in HISTOGRAMS.items():
        made[f"{name}.md"] = _page(name, histogram, HISTOGRAM_USES[name], results["histograms"], "histograms")
    return made


def _index() -> str:
    streams = [
        [f"[`{name}`]({name}.md)", use.models, use.does, use.when, use.paper] for name, use in STREAM_USES.items()
    ]
    histograms = [[f"[`{name}`]({name}.md)", use.does, use.when, use.paper] for name, use in HISTOGRAM_USES.items()]
    return _INDEX.format(
        note="`veilstream mechanisms` lists all of them with their parameters.",
        streams=markdown_table(["stream", "privacy models", "what it does", "use it when", "paper"], streams),
        histograms=markdown_table(["histogram", "what it does", "it suits", "paper"], histograms),
    )


def _page(name: str, kind: type[Any], use: Use, results: dict[str, Any], part: str) -> str:
    before, shown, after = _parts(text_of(kind))
    idea, *mathematics = before
    found = results["mechanisms"][name]
    tasks = f"; {found['task']}" if part == "streams" and found["task"] != "counts" else ""
    text = (_STREAM_TEXT if part == "streams" else _HISTOGRAM_TEXT).format(**results["picture"], tasks=tasks)
    parts = [
        f"# {name}", f"**{' '.join(idea.split())}**", f"![{name} on public counts]({name}.svg)", text,
        "## When to use it",
        f"Use it when {use.when}. Look elsewhere when {use.avoid}. Privacy models: {use.models}."
        if part == "streams"
        else f"It suits {use.when}. Look elsewhere for {use.avoid}. Streams of any privacy model can release with it.",
    ]  # fmt: skip
    if mathematics:
        parts += ["## How it works", markdown("\n\n".join(mathematics))]
    parts += ["## Example", markdown("\n\n".join(shown)), _command(name, part)]
    parts += ["## Paper and corrections", markdown("\n\n".join(after)) if after else f"{use.paper}."]
    parts += ["## Measured", _measured(found, results, part)]
    parts += ["## Parameters", _parameters(kind, part)]
    more = f"[the page of its family](../{use.family}.md)"
    if (ROOT / "docs" / "benchmarks" / f"{use.tables}.md").exists():
        more += f" and [its tables](../benchmarks/{use.tables}.md)"
    return "\n\n".join([*parts, f"More: {more}.", ""])


def _parts(text: str) -> tuple[list[str], list[str], list[str]]:
    """What stands before the examples, the examples, and what stands after them: paper and corrections."""
    every = blocks(text)
    first = next(number for number, block in enumerate(every) if is_example(block))
    last = max(number for number, block in enumerate(every) if is_example(block))
    return every[:first], every[first : last + 1], every[last + 1 :]


def _command(name: str, part: str) -> str:
    option = f"--mechanism {name}" if part == "streams" else f"--histogram {name}"
    return f"On the command line: `veilstream publish ... {option}`, with parameters as `--set NAME=VALUE`."


def _measured(found: dict[str, Any], results: dict[str, Any], part: str) -> str:
    names = list(found["errors"])
    peers = [peer for peer in results["peers"] if results["mechanisms"][peer].get("task") == found.get("task")]
    rows = [[f"`{peer}`", *(results["mechanisms"][peer]["errors"][one] for one in names)] for peer in peers]
    rows.insert(0, ["**this**", *found["errors"].values()])
    return "\n\n".join([results["note"], markdown_table([part.removesuffix("s"), *names], rows)])


def _parameters(kind: type[Any], part: str) -> str:
    parameters = Member(kind.__name__, kind).parameters
    link = f"[`{kind.__name__}`](../api/{part}.md#{kind.__name__.lower()}) in the reference."
    if not parameters:
        return f"It has none. {link}"
    rows = [
        [
            f"`{one.name}`",
            code_cell(one.default) or "required",
            text_cell(one.says),
        ]
        for one in parameters
    ]
    return "\n\n".join([markdown_table(["parameter", "default", "meaning"], rows), link])
