"""The parts of the navigation that follow from what there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS
from website import gallery, reference
from website.outside import ROOT

DOCS: Final = ROOT / "docs"
GUIDES: Final = (
    ("Publish", ("csv", "database", "live-counts", "measures", "running-totals", "several-streams")),
    ("Choose", ("choose", "limits-per-person", "mechanism")),
    ("Other releases", ("synthetic-tables", "own-epsilon", "points")),
    ("Run it", ("scale-out", "operate", "automate")),
    ("Tell people", ("what-to-tell", "officer")),
)
IN_DEPTH: Final = (
    "options.md", "ingest.md", "pictures.md", "advise.md", "compare.md", "live.md", "ledger.md", "spark.md",
)  # fmt: skip
"""What guides lead to: everything about one part of the program."""
FAMILIES: Final = (
    "model.md", "adaptive.md", "allocation.md", "fast.md", "retroactive_grouping.md", "measures.md", "presence.md",
    "population.md", "histograms.md", "sparse.md", "synthesis.md", "personalised.md", "metric.md",
)  # fmt: skip
PAPERS: Final = ("index", "dsat", "fast", "grouping", "copula", "personalised", "delta-neighbourhood")
MAINTAIN: Final = (
    "maintain/index.md", "design.md", "maintain/contributing.md", "maintain/releasing.md", "maintain/deprecation.md",
    "maintain/ledger-compatibility.md", "evaluation.md", "migration.md", "bundled-data.md", "maintain/licences.md",
    "maintain/changelog.md",
)  # fmt: skip


def filled(nav: list[Any]) -> list[Any]:
    """The navigation of the configuration with its empty parts filled in."""
    parts = {
        "Guides": guides(),
        "Examples": ["examples/index.md", *(f"examples/{name}.md" for name in gallery.names())],
        "Mechanisms": mechanisms(),
        "Benchmarks": [
            "benchmarks.md",
            "first-hour.md",
            *sorted(f"benchmarks/{page.name}" for page in DOCS.glob("benchmarks/*.md")),
        ],
        "Papers": [f"experiments/{name}.md" for name in PAPERS],
        "Reference": ["api/index.md", *(f"api/{part}.md" for part in (*reference.PARTS, *reference.FURTHER))],
        "Maintain": list(MAINTAIN),
    }
    made = {title: pages or parts[title] for part in nav for title, pages in part.items()}
    made["Maintain"] += unlisted(made)
    return [{title: pages} for title, pages in made.items()]


def unlisted(parts: dict[str, list[Any]]) -> list[str]:
    """Pages that nobody has given a place yet."""
    listed = {page for pages in parts.values() for page in _flat(pages)}
    return sorted({str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - listed)


def _flat(pages: list[Any]) -> Iterator[str]:
    for page in pages:
        if isinstance(page, dict):
            for inner in cast(dict[str, list[Any]], page).values():
                yield from _flat(inner)
        else:
            yield page


def guides() -> list[Any]:
    by_task = [{title: [f"guides/{name}.md" for name in names]} for title, names in GUIDES]
    return ["guides/index.md", *by_task, {"In depth": list(IN_DEPTH)}]


def mechanisms() -> list[Any]:
    return [
        "mechanisms/index.md",
        {"Streams": [f"mechanisms/{name}.md" for name in STREAMS]},
        {"Histograms": [f"mechanisms/{name}.md" for name in HISTOGRAMS]},
        {"Families and measurements": list(FAMILIES)},
    ]
