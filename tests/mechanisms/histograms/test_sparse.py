"""Sealed records: what one person moves is derived, exact cells stay inside, lists of cells have the exact law."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from veilstream.errors import (
    BudgetExceededError,
    InvalidDomainError,
    InvalidInputError,
    SealedAccessError,
    UnknownValueError,
)
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.meter import Meter
from veilstream.trusted.noisy_cells import LISTED_OUTRIGHT, noisy_cells
from veilstream.trusted.opening import open_counts, open_labels, open_records, open_scores, opened
from veilstream.trusted.records import SealedRecords, cell_keys, gathered, seal_records
from veilstream.trusted.statistics import median_scores, record_median_scores
from veilstream.trusted.statistics.base import JointScores
from veilstream.values.boxes import Boxes

SHAPE = (6, 5, 4)
Rows = NDArray[np.int64]


def sampler(seed: int) -> ExactSampler:
    return ExactSampler(SeededSource(seed))


def meter_for(guarantee: Guarantee, seed: int = 1) -> Meter:
    return Meter(Accountant(guarantee, 1), sampler(seed), 0)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Rows, Rows, int]:
    """Two tables, of which the second has up to l1 more rows, all of one person."""
    l1 = draw(st.integers(1, 4))
    row = st.tuples(*(st.integers(0, length - 1) for length in SHAPE))
    base = draw(st.lists(row, max_size=12))
    extra = draw(st.lists(row, max_size=l1))
    first = np.array(base, dtype=np.int64).reshape(-1, 3)
    second = np.array(base + extra, dtype=np.int64).reshape(-1, 3)
    return first, second, l1


AXES, WIDTHS, LOW = np.array([0, 1, 2, 1]), np.array([6, 0, 4, 5]), 0
"""Of the four nodes of ``two_levels``: the attribute each is cut on and its length, 0 for a node that is not cut."""


def two_levels(records: SealedRecords) -> SealedRecords:
    halves = records.split(np.array([0]), np.array([3]), np.array([0]), np.array([1]))
    return halves.split(np.array([1, 2]), np.array([2, 1]), np.array([0, 2]), np.array([1, 3]))


PIPELINES: dict[str, Any] = {
    "counts": lambda r: r.counts(),
    "nodes of a tree": lambda r: two_levels(r).counts(),
    "projection": lambda r: r.project([2, 0]).dense(),
    "coarser": lambda r: r.coarser(1).dense(),
    "dense": lambda r: r.dense(),
}


@given(neighbours())
@settings(max_examples=150, deadline=None)
def test_no_derived_bound_is_passed_by_one_person(case: tuple[Rows, Rows, int]) -> None:
    first, second, l1 = case
    for name, pipeline in PIPELINES.items():
        a: Sealed = pipeline(seal_records(first, SHAPE, 0, l1))
        b: Sealed = pipeline(seal_records(second, SHAPE, 0, l1))
        moved = int(np.abs(open_counts(a) - open_counts(b)).sum())
        assert moved <= a.l1 == b.l1, name


@given(neighbours())
@settings(max_examples=150, deadline=None)
def test_median_scores_of_all_nodes_together_move_by_no_more_than_their_sensitivity(
    case: tuple[Rows, Rows, int],
) -> None:
    first, second, l1 = case
    a, b = (_by_question(medians_of_nodes(rows, l1)) for rows in (first, second))
    moved = sum(int(np.abs(x - y).max()) for x, y in zip(a, b, strict=True))
    assert moved <= l1 == medians_of_nodes(first, l1).sensitivity


@given(neighbours())
@settings(max_examples=150, deadline=None)
def test_scores_in_runs_are_those_of_the_listed_histograms(case: tuple[Rows, Rows, int]) -> None:
    rows, _, l1 = case
    records = two_levels(seal_records(rows, SHAPE, 0, l1))
    cells, counts = open_records(records)
    listed = np.zeros((4, 6), dtype=np.int64)
    np.add.at(listed, (open_labels(records), cells[np.arange(len(cells)), AXES[open_labels(records)]] - LOW), counts)
    by_hand = [
        -np.abs(2 * np.cumsum(counts[:width])[:-1] - counts[:width].sum())
        for counts, width in zip(listed, WIDTHS, strict=True)
        if width
    ]
    found = _by_question(medians_of_nodes(rows, l1))
    assert [part.tolist() for part in found] == [part.tolist() for part in by_hand]


def medians_of_nodes(rows: Rows, l1: int) -> JointScores:
    return record_median_scores(
        two_levels(seal_records(rows, SHAPE, 0, l1)), AXES, np.full(4, LOW, dtype=np.int64), WIDTHS
    )


def _by_question(scores: JointScores) -> list[NDArray[np.int64]]:
    _, lengths = opened(scores)
    each = np.repeat(open_scores(scores), 1 if lengths is None else lengths)
    return np.split(each, np.cumsum(scores.sizes)[:-1])


def test_median_scores_by_hand() -> None:
    scores = median_scores(seal(np.array([2, 3, 5, 1, 1]), 0), np.array([3, 2]))
    assert scores.sizes.tolist() == [2, 1]
    assert open_scores(scores).tolist() == [-6, 0, 0]


def test_one_level_of_medians_loses_no_more_than_its_charge() -> None:
    """Exact probabilities of the pair of cuts on neighbouring data whose one person has a row in each node."""
    epsilon, l1 = 0.7, 2
    tables = [np.array([4, 1, 0, 2, 0, 3, 3, 1]), np.array([4, 1, 1, 2, 1, 3, 3, 1])]
    logs: list[NDArray[np.float64]] = []
    for counts in tables:
        scores = open_scores(median_scores(seal(counts, 0, l1), np.array([4, 4])))
        parts = np.split(scores, 2)
        each = [epsilon / (2 * l1) * part - np.log(np.exp(epsilon / (2 * l1) * part).sum()) for part in parts]
        logs.append(each[0][:, None] + each[1][None, :])
    assert np.abs(logs[0] - logs[1]).max() <= epsilon


def test_records_are_gathered_in_order_even_where_flat_numbers_overflow() -> None:
    shape = (1000,) * 8
    rows = np.array([[999] * 8, [0] * 7 + [1], [999] * 8, [0] * 8])
    cells, counts = gathered(rows, np.ones(4, dtype=np.int64), shape)
    assert cells.tolist() == [[0] * 8, [0] * 7 + [1], [999] * 8]
    assert counts.tolist() == [1, 1, 2]
    assert cell_keys(rows, shape).shape[1] == 2


def test_splitting_counts_what_falls_on_either_side() -> None:
    rows = np.array([[0, 0, 0], [2, 4, 0], [3, 0, 0], [5, 0, 3], [5, 4, 3], [5, 4, 3]])
    assert open_counts(two_levels(seal_records(rows, SHAPE, 0)).counts()).tolist() == [1, 1, 1, 3]


@pytest.mark.parametrize("act", [len, list, bool, float, copy.copy, copy.deepcopy, np.asarray])
def test_nothing_reads_records(act: Any) -> None:
    with pytest.raises(SealedAccessError):
        act(seal_records(np.array([[1, 2]]), (5, 5), 0))


def test_messages_and_representation_hold_no_record() -> None:
    assert "17" not in repr(seal_records(np.array([[17, 17]]), (50, 50), 0))
    with pytest.raises(UnknownValueError) as error:
        seal_records(np.array([[77, 1]]), (50, 50), 0)
    assert "77" not in str(error.value)


@pytest.mark.parametrize(
    ("rows", "shape", "match"),
    [
        (np.array([[0.5, 1.0]]), (5, 5), "whole numbers"),
        (np.array([1, 2]), (5, 5), "rows of 2"),
        (np.array([[1, 2]]), (5, 0), "from 1 to"),
        (np.array([[1, 2]]), (), "domain"),
    ],
)
def test_bad_records_are_refused(rows: Any, shape: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        seal_records(rows, shape, 0)


def test_a_domain_too_large_to_list_is_refused_with_a_way_out() -> None:
    records = seal_records(np.array([[1] * 8]), (1000,) * 8, 0)
    with pytest.raises(InvalidDomainError, match=r"1e\+24 cells") as refused:
        records.dense()
    assert "sparse" in refused.value.next_step
    with pytest.raises(InvalidDomainError):
        Boxes((10**4, 10**4), np.zeros((1, 2), dtype=np.int64), np.ones((1, 2), dtype=np.int64), np.ones(1)).dense()


# --- Lists of cells -----------------------------------------------------------------------------------------


class Forced:
    """Noise with given marked cells: filled cells get 0, every marked cell has the least value that reaches."""

    def __init__(self, marked: int) -> None:
        self.marked = marked
        self.next = 0

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> Rows:
        return np.zeros(size, dtype=np.int64)

    def reaching(self, scale: Fraction, level: int, trials: int) -> int:
        assert trials == 10**6
        return self.marked

    def below(self, bound: int, count: int) -> Rows:
        return np.full(count, 3) if count == self.marked else np.arange(count) + 1


def test_marked_cells_are_distinct_and_never_replace_filled_ones() -> None:
    """The first two draws coincide at (3, 3), which is filled; the redraw gives (1, 1): one empty cell is listed."""
    records = seal_records(np.array([[3, 3]] * 9 + [[5, 5]] * 2), (1000, 1000), 0)
    cells, values = noisy_cells(records, 4, Fraction(1), Forced(2))
    assert cells.tolist() == [[1, 1], [3, 3]]
    assert values.tolist() == [4, 9]


@pytest.mark.parametrize("shape", [(60, 50), (400, 300)], ids=["cell by cell", "by the count of marked cells"])
def test_both_ways_of_listing_have_the_law_of_noise_on_every_cell(shape: tuple[int, int]) -> None:
    """Number listed, excess over the level and a filled cell's passing; each below 1e-7 at 5.5 sigma."""
    assert (shape[0] * shape[1] <= LISTED_OUTRIGHT) == (shape == (60, 50))
    records = seal_records(np.array([[7, 7]] * 6), shape, 0)
    scale, level, runs = Fraction(2), 8, 400
    noise = sampler(12)
    lists = [noisy_cells(records, level, scale, noise) for _ in range(runs)]
    q = np.exp(-0.5)
    p, cells = q**level / (1 + q), shape[0] * shape[1] - 1
    filled = [((c == 7).all(axis=1)).any() for c, _ in lists]
    empty = np.array([len(c) for c, _ in lists]) - np.array(filled)
    assert abs(empty.mean() - cells * p) < 5.5 * np.sqrt(cells * p / runs)
    passing = q**2 / (1 + q)
    assert abs(np.mean(filled) - passing) < 5.5 * np.sqrt(passing * (1 - passing) / runs)
    excess = np.concatenate([v[~(c == 7).all(axis=1)] for c, v in lists]) - level
    assert (
        stats.chisquare(
            [(excess == 0).sum(), (excess == 1).sum(), (excess > 1).sum()],
            excess.size * np.array([1 - q, (1 - q) * q, q**2]),
        ).pvalue
        > 1e-8
    )
    rows = np.concatenate([c for c, _ in lists])[:, 0]
    assert stats.chisquare(np.bincount(rows * 4 // shape[0], minlength=4)).pvalue > 1e-8
    for c, _ in lists:
        flat = np.ravel_multi_index(tuple(c.T), shape)
        assert (np.diff(flat) > 0).all()


def test_a_list_is_charged_once_before_it_is_drawn() -> None:
    records = seal_records(np.array([[1] * 8]), (1000,) * 8, 0, max_contribution=3)
    meter = meter_for(Guarantee(1, w=1))
    listed = meter.reaching(records, 600, Fraction(1, 2), "list")
    assert float(np.max(listed.std)) == pytest.approx(6 * np.sqrt(2), rel=0.01)
    assert meter.left == Fraction(1, 2)
    with pytest.raises(BudgetExceededError):
        meter.reaching(records, 600, Fraction(3, 4), "list")
    with pytest.raises(InvalidInputError, match="empty cells would reach it"):
        meter.reaching(records, 5, Fraction(1, 4), "list")
    with pytest.raises(InvalidInputError, match="from 1"):
        meter.reaching(records, 0, Fraction(1, 4), "list")
    assert meter.left == Fraction(1, 2)


def test_listing_from_a_dataset_and_its_neighbour_is_within_epsilon() -> None:
    """Exact probabilities of what can be seen of one cell (absent, or each value) with 0 and with 1 record."""
    epsilon, level = 0.6, 5
    q = np.exp(-epsilon)
    x = np.arange(-200, 400)
    law = (1 - q) / (1 + q) * q ** np.abs(x)
    seen: list[NDArray[np.float64]] = []
    for count in (0, 1):
        at = x + count
        seen.append(np.concatenate([[law[at < level].sum()], [law[at == v].sum() for v in range(level, 150)]]))
    assert np.abs(np.log(seen[0] / seen[1])).max() <= epsilon * (1 + 1e-9)


# --- Boxes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(9,), (9, 7), (5, 6, 7)])
def test_many_ranges_are_counted_as_one_by_one(shape: tuple[int, ...]) -> None:
    words = SeededSource(len(shape)).words(2 * 300 * len(shape)).reshape(2, 300, len(shape))
    ends = np.sort((words % np.array(shape, dtype=np.uint64)).astype(np.int64), axis=0)
    boxes = Boxes(shape, ends[0, :200], ends[1, :200] + 1, np.arange(-50, 150, dtype=np.float64))
    low, high = ends[0, 200:], ends[1, 200:] + 1
    one_by_one = [boxes.count(a, b) for a, b in zip(low, high, strict=True)]
    np.testing.assert_allclose(boxes.count(low, high), one_by_one, rtol=1e-9, atol=1e-9)


def test_ranges_are_answered_as_from_the_dense_table() -> None:
    low = np.array([[0, 0], [4, 2], [5, 2]])
    high = np.array([[4, 6], [6, 6], [6, 3]])
    boxes = Boxes((6, 6), low, high, np.array([24.0, 16.0, 3.0]))
    table = boxes.dense()
    assert table.sum() == pytest.approx(boxes.total)
    for a, b in (((0, 0), (6, 6)), ((1, 1), (5, 3)), ((5, 2), (6, 3)), ((4, 0), (6, 2)), ((2, 2), (2, 5))):
        assert boxes.count(a, b) == pytest.approx(table[a[0] : b[0], a[1] : b[1]].sum())


@pytest.mark.parametrize(
    ("low", "high"), [([[0, 0]], [[0, 1]]), ([[0, 0]], [[7, 1]]), ([[-1, 0]], [[1, 1]]), ([[0]], [[1]])]
)
def test_impossible_boxes_are_refused(low: Any, high: Any) -> None:
    with pytest.raises(InvalidInputError, match="box"):
        Boxes((6, 6), np.array(low), np.array(high), np.ones(1))


def test_ranges_of_other_dimensions_are_refused() -> None:
    boxes = Boxes((6, 6), np.array([[0, 0]]), np.array([[1, 1]]), np.ones(1))
    with pytest.raises(InvalidInputError, match="2 attributes"):
        boxes.count([1, 2, 3], [2, 3, 4])


def test_exact_records_are_in_order() -> None:
    cells, counts = open_records(seal_records(np.array([[2, 0], [0, 1], [2, 0]]), (3, 3), 0))
    assert cells.tolist() == [[0, 1], [2, 0]]
    assert counts.tolist() == [1, 2]
