"""Measured figures stand in tables that a command writes; prose says what they show and leads to them."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.running import ROOT

NUMBER = r"(?<![\w.^=/·√−-])\d[\d,]*(?:\.\d+)?"
DECIMAL = r"(?<![\w.])\d*\.\d+"
MEASURED = re.compile(
    "|".join([
        rf"{NUMBER}(?:\s?×|\stimes)(?=\s(?:as|the|that|its|their|ours|less|more|smaller|larger|slower|faster|longer)\b)",
        rf"{NUMBER}(?:\s(?:to|and)\s[\d.,]+)?\s(?:ns|µs|ms|s|seconds?|minutes?|kB|MB|GB|TB|KiB|MiB|GiB)\b",
        rf"{NUMBER}\s?(?:%|percent)\s(?:more|less|better|worse|longer|above|below|faster|slower|of the error)\b",
        rf"{NUMBER}\sof\s(?:the\s)?\d[\d,]*\s(?:settings|rows|lines|streams|cases|runs|series)\b",
        rf"{DECIMAL}\s(?:to|against)\s\d*\.\d+",
        rf"{NUMBER}\sof the error\b",
    ])
)  # fmt: skip
"""A number with a unit of time or size, a multiple, a share of an error, a range of fractions."""
WRITTEN = ("docs/benchmarks/", "docs/experiments/", "docs/benchmarks.md")
"""Pages that commands write."""
GENERATED = re.compile(r"<!-- begin (\S+) -->.*?<!-- end \1 -->", re.DOTALL)
NOT_PROSE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)

ALLOWED = {
    **{("docs/guides/operate.md", f"{number} s"): "a setting" for number in (5, 10, 15, 45)},
    **{("docs/guides/operate.md", size): "a setting" for size in ("16 GiB", "256 MiB", "64 MiB")},
    **{("docs/live.md", f"{number} s"): "a limit" for number in (8, 10, 30, 60)},
    **{("docs/live.md", size): "a limit" for size in ("16 GiB", "1 GiB", "256 MiB", "512 MiB")},
    ("docs/ingest.md", "512 MB"): "a setting",
    ("docs/ledger.md", "16 MB"): "a setting of SQLite",
    ("docs/model.md", "5 minutes"): "the name of a stream",
    ("docs/personalised.md", "64 times"): "a constant of the proof",
    ("docs/personalised.md", "5.2 to 5.11"): "numbers of figures",
    ("docs/personalised.md", "5.2 to 5.5"): "numbers of figures",
    ("docs/personalised.md", "5.6 to 5.9"): "numbers of figures",
    ("docs/population.md", "24 times"): "the hours of a day",
    ("docs/presence.md", "512 MB"): "a setting",
    ("docs/presence.md", "3.7 GB"): "arithmetic from the bytes of a person",
    ("docs/spark.md", "1 MB"): "a setting of Spark",
    ("docs/synthesis.md", "4 MB"): "a setting of the peer",
    ("offline.py", "1, s"): "a formula",
    ("measure.py", "15 minutes"): "a step",
    ("bivariate.py", "1.55 to 1.55"): "the bounds of a grid",
}
"""What looks measured and is not, by page."""


def figures(text: str) -> list[str]:
    """What looks measured in the prose and in the tables of a page, outside of blocks that commands write."""
    return [found[0] for found in MEASURED.finditer(NOT_PROSE.sub("]", GENERATED.sub("", text)))]


def test_prose_holds_no_measured_figures() -> None:
    pages = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    assert len(pages) > 50
    found = {
        (name, figure)
        for page in pages
        if not (name := str(page.relative_to(ROOT))).startswith(WRITTEN)
        for figure in figures(page.read_text(encoding="utf-8"))
    }
    assert not found - ALLOWED.keys(), "say it in words and link to the table, or have a command write it"


def test_docstrings_hold_no_measured_figures() -> None:
    """They become pages of the site."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [
        (path.name, ast.get_docstring(node) or "")
        for path in (ROOT / "src" / "veilstream").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds)
    ]
    assert len(texts) > 1_000
    found = {(name, figure) for name, text in texts for figure in figures(text)}
    assert not found - ALLOWED.keys()


@pytest.mark.parametrize(
    "measured",
    [
        "it takes 0.8 s on two cores", "32 ms", "holds 2.1 GB", "from 6 to 20 seconds", "14 times smaller",
        "8 times the error", "0.07 to 0.37 of plain noise", "0.57 against 0.11", "wins in 30 of 75 settings",
        "takes 5% longer", "at 0.5 of the error", "| this pipeline | 0.52 s |",
    ],
)  # fmt: skip
def test_a_measured_figure_is_found(measured: str) -> None:
    assert figures(f"We saw: {measured}.")


@pytest.mark.parametrize(
    "said",
    [
        "a 95 % interval", "ε = 0.1, w = 40", "within any 24 hours", "√2 times the noise", "10⁶ bins",
        "| 1 | 2.7 | 73.1 % |", "`--every 30 s`", "<!-- begin x -->\n4.2 times as fast\n<!-- end x -->",
        "```\n3 MB\n```", "[a](page.md#takes-3-s)",
    ],
)  # fmt: skip
def test_settings_and_generated_blocks_are_left_alone(said: str) -> None:
    assert not figures(said)
