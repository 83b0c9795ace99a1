"""Tables for experiments: generated and real ones, and what is asked of them."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from research.tables.methods import ByBoxes, ByCells, ByCopula, TableMethod, joined_values, range_errors
from research.tables.sources import ACSTable, AdultTable, CodedTable, Generated, RangeCounts, Shortened
from veilstream.errors import UnreadableFileError
from veilstream.evaluate.queries import Ranges
from veilstream.mechanisms.histograms import PSD, Geometric

DATA = Path(os.environ.get("VEILSTREAM_DATA", str(Path(__file__).resolve().parents[3] / "shared" / "data")))
SMALL = Generated(rows=3000, attributes=2, domain=32)


@pytest.mark.parametrize("source", [SMALL, Generated(rows=300, attributes=1), Generated(rows=300, domain=70_000)])
def test_counts_are_those_of_a_plain_loop(source: Generated) -> None:
    table = source.load()
    ranges = RangeCounts(queries=50).ranges(table.shape, seed=3)
    plain = [
        sum(all(a <= code < b for code, a, b in zip(row, low, high, strict=True)) for row in table.codes.tolist())
        for low, high in zip(ranges.low.tolist(), ranges.high.tolist(), strict=True)
    ]
    assert table.count(ranges).tolist() == plain


def test_errors_use_the_larger_of_both_bounds() -> None:
    answers, truth = np.array([10.0, 0.0]), np.array([0.0, 100.0])
    assert RangeCounts(sanity=5.0).errors(answers, truth, 1000) == {"relative error": 1.5, "absolute error": 55.0}
    assert RangeCounts(sanity_share=0.01).errors(answers, truth, 1000)["relative error"] == 1.0


@pytest.mark.parametrize("method", [ByCopula(), ByBoxes(PSD(height=10)), ByCells(Geometric())])
def test_with_next_to_no_noise_methods_tell_the_truth(method: TableMethod) -> None:
    found = range_errors(SMALL, RangeCounts(queries=100), method, "100000", 1)
    # A drawn copy of 3000 rows is off by sampling: at most √3000/2 rows in the mean.
    assert found["absolute error"] < (30 if isinstance(method, ByCopula) else 0.1)


def test_the_same_seed_gives_the_same_errors() -> None:
    one, two = (range_errors(SMALL, RangeCounts(queries=20), ByCopula(), "1", 7) for _ in range(2))
    assert one["relative error"] == two["relative error"]


def test_coarse_cells_are_spread_evenly() -> None:
    table = CodedTable(np.zeros((64, 2), dtype=np.int64), (8, 8))
    answers = ByCells(Geometric(), most_cells=16).release(table, Fraction(100_000), 1)
    assert joined_values(table.shape, 16) == (2, 2)
    found = answers(Ranges(np.array([[0, 0], [0, 0], [1, 1]]), np.array([[8, 8], [1, 1], [2, 2]])))
    np.testing.assert_allclose(found, [64.0, 16.0, 16.0], atol=0.5)


@pytest.mark.parametrize("source", [AdultTable(DATA), ACSTable(DATA, 3), Shortened(AdultTable(DATA), 100)])
def test_real_tables_fit_their_domain(source: AdultTable | ACSTable | Shortened) -> None:
    try:
        table = source.load()
    except UnreadableFileError as absent:
        pytest.skip(str(absent))
    assert len(table.codes) > 0
    assert (table.codes >= 0).all()
    assert (table.codes < np.array(table.shape)).all()


def test_an_absent_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="adult_pgm_discretized"):
        AdultTable(tmp_path).load()
