"""Many runs at once have the law of single runs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from veilstream.audit.pairs import Pair, alternation, constant, follower, known_threshold
from veilstream.audit.pool import PooledNoise
from veilstream.audit.runs import one_by_one, stream_outputs
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms import Geometric
from veilstream.mechanisms.streams import DSAT, DSFT, Uniform
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.batch import BatchMeter, ForkingMeter
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter

USER = Guarantee(1, w=None)
HALF = Fraction(1, 2)


def same_law(one: NDArray[Any], other: NDArray[Any], alarm: float = 1e-9) -> bool:
    """Chi-square test of two samples of labels; labels seen fewer than 20 times are gathered."""
    labels, inverse = np.unique(np.concatenate([one, other]), return_inverse=True)
    table = np.array([np.bincount(part, minlength=labels.size) for part in np.split(inverse, [one.size])], dtype=float)
    rare = table.sum(axis=0) < 20
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    return bool(((table - expected) ** 2 / expected).sum() < chi2.isf(alarm, max(table.shape[1] - 1, 1)))


CASES: list[tuple[Any, Guarantee, Pair]] = [
    (DSFT(releases=3, horizon=6, decision_share=HALF, threshold=0), USER, known_threshold(4, None, steps=6)),
    (DSFT(releases=2, decision_share=HALF, threshold=0), Guarantee(2, w=3), alternation(4, 3, steps=6)),
    (DSFT(releases=6, decision_share=HALF, threshold=0), Guarantee(9, w=7), known_threshold(4, 7, steps=10)),
    (DSAT(releases=3, horizon=6, decision_share=HALF), USER, follower(6, None, steps=6)),
    (DSAT(releases=2, decision_share=HALF), Guarantee(2, w=3), constant(3, steps=6)),
]


@pytest.mark.parametrize(
    ("mechanism", "guarantee", "pair"), CASES, ids=lambda part: getattr(part, "name", str(part))[:20]
)
def test_runs_that_fork_have_the_law_of_single_runs(mechanism: Any, guarantee: Guarantee, pair: Pair) -> None:
    """Patterns of fresh steps, and rounded last values; false alarm 2e-9 each."""
    together = stream_outputs(mechanism, guarantee, pair, True, 20_000, seed=1)
    values, fresh = one_by_one(mechanism, guarantee, pair, True, 400, seed=2)
    single = np.hstack([pair.seen(values).reshape(400, -1), fresh])
    assert together.shape[1] == single.shape[1] == 2 * pair.steps
    powers = 2 ** np.arange(pair.steps)
    patterns = [rows[:, pair.steps :] @ powers for rows in (together, single)]
    assert len(np.unique(patterns[0])) > 2
    assert same_law(patterns[0], patterns[1])
    last = [np.rint(rows[:, pair.steps - 1] / 4) for rows in (together, single)]
    assert same_law(last[0], last[1])


def test_lanes_have_the_law_of_single_runs() -> None:
    """Rounded sums of values; false alarm 1e-9."""
    pair, guarantee = constant(3, steps=3), Guarantee(2, w=3)
    together = stream_outputs(Uniform(), guarantee, pair, True, 50_000, seed=1)
    values, _ = one_by_one(Uniform(), guarantee, pair, True, 1_000, seed=2)
    assert same_law(together.sum(axis=1), values.sum(axis=(1, 2)))


def test_what_a_forked_run_is_charged_is_what_a_single_run_is_charged() -> None:
    """A mechanism that would pass its budget in one branch is refused in that branch."""
    accountant = Accountant(USER, 1)
    meter = ForkingMeter(accountant, PooledNoise(1), 0, batch=(1_000,))
    threshold = meter.open_threshold(Fraction(1, 4), Fraction(1, 4), Fraction(1), "decide")
    assert meter.above(threshold, seal(np.array([10**6]), 0), 0.0) is True
    assert accountant.left == Fraction(1, 4)


def test_a_plain_meter_answers_for_runs_that_agree() -> None:
    meter = BatchMeter(Accountant(USER, 1), PooledNoise(1), 0, batch=(1_000,))
    threshold = meter.open_threshold(Fraction(1, 4), Fraction(1, 4), Fraction(1), "decide")
    with pytest.raises(InvalidInputError, match="run by run"):
        meter.above(threshold, seal(np.array([5]), 0), 0.0)
    assert meter.above(threshold, seal(np.array([10**6]), 0), 0.0)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_pooled_noise_is_handed_out_once(law: str) -> None:
    noise = PooledNoise(3)
    scale = Fraction(10**9)
    drawn = np.concatenate([getattr(noise, law)(scale, size) for size in (1, 5, 60, 1, 64, 65, 3) * 40])
    assert np.unique(drawn).size > drawn.size - 5


def test_followed_streams_stay_counts() -> None:
    """A release far below 0 gives empty steps, not negative ones."""
    pair = known_threshold(3, None, steps=2)
    sealed = pair.feed(False)(1, np.array([-500.0]))
    released = Geometric().estimate(
        sealed, Fraction(10**5), Meter(Accountant(Guarantee(10**5, w=1), 1), PooledNoise(1), 1)
    )
    assert released.numbers.tolist() == [0]
