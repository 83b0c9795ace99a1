"""BudgetDistribution: half of what is left, exactly, and the algorithm as one would write it by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import veilstream as vs
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.streams import BudgetAbsorption, BudgetDistribution
from veilstream.mechanisms.streams.budget_distribution import half_of
from veilstream.noise import ExactSampler
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.codec import encode
from veilstream.testing.simulation import SeededSource

from .adaptive import BINS, hard_streams, walk

KINDS: list[Any] = [BudgetDistribution, BudgetAbsorption]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("w", [1, 2, 7, 60, None], ids=str)
def test_no_window_ever_costs_more_than_epsilon(kind: Any, w: int | None, columns: int) -> None:
    guarantee = Guarantee("1/3", w=w)
    for stream in hard_streams(40).values():
        run = walk(kind(horizon=40, columns=columns), guarantee, stream)
        assert run.fullest(w) <= guarantee.pure


@pytest.mark.parametrize("w", [5, 12])
def test_it_is_the_algorithm_written_by_hand(w: int) -> None:
    rng = np.random.default_rng(3)  # noqa: TID251 (data)
    stream = np.cumsum(rng.integers(0, 4, (50, BINS)), axis=0)
    epsilon = Fraction(2)
    noise = ExactSampler(SeededSource(9))
    spent: list[Fraction] = []
    expected: list[list[int]] = []
    for t, counts in enumerate(stream):
        share = half_of(epsilon / 2 - sum(spent[max(0, t - w + 1) :], Fraction(0)))
        publish = t == 0
        if t > 0:
            distance = sum(abs(int(c) - x) for c, x in zip(counts, expected[-1], strict=True))
            noisy = distance + int(noise.laplace(2 * w / epsilon, (1,))[0])
            publish = noisy / BINS > 1 / share
        if publish:
            fresh = noise.laplace(1 / share, (BINS,))
            expected.append([int(c) + int(n) for c, n in zip(counts, fresh, strict=True)])
        else:
            expected.append(expected[-1])
        spent.append(share if publish else Fraction(0))
    run = walk(BudgetDistribution(), Guarantee(2, w=w), stream, seed=9)
    assert [values.numbers.tolist() for values in run.values] == expected
    assert 3 < len(run.fresh) < 50


def test_successive_releases_halve_the_budget_until_none_is_worth_making() -> None:
    run = walk(BudgetDistribution(), Guarantee(1, w=60), hard_streams(60)["growing"])
    shares = [charge.epsilon for step in run.charges for charge in step if charge.purpose == "publish"]
    assert shares[:4] == [Fraction(1, 4), Fraction(1, 8), Fraction(1, 16), Fraction(1, 32)]
    assert len(shares) == 19
    assert run.charges[-1] == []


def test_memory_does_not_grow() -> None:
    run = walk(BudgetDistribution(), Guarantee(1, w=9), hard_streams(300)["alternating"])
    sizes = [len(encode(state).header) for state in run.states]
    assert max(sizes[100:]) <= max(sizes[:100]) + 100


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_did_not_change_are_not_released_anew(kind: Any) -> None:
    """The change of 10⁶ counts is thousands of noise scales above the quiet columns."""
    stream = np.full((12, 8), 1_000)
    stream[6:, :4] = 1_000_000
    g = Guarantee(20, w=4)
    run = walk(kind(columns=2), g, stream)
    before, after = run.values[5].numbers, run.values[6].numbers
    assert (before[4:] == after[4:]).all()
    assert (before[:4] != after[:4]).all()
    assert np.shape(run.values[6].std) == (8,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [{"columns": 0}, {"horizon": 0}, {"columns": 2.5}], ids=str)
def test_bad_parameters_are_refused(kind: Any, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(bad))):
        kind(**bad)


@pytest.mark.parametrize("kind", KINDS)
def test_more_columns_than_bins_and_a_missing_horizon_are_refused(kind: Any) -> None:
    with pytest.raises(InvalidInputError, match="the stream has 3 bins"):
        vs.Publisher(bins=3, guarantee=Guarantee(1, w=2), mechanism=kind(columns=4))
    with pytest.raises(InvalidInputError, match="horizon"):
        vs.Publisher(bins=3, guarantee=Guarantee(1, w=None), mechanism=kind())


@pytest.mark.parametrize("kind", KINDS)
def test_one_step_horizons_and_windows_longer_than_the_stream(kind: Any) -> None:
    stream = hard_streams(1)["constant"]
    assert walk(kind(horizon=1), Guarantee(1, w=None), stream).fresh == [0]
    assert walk(kind(), Guarantee(1, w=10**6), hard_streams(20)["growing"]).fullest(10**3) <= 1


@given(left=st.fractions(min_value=0, max_value=10**6))
def test_half_is_never_more_than_half_and_hardly_less(left: Fraction) -> None:
    assert left / 2 * Fraction(63, 64) <= half_of(left) <= left / 2
    assert half_of(left).numerator < 1 << 9 or half_of(left).denominator == 1
