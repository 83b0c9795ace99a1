"""Noise on every sliding window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms.geometric import Geometric
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.mechanisms.streams import horizons
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True)
class State:
    """A queue of units in two stacks: sums ``ending`` with the last old unit (the top is the longest that is still in
    the window), the ``fresh`` units since then, and the sum of those."""

    ending: list[Sealed] = field(default_factory=list[Sealed])
    fresh: list[Sealed] = field(default_factory=list[Sealed])
    fresh_sum: Sealed | None = None


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """Publishes, at every step, the exact counts of the last ``window`` units plus noise.

    One event is in ω windows, so at event level each of these releases may cost ε/ω: squared error 2ω²/ε² per bin,
    ω times that of :class:`TimeUnit`; it is here to be compared with. Under a window w of protection a release reads ω
    steps and w + ω − 1 of them touch one protected window, while one person moves it by min(w, ω) · l1.

    The exact sum of a window is kept with two stacks: about two sealed additions per step, whatever ω is.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> y = simulate(SlidingWindow(window=4), Guarantee(1, w=1), np.full((1000, 20), 30), seed=1)
    >>> error = ((y[4:] - 4 * 30) ** 2).mean()
    >>> bool(abs(error / (2 * 4**2) - 1) < 0.1)
    True

    "Sliding window based perturbation", section 4.1 of Chen, Shen, Jin: Private analysis of infinite data streams via
    retroactive grouping, CIKM 2015.
    """

    window: int = 15
    histogram: HistogramMechanism = field(default_factory=Geometric)
    oblivious: ClassVar[bool] = True
    window_sums: ClassVar[bool] = True

    def __post_init__(self) -> None:
        horizons.whole(self.window, "window", self)

    def start(self, guarantee: Guarantee, bins: int) -> State:
        if not guarantee.endless:
            raise InvalidInputError(
                "guarantee at user level (w=None): an endless stream of windows would divide the budget for "
                "ever; give a window w, or TimeUnit(horizon=...) for a stream that ends"
            )
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        ending, fresh = list(state.ending), list(state.fresh)
        if not ending and len(fresh) == self.window:
            ending = _suffix_sums(fresh)
            fresh, fresh_sum = [], None
        else:
            fresh_sum = state.fresh_sum
        if ending:
            ending.pop()
        fresh.append(now)
        fresh_sum = now if fresh_sum is None else fresh_sum + now
        period = meter.guarantee.period
        releases = None if period is None else period + self.window - 1
        epsilon = meter.guarantee.pure / meter.guarantee.shares(releases, self.window)
        whole = ending[-1] + fresh_sum if ending else fresh_sum
        return State(ending, fresh, fresh_sum), self.histogram.estimate(whole, epsilon, meter)


def _suffix_sums(units: list[Sealed]) -> list[Sealed]:
    """[last, last two, ..., all]."""
    sums = [units[-1]]
    for unit in reversed(units[:-1]):
        sums.append(unit + sums[-1])
    return sums
