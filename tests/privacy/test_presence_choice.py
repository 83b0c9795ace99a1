"""The chosen presence is the one that errs least, and is none where none pays."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import veilstream as vs
from veilstream.data import Calendar, read_events
from veilstream.data.bounding.presence_visits import visit_histogram
from veilstream.errors import InvalidInputError
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence_choice import Promise, chosen_guarantee, presence_curve
from veilstream.trusted.opening import open_counts

ROWS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 11)), min_size=1, max_size=40)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(ROWS, st.integers(1, 12))
def test_the_histogram_counts_people_and_stretches_by_their_visits(rows: list[tuple[int, int]], steps: int) -> None:
    frame = {"id": [row[0] for row in rows], "t": [row[1] for row in rows]}
    events = read_events(frame, user="id", time="t", by=[])
    sealed = visit_histogram(events, Calendar(0, 12, 1), steps=steps, most=3)
    visits = Counter((who, t // steps) for who, t in set(rows))
    expected = Counter(min(number, 3) for number in visits.values())
    assert open_counts(sealed).tolist() == [expected[k] for k in (1, 2, 3)]


@settings(deadline=None, max_examples=40, derandomize=True)
@given(ROWS, st.integers(2, 5), st.integers(0, 11))
def test_a_window_that_goes_moves_the_histogram_by_at_most_four(
    rows: list[tuple[int, int]], steps: int, first: int
) -> None:
    rest = [row for row in rows if row[0] != 1 or not first <= row[1] < first + steps] + [(9, 0)]
    tables: list[NDArray[np.int64]] = []
    for kept in ([*rows, (9, 0)], rest):
        events = read_events({"id": [r[0] for r in kept], "t": [r[1] for r in kept]}, user="id", time="t", by=[])
        tables.append(open_counts(visit_histogram(events, Calendar(0, 12, 1), steps=steps, most=5)))
    assert np.abs(tables[0] - tables[1]).sum() <= 4


def test_the_best_presence_beats_its_neighbours_and_the_plain_guarantee() -> None:
    curve = presence_curve([5000, 900, 300, 100, 40, 20], 1, steps=40)
    best = curve.best
    assert best is not None
    assert curve.error(best) < curve.plain
    assert curve.error(best) == min(curve.error(c) for c in range(1, len(curve.noise) + 1))
    assert chosen_guarantee(curve, 1, 40) == Guarantee(1, w=40, presence=best)


@pytest.mark.parametrize(
    ("promise", "horizon", "expected"),
    [
        (Promise.WINDOW, None, Guarantee(1, w=30)),
        (Promise.BLOCK, None, Guarantee(1, per=30, presence=30)),
    ],
)
def test_regulars_are_better_off_without(promise: Promise, horizon: int | None, expected: Guarantee) -> None:
    curve = presence_curve([0.0] * 29 + [900.0], 1, steps=30, promise=promise, horizon=horizon)
    assert chosen_guarantee(curve, 1, 30) == expected


def test_for_ever_needs_to_know_for_how_long_people_are_followed() -> None:
    curve = presence_curve([100, 20], 1, steps=30, promise="for ever", horizon=300)
    assert chosen_guarantee(curve, 1, 30) == Guarantee(1, w=None, presence=curve.best)
    for steps, horizon in ((30, None), (0, 300)):
        with pytest.raises(InvalidInputError):
            presence_curve([100, 20], 1, steps=steps, promise="for ever", horizon=horizon)
    events = read_events({"id": [1], "t": [0]}, user="id", time="t", by=[])
    with pytest.raises(InvalidInputError):
        visit_histogram(events, Calendar(0, 12, 1), steps=6, promise="for ever")


def test_a_small_budget_chooses_nearly_as_well_as_the_exact_numbers() -> None:
    """Noise of scale 4·20 on each number; the seed is fixed, and twenty others choose within one as well."""
    exact = np.array([5000, 900, 300, 100, 40, 20, 10, 5])
    noisy = vs.simulate(vs.STREAMS["uniform"](), Guarantee("1/5", w=1), exact[None], seed=3, max_contribution=4)[0]
    found, best = presence_curve(noisy.tolist(), 1, steps=40), presence_curve(exact.tolist(), 1, steps=40)
    assert found.best is not None
    assert best.best is not None
    assert best.error(found.best) <= 1.15 * best.error(best.best)
