"""Claims about people who count in few steps: neighbours that try to change as many steps as they can.

A pair is made by the bounding itself: a person is present in some steps, all that they do in one unit goes, and
``PresenceHistory`` says in which steps they count before and afterwards. What is counted only afterwards is why a
sliding window costs 2c steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.attack import Claim, stream_claim
from veilstream.audit.pairs import Counts, Pair
from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.presence import PresenceHistory
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import DSAT, BudgetAbsorption, BudgetDistribution, Fast, FixedRate, Sample, Uniform
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed, seal

OTHERS: Final = 20
SLIDING: Final = Guarantee(1, w=5, presence=2)
FOR_EVER: Final = Guarantee(1, w=None, presence=2)
BLOCKS: Final = Guarantee(1, per=4, presence=2)


def counted_steps(guarantee: Guarantee, present: Iterable[bool | np.bool_]) -> NDArray[np.bool_]:
    """In which steps a person counts who is present in these.

    >>> counted_steps(SLIDING, [True] * 7).tolist()
    [True, True, False, False, False, False, False]
    """
    history = PresenceHistory(guarantee, bytes(16))
    row = Rows(np.array([1]), None, np.array([0]))
    counted = [bool(here) and bool(history.counted(row, step)[0]) for step, here in enumerate(present)]
    return np.array(counted, dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class PresencePair(Pair):
    """A person who counts by ``person`` with all their rows, and by ``afterwards`` without those of one unit."""

    afterwards: Counts = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64), repr=False)

    def check(self, guarantee: Guarantee) -> None:
        """Refuse a pair that differs in more steps than the guarantee reaches; what goes was chosen as one unit."""
        differing = np.count_nonzero((self.person != self.afterwards).any(axis=1))
        if guarantee.reach is None or differing > guarantee.reach:
            raise InvalidInputError(
                name="pair",
                value=self.name,
                limit=f"it differs in {differing} steps, neighbours differ in {guarantee.reach}",
            )

    def feed(self, present: bool) -> Callable[[int, NDArray[Any] | None], Sealed]:
        """Sealed counts of step t with all rows of the person, or without those of the unit."""
        counts = self.others + (self.person if present else self.afterwards)
        return lambda t, _published: seal(counts[t], t, self.max_contribution, shape=(self.bins,))


def presence_pair(
    name: str, guarantee: Guarantee, present: Sequence[int], gone: Sequence[int], steps: int, others: int = OTHERS
) -> PresencePair:
    """A person present in the steps ``present``, and without those of ``gone``, which must be one unit's."""
    here = np.isin(np.arange(steps), present)
    left = counted_steps(guarantee, here)
    right = counted_steps(guarantee, here & ~np.isin(np.arange(steps), gone))
    counts = [counted.astype(np.int64)[:, None] for counted in (left, right)]
    return PresencePair(name, np.full((steps, 1), others, dtype=np.int64), counts[0], afterwards=counts[1])


def _pairs() -> list[tuple[Guarantee, PresencePair]]:
    daily = range(8)
    return [
        (SLIDING, presence_pair("a burst that goes lets the next one in", SLIDING, range(4), range(2), 5)),
        (SLIDING, presence_pair("a regular who stays away for a window", SLIDING, daily, range(5), 8)),
        (SLIDING, presence_pair("every second step, one of which goes", SLIDING, range(0, 8, 2), [0], 8)),
        (SLIDING, presence_pair("a window between two others", SLIDING, [0, 1, 3, 4, 6, 7], range(2, 7), 8)),
        (FOR_EVER, presence_pair("a person who was ever there", FOR_EVER, daily, daily, 8)),
        (BLOCKS, presence_pair("a whole block of a regular", BLOCKS, daily, range(4, 8), 8)),
    ]


def _claims(mechanism: StreamMechanism[Any], chosen: Sequence[int], quick: int = 10_000) -> list[Claim]:
    cases = [_pairs()[number] for number in chosen]
    return [
        stream_claim(mechanism, guarantee, pair, name=f"{pair.name}, {guarantee}", quick=quick)
        for guarantee, pair in cases
    ]


PRESENCE_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {
    "uniform": lambda: _claims(Uniform(), range(6)),
    "sample": lambda: _claims(Sample(), (0, 5)),
    "fixed-rate": lambda: _claims(FixedRate(interval=2), (1, 4)),
    "fast": lambda: _claims(Fast(), (0, 4)),
    "budget-distribution": lambda: _claims(BudgetDistribution(), (0, 5), quick=2_000),
    "budget-absorption": lambda: _claims(BudgetAbsorption(), (0, 5), quick=2_000),
    "dsat": lambda: _claims(DSAT(margin=0, spacing=0, releases=3, horizon=8), (0, 4, 5), quick=2_000),
}
"""Name in ``STREAMS`` -> claims about people who count in few steps, next to those of ``STREAM_CLAIMS``."""
