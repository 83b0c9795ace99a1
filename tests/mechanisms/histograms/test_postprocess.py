"""Post-processing reads public values alone and gives what it promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms import Geometric, Privelet
from veilstream.mechanisms.postprocessed import PostProcessed, PostProcessedStream
from veilstream.mechanisms.streams import Sample, Uniform
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.checks import check_histogram, check_stream
from veilstream.testing.simulation import simulate, simulate_many
from veilstream.values.postprocess import ConsistentTotal, NonNegative, Whole, post_process
from veilstream.values.values import Values

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(values=numbers, total=st.one_of(st.none(), st.integers(0, 10**6)))
def test_the_projection_is_feasible_and_no_feasible_neighbour_is_nearer(values: list[float], total: int | None) -> None:
    noisy = np.array(values)
    wanted = max(noisy.sum(), 0.0) if total is None else float(total)
    result = post_process(Values(noisy, 1.0), (ConsistentTotal(total),)).numbers
    assert result.min() >= 0
    assert result.sum() == pytest.approx(wanted, abs=1e-3)
    # Optimal: what stays positive was lowered by one and the same number, what is 0 by at least as little.
    lowered = noisy - result
    if wanted > 0 and (result > 1e-6).any():
        shift = lowered[result > 1e-6]
        assert np.ptp(shift) < 1e-3
        assert (noisy[result == 0] <= shift.max() + 1e-3).all()


@settings(max_examples=200, deadline=None)
@given(values=numbers)
def test_whole_numbers_keep_the_sum(values: list[float]) -> None:
    result = post_process(Values(np.array(values), 1.0), (Whole(),)).numbers
    assert result.dtype == np.int64
    assert abs(result.sum() - np.sum(values)) <= 0.5 + 1e-6
    assert np.abs(result - np.array(values)).max() < 1 + 1e-9


def test_steps_together_give_non_negative_whole_numbers_with_a_public_total() -> None:
    tidy = PostProcessed(Privelet(direct=()), (ConsistentTotal(500), Whole()))
    y = simulate(Sample(tidy), Guarantee("1/10", w=1), np.full((1, 50), 10), seed=3)
    assert y.min() >= 0
    assert y.sum() == 500
    assert np.array_equal(y, np.rint(y))


def test_clipping_lowers_the_error_of_sparse_data() -> None:
    sparse = np.zeros((1, 400), dtype=np.int64)
    sparse[0, ::40] = 200
    plain, clipped, total = (
        np.abs(simulate(Sample(h), Guarantee("1/10", w=1), sparse, seed=2) - sparse).mean()
        for h in (Geometric(), PostProcessed(Geometric(), (NonNegative(),)), PostProcessed(Geometric()))
    )
    assert clipped < 0.6 * plain
    assert total < 0.6 * clipped


def test_a_stream_shows_processed_values_and_keeps_its_own() -> None:
    data, g = np.zeros((6, 8), dtype=np.int64), Guarantee(1, w=3)
    raw = simulate(Uniform(), g, data, seed=5)
    shown = simulate(PostProcessedStream(Uniform(), (NonNegative(),)), g, data, seed=5)
    assert np.array_equal(shown, np.maximum(raw, 0))
    assert raw.min() < 0


def test_wrappers_conform() -> None:
    check_histogram(PostProcessed(Geometric(), (ConsistentTotal(), Whole())))
    check_stream(PostProcessedStream(Sample(), (NonNegative(),)))


def test_many_simulated_runs_are_processed_one_by_one() -> None:
    y = simulate_many(Uniform(PostProcessed(Geometric())), Guarantee(1, w=2), np.full((2, 5), 3), seed=1, runs=20)
    assert y.shape == (20, 2, 5)
    assert np.asarray(y).min() >= 0


def test_a_total_is_a_whole_number() -> None:
    with pytest.raises(InvalidInputError, match="total -1"):
        ConsistentTotal(-1)
