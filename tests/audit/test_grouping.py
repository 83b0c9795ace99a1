"""Bins of retroactive grouping are independent trials, which is how its claims are attacked."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.audit.grouping_entries import GroupedBins, retroactive_grouping
from veilstream.audit.pairs import one_event
from veilstream.mechanisms.protocols import accountant_for
from veilstream.mechanisms.streams import RetroactiveGrouping
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values

EVENT = Guarantee(1, w=1)
STEPS, BINS = 40, 12


class _OwnNoise(ExactSampler):
    """Noise of a bin that depends on the bin, the step and its own questions alone, not on who else is asked."""

    __slots__ = ("_asked", "_names", "bins", "question")

    def __init__(self, names: list[int]) -> None:
        super().__init__(SeededSource(0))
        self._names = np.array(names)
        self._asked: Counter[tuple[int, int, int]] = Counter()
        self.bins: NDArray[np.int64] = np.arange(len(names))
        self.question: tuple[int, int] = (0, 0)

    def laplace(self, scale: Any, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        drawn: list[int] = []
        # A unit that is published apart from those before it comes as a second value of its bin.
        for name in np.resize(self._names[self.bins], size).tolist():
            key = (*self.question, int(name))
            self._asked[key] += 1
            drawn.append(ExactSampler(SeededSource((*key, self._asked[key]))).laplace(scale, 1)[0])
        return np.array(drawn, dtype=np.int64)


class _OwnMeter(Meter):
    def __init__(self, accountant: Accountant, noise: _OwnNoise, t: int) -> None:
        super().__init__(accountant, noise, t)
        self._own = noise

    def laplace(self, x: Sealed, epsilon: Fraction, purpose: str) -> Values:
        self._own.question = (self.t, len(purpose))
        # The monitor draws for all bins, whichever it reads.
        read = None if purpose == "monitor" else x.bins
        self._own.bins = np.arange(x.size) if read is None else read.astype(np.int64)
        return super().laplace(x, epsilon, purpose)


def _published(mechanism: RetroactiveGrouping, guarantee: Guarantee, histories: Any, names: list[int]) -> Any:
    accountant, noise = accountant_for(mechanism, guarantee, len(names)), _OwnNoise(names)
    state: Any = mechanism.start(guarantee, len(names))
    seen: list[Any] = []
    for t in range(STEPS):
        now = seal(histories[t, names], t, 1)
        state, values = mechanism.step(state, now, _OwnMeter(accountant, noise, t))
        std = np.broadcast_to(values.std, len(names))
        seen.append([values.numbers, std, state.window.guess, state.window.open_units])
    return np.array(seen, dtype=np.float64)


@pytest.mark.parametrize(
    ("mechanism", "guarantee"),
    [
        (RetroactiveGrouping(window=4, largest_group=4, tail=1), EVENT),
        (RetroactiveGrouping(window=3, revise=False, tail=1, factor=2), EVENT),
        (RetroactiveGrouping(window=4, largest_group=4, tail=1), Guarantee(1, w=2)),
    ],
    ids=["revised", "printed", "window"],
)
def test_a_bin_alone_publishes_what_it_publishes_among_others(
    mechanism: RetroactiveGrouping, guarantee: Guarantee
) -> None:
    """Whatever is in the other bins: with the same draws a bin's numbers, noises, means and decisions are the same."""
    moves = ExactSampler(SeededSource(5)).laplace(4, (STEPS, BINS))
    moves[:, ::2] = 0
    histories = np.abs(30 + np.cumsum(moves, axis=0))
    together = _published(mechanism, guarantee, histories, list(range(BINS)))
    assert np.unique(together[:, 3]).size > 1
    for b in (0, 1, 4, 7):
        alone = _published(mechanism, guarantee, histories, [b])
        assert np.array_equal(alone[..., 0], together[..., b])


def test_bins_of_one_run_are_not_the_same_trial() -> None:
    """Rows are independent: successive bins are uncorrelated. False alarm below 1e-6 (5 standard deviations)."""
    draw = GroupedBins(RetroactiveGrouping(window=3), EVENT, one_event(3))
    rows = draw(True, 20_000, 3)
    noise = rows[:, 4] - rows[:, 4].mean()
    assert abs((noise[1:] * noise[:-1]).mean()) < 5 * noise.var() / np.sqrt(noise.size)


def test_calm_histories_reach_groups() -> None:
    """The claims about groups see bins that publish at once and bins that wait."""
    claims = [claim for claim in retroactive_grouping() if "group" in claim.name]
    assert len(claims) > 0
    for claim in claims:
        rows = claim.draw(True, 500, 1)
        waiting = rows[:, 2::3] > 0
        assert 0.1 < waiting.any(axis=1).mean() < 0.9
