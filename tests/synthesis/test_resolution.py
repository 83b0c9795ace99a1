"""How finely pairs are measured, and values inside groups: what is held, what is kept, and where it goes with noise."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.synthesis.bivariate import pair_probabilities
from veilstream.synthesis.following import followed
from veilstream.synthesis.graph_budget import Budget, NoisyMargins
from veilstream.synthesis.graph_layout import GraphLayout, Marginal
from veilstream.synthesis.junction import Scope, evenly_inside
from veilstream.synthesis.refining import Part, fine_table, refined
from veilstream.synthesis.resolution import Resolution, best_resolution, share_of_margins, unmeasured
from veilstream.synthesis.views import covering, coverings, holds_every_pair, spread_of

EVEN = np.full(24, 1 / 24)


def halves(rho: float) -> NDArray[np.float64]:
    return pair_probabilities(np.array([0.5, 0.5]), np.array([0.5, 0.5]), rho)


def correlation(table: NDArray[np.float64]) -> float:
    p = table / table.sum()
    rows, columns = np.arange(p.shape[0]), np.arange(p.shape[1])
    off = [rows - p.sum(axis=1) @ rows, columns - p.sum(axis=0) @ columns]
    spread = (p.sum(axis=1) @ off[0] ** 2) * (p.sum(axis=0) @ off[1] ** 2)
    return float(off[0] @ p @ off[1] / np.sqrt(spread))


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_a_covering_holds_every_pair_and_keeps_its_bound(sizes: list[int], doubling: int) -> None:
    most = int(np.prod(sorted(sizes)[-2:])) << doubling
    views = covering(sizes, most)
    assert holds_every_pair(views, len(sizes))
    assert all(np.prod([sizes[axis] for axis in view]) <= most for view in views)


def test_noise_adds_up_by_squares_inside_a_view() -> None:
    """A pair's table of 4 cells sums 4 cells each of a table of 16: half of 4 times the root of 4."""
    assert spread_of([2] * 4, [(0, 1, 2, 3)]) == pytest.approx(4.0)
    assert len(coverings((2,) * 8)) > 1


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_more_rows_for_the_budget_make_finer_groups(noise: str) -> None:
    layout = GraphLayout((24,) * 6, (True,) * 6)
    found: list[Resolution] = []
    for amount in (1, 10, 100, 10_000):
        option = best_resolution(layout, Budget(noise, Fraction(amount), Fraction(1)), 800.0)  # type: ignore[arg-type]
        assert option is not None
        found.append(option)
    groups = [option.groups for option in found]
    assert groups == sorted(groups)
    assert groups[0] < groups[-1]
    errors = [option.noise + option.lost for option in found]
    assert errors == sorted(errors, reverse=True)


def test_tables_without_room_for_every_pair_have_no_resolution() -> None:
    budget = Budget("laplace", Fraction(1), Fraction(1))
    assert best_resolution(GraphLayout((2,) * 200, (False,) * 200), budget, 100.0) is None
    assert best_resolution(GraphLayout((5,), (False,)), budget, 100.0) is None


def test_margins_that_tables_tell_get_nothing() -> None:
    budget = Budget("laplace", Fraction(1), Fraction(1))
    assert share_of_margins(GraphLayout((2, 3), (False, False)), [2, 3], 10.0, budget) == 0
    assert unmeasured([2, 30], [2, 4]) == [0]
    layouts = [GraphLayout((2, size), (False, False)) for size in (8, 30, 200)]
    shares = [share_of_margins(layout, [2, 4], 10.0, budget) for layout in layouts]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1


def test_tables_tell_margins_by_their_precisions() -> None:
    tables = [
        Marginal((0, 1), np.array([[10.0, 10.0], [20.0, 20.0]]), 1.0),
        Marginal((0, 2), np.array([[40.0, 40.0], [20.0, 20.0]]), 3.0),
    ]
    told = NoisyMargins.none([2, 2, 2]).told_by(tables, [0])
    assert told.counts[0].tolist() == pytest.approx([(20 * 9 + 80) / 10, 40.0])
    assert told.precisions[0] == pytest.approx(1 / 2 + 1 / 18)
    assert told.counts[1].tolist() == [0, 0]


