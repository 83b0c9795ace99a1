"""Claims of retroactive grouping, whose bins are trials.

Whatever grouping decides, publishes and charges in a bin it reads from that bin alone (a test runs bins alone and
together with the same draws). So one run over many bins that all have the same history is as many independent runs of
the mechanism on one bin, each with or without the event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.attack import Claim
from veilstream.audit.pairs import Pair, border_burst, one_event
from veilstream.audit.pool import PooledNoise
from veilstream.audit.runs import Seed
from veilstream.mechanisms.session import StreamSession
from veilstream.mechanisms.streams import RetroactiveGrouping
from veilstream.mechanisms.streams.group_plan import FEWEST_UNITS
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import seal

EVENT: Final = Guarantee(1, w=1)
QUICK: Final = 2_000


@dataclass(frozen=True, slots=True)
class GroupedBins:
    """What is public of each bin from the step before the event on, one bin a trial.

    Published sums of windows mix the noise of all their units; a mean that stands in for open units tells a single
    sum, and how many units are open tells when it was published. The attacker sees all three.
    """

    mechanism: RetroactiveGrouping
    guarantee: Guarantee
    pair: Pair

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        pair, noise = self.pair, PooledNoise(seed)
        history = pair.others[:, 0] + (pair.person[:, 0] if present else 0)
        first = max(int(np.flatnonzero(pair.person[:, 0])[0]) - 1, 0)
        session = StreamSession(self.mechanism, self.guarantee, trials, noise)
        seen: list[NDArray[Any]] = []
        for t, count in enumerate(history.tolist()):
            now = seal(np.full(trials, count, dtype=np.int64), t, pair.max_contribution)
            released, window = session.step(now, t), session.state.window
            if t >= first:
                seen += [released.numbers, window.guess, window.open_units]
        return np.stack(seen, axis=1).astype(np.float64, copy=False)


def _claim(mechanism: RetroactiveGrouping, pair: Pair, name: str, guarantee: Guarantee = EVENT) -> Claim:
    pair.check(guarantee)
    draw = GroupedBins(mechanism, guarantee, pair)
    return Claim(f"{name}, {guarantee}", guarantee.epsilon, draw, quick=QUICK)


def _calm(at: int, jump: int = 0, after: int = 2, crowd: int = 20, events: int = 1) -> Pair:
    """So much calm that about half of the bins group, then events ``at`` units into groups, perhaps at a jump."""
    event = FEWEST_UNITS + at
    others = np.full((event + events + after, 1), crowd, dtype=np.int64)
    others[event:] += jump
    person = np.zeros_like(others)
    person[event : event + events] = 1
    return Pair("events after calm", others, person)


def retroactive_grouping() -> list[Claim]:
    """The first groups have 2 units, the next 4; a monitor that has most of the budget must not tell more than that."""
    own = RetroactiveGrouping(window=4, largest_group=4)
    printed = RetroactiveGrouping(window=3, revise=False, tail=1, factor=2, monitor="1/10")
    watchful = RetroactiveGrouping(window=4, largest_group=4, tail=1, monitor="9/10")
    sampled = RetroactiveGrouping(window=4, largest_group=4, tail=1, monitor="1/2", sampling="1/2")
    # (2/ε₂²)^½ for ε₂ = 1/10: where this monitor is about as likely to fire as not.
    level = 14
    return [
        _claim(own, one_event(3), "one event in a unit alone"),
        _claim(own, _calm(0), "one event in the first unit of a group"),
        _claim(own, _calm(1), "one event in the last unit of a group"),
        _claim(own, _calm(2, after=4), "one event between two groups"),
        _claim(own, _calm(1, crowd=0), "one event in empty steps"),
        _claim(own, _calm(1, jump=40), "one event at a jump that ends a group"),
        _claim(watchful, _calm(0, jump=level, after=1), "one event at the level of the monitor"),
        _claim(sampled, _calm(0, jump=3), "one event that the monitor may sample"),
        _claim(sampled, _calm(0, crowd=0), "one event in empty steps that the monitor may sample"),
        _claim(printed, one_event(5, at=2), "one event, as printed"),
        _claim(printed, one_event(5, jump=True), "one event at a jump, as printed"),
        _claim(own, border_burst(2, border=2, steps=5), "two events in units alone", Guarantee(1, w=2)),
        _claim(own, _calm(0, events=2), "two events in one group", Guarantee(1, w=2)),
        _claim(own, _calm(1, events=2, after=3), "two events in two groups", Guarantee(1, w=2)),
    ]


GROUPING_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {"retroactive-grouping": retroactive_grouping}
"""Name in ``STREAMS`` -> its claims."""
