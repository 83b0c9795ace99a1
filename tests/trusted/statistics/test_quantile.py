"""Scores of cuts: no unit moves them by more than is said, and choices by them lose no more than their budget."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import seal
from veilstream.trusted.opening import open_scores
from veilstream.trusted.statistics import cut_scores

SHARES = (0.1, 0.5, 0.9)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=4, max_size=12),
    st.integers(1, 3),
    st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99)),
    st.data(),
)
def test_no_unit_moves_the_scores_of_all_stretches_by_more_than_was_said(
    counts: list[int], moved: int, shares: tuple[float, float], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(counts) - 1))
    firsts, widths = np.array([0, cut]), np.array([cut, len(counts) - cut])
    here, there = np.array(counts), np.array(counts)
    for _ in range(moved):
        there[data.draw(st.integers(0, len(counts) - 1))] += 1
    found = [cut_scores(seal(x, 0, moved), firsts, widths, np.array(shares)) for x in (here, there)]
    gaps = np.abs(open_scores(found[0]) - open_scores(found[1]))
    assert sum(int(part.max()) for part in np.split(gaps, [cut])) <= found[0].sensitivity


def law(counts: NDArray[np.int64], epsilon: float, sensitivity: float | None = None) -> dict[tuple[int, ...], float]:
    """The exact probabilities of all triples of cuts, level by level, from the scores alone."""
    x, cells = seal(counts, 0), len(counts)
    found: dict[tuple[int, ...], float] = {}

    def chances(first: int, after: int, share: float) -> dict[int, float]:
        if after == first:
            return {after: 1.0}
        scores = cut_scores(x, np.array([first]), np.array([after - first]), np.array([share]))
        # A level has one sensitivity, that of its largest share.
        scale = 2 * (float(scores.sensitivity) if sensitivity is None else sensitivity)
        weights = np.exp(epsilon / 2 / scale * open_scores(scores).astype(np.float64))
        return {first + 1 + i: float(w) for i, w in enumerate(weights / weights.sum())}

    for middle, chance in chances(0, cells, 0.5).items():
        lower, upper = chances(0, middle, 0.2), chances(middle, cells, 0.8)
        for (low, one), (high, other) in product(lower.items(), upper.items()):
            found[low, middle, high] = chance * one * other
    return found


@pytest.mark.parametrize(("sensitivity", "private"), [(None, True), (200.0, False)], ids=["proved", "too small"])
def test_three_cuts_lose_their_budget_and_no_more(sensitivity: float | None, private: bool) -> None:
    """Exact: every triple, with and without one row in any cell. A sensitivity of 200/1024 is found out."""
    epsilon, worst = 1.0, 0.0
    for counts in ([3, 0, 1, 2], [0, 0, 0, 5], [6, 1, 0, 0], [0, 0, 0, 0]):
        here = np.array(counts)
        for cell in range(len(counts)):
            there = here.copy()
            there[cell] += 1
            one, other = law(here, epsilon, sensitivity), law(there, epsilon, sensitivity)
            assert one.keys() == other.keys()
            assert math.fsum(one.values()) == pytest.approx(1)
            worst = max(worst, *(abs(math.log(one[cuts] / other[cuts])) for cuts in one))
    assert (worst <= epsilon * (1 + 1e-9)) == private
    assert worst > epsilon / 4


def test_stretches_that_overlap_or_leave_the_data_are_refused() -> None:
    x, half = seal(np.array([1, 2, 3, 4]), 0), np.array([0.5, 0.5])
    for firsts, widths in (([0, 1], [2, 2]), ([0, 2], [2, 3]), ([0, 2], [0, 2])):
        with pytest.raises(InvalidInputError):
            cut_scores(x, np.array(firsts), np.array(widths), half)
    assert cut_scores(x, np.array([0]), np.array([4]), half[:1]).sensitivity == Fraction(512)
