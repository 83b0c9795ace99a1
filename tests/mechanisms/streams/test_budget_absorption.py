"""BudgetAbsorption: skipped shares are absorbed, borrowed ones make the next steps silent, all in whole numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from veilstream.mechanisms.streams import BudgetAbsorption
from veilstream.noise import ExactSampler
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource

from .adaptive import BINS, hard_streams, walk


@pytest.mark.parametrize("w", [4, 11])
def test_it_is_the_algorithm_written_by_hand(w: int) -> None:
    rng = np.random.default_rng(3)  # noqa: TID251 (data)
    stream = np.cumsum(rng.integers(0, 4, (60, BINS)), axis=0)
    unit = Fraction(2) / (2 * w)
    noise = ExactSampler(SeededSource(9))
    expected: list[list[int]] = []
    published, used = 0, 0
    for t, counts in enumerate(stream):
        shares = 1 if t == 0 else min(t - (published + used - 1), w)
        publish = t == 0
        if t > 0 and shares >= 1:
            distance = sum(abs(int(c) - x) for c, x in zip(counts, expected[-1], strict=True))
            noisy = distance + int(noise.laplace(1 / unit, (1,))[0])
            publish = noisy / BINS > 1 / (shares * unit)
        if publish:
            fresh = noise.laplace(1 / (shares * unit), (BINS,))
            expected.append([int(c) + int(n) for c, n in zip(counts, fresh, strict=True)])
            published, used = t, shares
        else:
            expected.append(expected[-1])
    run = walk(BudgetAbsorption(), Guarantee(2, w=w), stream, seed=9)
    assert [values.numbers.tolist() for values in run.values] == expected
    assert 3 < len(run.fresh) < 60


def test_a_release_that_absorbed_makes_the_next_steps_silent() -> None:
    """Counts of 10⁸ times the step against noise of scale 24: whatever may be released is."""
    stream = np.full((40, BINS), 50, dtype=np.int64)
    stream[20:] = 10**8 * np.arange(1, 21)[:, None]
    run = walk(BudgetAbsorption(), Guarantee(1, w=12), stream, seed=2)
    used = {t: sum(c.epsilon for c in run.charges[t] if c.purpose == "publish") * 24 for t in run.fresh}
    for before, after in pairwise(run.fresh):
        assert used[after] == min(after - (before + used[before] - 1), 12)
        assert all(run.charges[t] == [] for t in range(before + 1, before + int(used[before])))
    assert max(used.values()) > 1


def test_at_user_level_all_of_epsilon_can_be_used_and_no_more() -> None:
    run = walk(BudgetAbsorption(horizon=30), Guarantee(1, w=None), hard_streams(30)["growing"])
    assert Fraction(9, 10) < run.fullest(None) <= 1
