"""Plans of looks: what they promise can be paid for in the long run, and rare looks follow quiet alone."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)

import veilstream as vs
from tests.mechanisms.streams.model.test_mechanism import walked
from veilstream.mechanisms.streams import ModelBased
from veilstream.mechanisms.streams.model.looks import Reason
from veilstream.mechanisms.streams.model.periods import Period
from veilstream.mechanisms.streams.model.plans import gaps_of, quiet_needed, reserve, target, watch
from veilstream.mechanisms.streams.model.reserve import Book


@pytest.mark.parametrize("window", [4, 10, 40, 120])
@pytest.mark.parametrize("bins", [1, 50])
def test_looks_and_watches_of_every_gap_can_be_paid_for_in_the_long_run(window: int, bins: int) -> None:
    period = Period(window)
    for gap in gaps_of(period)[1:]:
        wanted, watched = target(gap, period, bins), watch(gap, period, bins)
        kept, book = period.kept(reserve(gap, period)), Book.empty()
        assert wanted > period.even > kept >= 2 * watched
        for step in range(4 * window + 2 * gap):
            room = book.room(step, period, kept)
            assert room >= kept
            charge = wanted if step % gap == 0 else watched
            assert charge <= room
            book = book.charged(step, charge, step, period)


def test_rarer_looks_keep_less_and_need_more_quiet() -> None:
    period = Period(40)
    kept = [reserve(gap, period) for gap in gaps_of(period)]
    assert kept == sorted(kept, reverse=True)
    assert list(quiet_needed(period)) == sorted(quiet_needed(period))
    assert quiet_needed(period)[-1] == 3 * 40


def test_a_stream_that_stands_still_is_looked_at_once_in_a_window_after_three_of_them() -> None:
    counts = np.full((260, 12), 30, dtype=np.int64)
    _, charges, _ = walked(ModelBased(), vs.Guarantee(1, w=30), counts)
    looks = [t for t, step in enumerate(charges) for charge in step if charge.purpose == "look"]
    assert all(later - earlier > 30 for earlier, later in zip(looks[-3:], looks[-2:], strict=False))


def test_a_surprise_far_below_the_noise_of_looks_at_every_step_does_not_bring_them() -> None:
    """From 40 to 120 in bins whose looks at every step would have a noise of 1200: longer gaps stay the better ones."""
    counts = (
        default_rng(7).poisson(np.where(np.arange(200) < 120, 40, 120)[:, None] * np.ones((1, 20))).astype(np.int64)
    )
    _, charges, states = walked(ModelBased(), vs.Guarantee("1/30", w=40), counts)
    looked = [any(charge.purpose == "look" for charge in step) for step in charges]
    assert np.mean(looked[120:]) < 0.5
    assert sum(state.looks.reason is Reason.EVERY_STEP for state in states[120:]) < 20
