"""Every figure runs at small scale, is drawn, judged and described."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from research.catalogue import PAPERS, chosen
from research.figure import Figure, Finding, Paper, Scale, Setting, Verdict
from research.page import write_index, write_section
from research.reproduce import reproduce
from veilstream.errors import InvalidInputError, UnreadableFileError
from veilstream.evaluate.drawing import panels
from veilstream.evaluate.runner import Measurement

DATA = Path(os.environ.get("VEILSTREAM_DATA", str(Path(__file__).resolve().parents[3] / "shared" / "data")))
SMALL = Setting(Scale.SMALL, DATA)


def tally(path: str) -> dict[str, float]:
    """Leaves a word for every call."""
    with Path(path).open("a", encoding="utf-8") as log:
        log.write("called")
    return {"calls": 1.0}


@pytest.mark.parametrize(("paper", "figure"), [pytest.param(p, f, id=f.name) for p, f in chosen([])])
def test_every_figure_runs(paper: Paper, figure: Figure, tmp_path: Path) -> None:
    if figure.missing(SMALL):
        pytest.skip(f"{', '.join(figure.missing(SMALL))}: lies beside the project")
    result = reproduce(paper, figure, SMALL, tmp_path, workers=1)
    assert result.picture.read_bytes().startswith(b"\x89PNG")
    assert result.finding.explanation
    assert f"**The claim {result.finding.verdict}.**" in result.page.read_text(encoding="utf-8")
    table = pl.read_parquet(result.results)
    assert table.height > 0
    assert table["value"].is_finite().all()


def test_names_are_of_their_paper_and_unique() -> None:
    names = [figure.name for _, figure in chosen([])]
    assert len(set(names)) == len(names)
    assert all(figure.name.startswith(f"{paper.name}-") for paper, figure in chosen([]))
    assert [paper.name for paper, _ in chosen(["dsat"])] == ["dsat"] * len(PAPERS["dsat"].figures)
    with pytest.raises(InvalidInputError, match="figure 'dsat-99'"):
        chosen(["dsat-99"])


def test_a_page_keeps_its_other_sections_in_the_papers_order(tmp_path: Path) -> None:
    paper, figure = chosen(["dsat-2"])[0]
    other = Figure("dsat-1", "another", "c.", "s.", figure.measurements, figure.draw, figure.judge)
    both = Paper("dsat", "t", "r", (other, figure))
    table = pl.DataFrame({"k": [0.25], "none": [None]})
    write_section(both, figure, Finding(Verdict.HOLDS, "first words.", table), SMALL, 3, tmp_path)
    write_section(both, other, Finding(Verdict.FAILS, "other words."), SMALL, 3, tmp_path)
    page = write_section(both, figure, Finding(Verdict.PARTLY, "new words."), SMALL, 3, tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text.index("other words.") < text.index("new words.")
    assert "first words." not in text
    assert "does not hold" in text
    assert paper.name == "dsat"


def test_a_figure_may_draw_what_another_measured(tmp_path: Path) -> None:
    def measurements(_: Setting) -> list[Measurement]:
        return [Measurement({"seed": 1}, tally, (str(tmp_path / "calls"),))]

    def draw(_: pl.DataFrame) -> object:
        return panels(1)[0]

    def judge(table: pl.DataFrame) -> Finding:
        return Finding(Verdict.HOLDS, f"{table.height} row.")

    first = Figure("p-1", "one", "c.", "s.", measurements, draw, judge)
    second = Figure("p-2", "two", "c.", "s.", measurements, draw, judge, record="p-1")
    paper = Paper("p", "t", "r", (first, second))
    for figure in paper.figures:
        result = reproduce(paper, figure, SMALL, tmp_path, workers=1)
        assert result.picture.name == f"{figure.name}.png"
    assert (tmp_path / "calls").read_text(encoding="utf-8") == "called"
    assert {figure.record for _, figure in chosen([])} <= {"", *(figure.name for _, figure in chosen([]))}


def test_the_index_lists_the_verdicts_of_what_was_run(tmp_path: Path) -> None:
    paper, figure = chosen(["fast-6"])[0]
    write_section(paper, figure, Finding(Verdict.FAILS, "words."), SMALL, 3, tmp_path)
    text = write_index(PAPERS.values(), tmp_path).read_text(encoding="utf-8")
    assert "Of the claims below, does not hold: 1." in text
    assert "| [fast-6](fast.md#figure-6-choice-of-r-in-the-kalman-filter) | choice of R" in text
    assert "dsat-2]" not in text


def test_missing_data_are_named() -> None:
    with pytest.raises(UnreadableFileError, match=r"no\.csv: there is no such file"):
        Setting(Scale.SMALL).file("no.csv")
