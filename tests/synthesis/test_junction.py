"""Laws on junction trees: the tables they were fitted to, all others by elimination, and rows that follow them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.mechanisms.histograms.haar import smoothed
from veilstream.synthesis.denoising import denoised
from veilstream.synthesis.junction import Junction, Scope, cliques_of, fits
from veilstream.synthesis.views import best_covering, covering

SIZES = (3, 4, 2, 3)
SCOPES: tuple[Scope, ...] = ((0, 1), (1, 2), (2, 3), (0, 3), (0, 1, 2))


def joint(seed: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)  # noqa: TID251 (test data)
    return np.asarray(rng.dirichlet(np.full(math.prod(SIZES), 0.3)).reshape(SIZES))


def margin(law: NDArray[np.float64], scope: Scope) -> NDArray[np.float64]:
    return np.asarray(law.sum(axis=tuple(axis for axis in range(law.ndim) if axis not in scope)))


@given(st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_a_law_has_the_tables_that_it_was_fitted_to(seed: int) -> None:
    exact = joint(seed)
    law = Junction([margin(exact, (axis,)) for axis in range(4)], SCOPES)
    law.fit({scope: margin(exact, scope) for scope in SCOPES}, sweeps=60)
    for scope in SCOPES:
        assert np.abs(law.table(scope) - margin(exact, scope)).sum() < 1e-3


def test_all_pairs_of_a_chain_are_those_of_its_product() -> None:
    exact = joint(1)
    chain: list[Scope] = [(0, 1), (1, 2), (2, 3)]
    law = Junction([margin(exact, (axis,)) for axis in range(4)], chain)
    law.fit({scope: margin(exact, scope) for scope in chain})
    steps = [margin(exact, scope) for scope in chain]
    given_one = steps[1] / steps[1].sum(axis=1, keepdims=True)
    assert np.allclose(law.pairs()[0, 2], steps[0] @ given_one)
    assert set(law.pairs()) == set(itertools.combinations(range(4), 2))


def test_drawn_rows_have_the_tables_of_cliques_but_for_rounding() -> None:
    """Independent draws of 20,000 rows would be off by about 1%."""
    exact = joint(2)
    law = Junction([margin(exact, (axis,)) for axis in range(4)], SCOPES)
    law.fit({scope: margin(exact, scope) for scope in SCOPES})
    rows = law.draw(20_000, np.random.default_rng(3))  # noqa: TID251 (rows of a public law)
    for scope in SCOPES:
        cells = np.ravel_multi_index(tuple(rows[axis] for axis in scope), [SIZES[axis] for axis in scope])
        shape = [SIZES[axis] for axis in scope]
        drawn = (np.bincount(cells, minlength=math.prod(shape)) / 20_000).reshape(shape)
        assert np.abs(drawn - law.table(scope)).sum() < 0.005


def test_columns_that_hang_on_one_are_independent_given_it() -> None:
    """Four in 10,000 pairs: a correlation of 0.1 would be ten standard deviations."""
    half = np.full(2, 0.5)
    fine = np.full(500, 1 / 500)
    law = Junction([fine, half, half], [(0, 1), (0, 2)])
    rows = law.draw(10_000, np.random.default_rng(4))  # noqa: TID251 (rows of a public law)
    assert abs(float(np.corrcoef(rows[1], rows[2])[0, 1])) < 0.1


def test_cliques_that_would_not_fit_are_known_before() -> None:
    ring: list[Scope] = [(axis, (axis + 1) % 6) for axis in range(6)]
    assert max(map(len, cliques_of([4] * 6, ring))) == 3
    assert fits([4] * 6, ring, most=4 * 64)
    assert not fits([4] * 6, [*ring, (0, 3), (1, 4), (2, 5)], most=4 * 64)


@pytest.mark.parametrize("sizes", [[2] * 16, [2, 3, 4, 5, 6], [30, 30]])
def test_every_pair_is_in_a_view(sizes: list[int]) -> None:
    pairs = set(itertools.combinations(range(len(sizes)), 2))
    for views in (covering(sizes, 64), best_covering(sizes, float)[0]):
        assert pairs == {pair for view in views for pair in itertools.combinations(view, 2)}


def test_denoising_leaves_less_error_than_the_noise_and_keeps_a_prediction_that_holds() -> None:
    rng = np.random.default_rng(5)  # noqa: TID251 (test data)
    left, right = rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(12))
    alone = 5000 * np.outer(left, right)
    tied = 0.5 * alone + 2500 * np.diag(left)
    errors = np.zeros((2, 2))
    for noise in rng.laplace(0, 30, (40, 12, 12)):
        errors[0] += [np.abs(noise).sum(), np.abs(denoised(alone + noise, alone, 30 * math.sqrt(2)) - alone).sum()]
        errors[1] += [np.abs(noise).sum(), np.abs(denoised(tied + noise, alone, 30 * math.sqrt(2)) - tied).sum()]
    assert errors[0, 1] < 0.3 * errors[0, 0]
    assert errors[1, 1] < 0.8 * errors[1, 0]


def test_smoothing_keeps_spikes_and_flattens_noise() -> None:
    rng = np.random.default_rng(6)  # noqa: TID251 (test data)
    exact = np.full(100, 40.0)
    exact[[0, 40]] = 3000
    error = [np.abs(smoothed(exact + noise, 28.0) - exact).sum() for noise in rng.laplace(0, 20, (20, 100))]
    assert np.mean(error) < 0.6 * 20 * 100