@pytest.mark.parametrize("rho", [-0.7, 0.3, 0.9])
def test_two_groups_tell_the_correlation_of_fine_values(rho: float) -> None:
    parts = [Part.of(EVEN, np.repeat([0, 1], 12), np.array([0.5, 0.5]), ordered=True) for _ in range(2)]
    table = fine_table(halves(rho), parts[0], parts[1])
    true = correlation(pair_probabilities(EVEN, EVEN, rho))
    assert correlation(table) == pytest.approx(true, abs=0.03)
    assert np.abs(table.sum(axis=1) - EVEN).max() < 0.01
    coarse = table.reshape(2, 12, 2, 12).sum(axis=(1, 3))
    assert np.abs(coarse - halves(rho)).max() < 1e-6


def test_inside_groups_a_category_has_the_slope_between_them() -> None:
    """The share of the first category falls from group to group: so it does inside of the middle one."""
    ordered = Part.of(EVEN, np.repeat([0, 1, 2], 8), np.full(3, 1 / 3), ordered=True)
    answer = Part.of(np.array([0.5, 0.5]), np.arange(2), np.array([0.5, 0.5]), ordered=False)
    table = np.array([[0.3, 1 / 30], [1 / 6, 1 / 6], [1 / 30, 0.3]])
    share = fine_table(table, ordered, answer)[:, 0] * 24
    assert (np.diff(share[8:16]) < 0).all()
    assert share[8] - share[15] > 0.1


@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 30))
@settings(max_examples=40, deadline=None)
def test_drawn_values_lie_in_their_groups_and_follow_the_margin(seed: int, groups: int, values: int) -> None:
    rng = np.random.default_rng(seed)  # noqa: TID251 (test data)
    parts: list[Part] = []
    for ordered in (True, False, True):
        labels = np.sort(rng.integers(0, groups, values)) if ordered else rng.integers(0, groups, values)
        labels = np.unique(labels, return_inverse=True)[1].astype(np.int64).reshape(-1)
        counts = rng.random(values) * (rng.random(values) < 0.8)
        law = np.bincount(labels, counts + 1e-12)
        parts.append(Part.of(counts, labels, law / law.sum(), ordered))
    laws = [np.asarray(np.bincount(part.groups, part.values), dtype=np.float64) for part in parts]
    pairs: dict[Scope, NDArray[np.float64]] = {
        (j, k): np.asarray(np.outer(laws[j], laws[k]), dtype=np.float64) for j, k in itertools.combinations(range(3), 2)
    }
    drawn = [rng.choice(law.size, 3000, p=law / law.sum()) for law in laws]
    columns = refined(parts, pairs, drawn, rng)
    for part, group, column in zip(parts, drawn, columns, strict=True):
        assert (part.groups[column] == group).all()
        present = np.bincount(group, minlength=part.groups.max() + 1) / 3000
        expected = part.values * (present / np.maximum(np.bincount(part.groups, part.values), 1e-300))[part.groups]
        assert np.abs(np.bincount(column, minlength=values) / 3000 - expected).sum() / 2 < 0.1


def test_items_of_a_group_come_as_often_as_their_weights_say() -> None:
    groups, weights = np.array([1, 0, 1, 0, 1]), np.array([1.0, 3.0, 2.0, 1.0, 0.0])
    rng = np.random.default_rng(3)  # noqa: TID251 (test data)
    given_groups = np.repeat([0, 1], [400, 900])
    counts = np.bincount(evenly_inside(groups, weights, given_groups, rng), minlength=5)
    assert np.abs(counts - np.array([300, 300, 600, 100, 0])).max() <= 3


def test_a_jump_is_followed_at_once_and_noise_is_not() -> None:
    last = np.zeros(100)
    still, _, _ = followed(last, 1.0, np.tile([1.0, -1.0], 50), 1.0, drift=0.0)
    assert np.abs(still).max() == pytest.approx(0.5)
    jumped, variance, _ = followed(last, 1.0, np.full(100, 30.0), 1.0, drift=0.0)
    assert jumped.min() > 29
    assert variance < 1
