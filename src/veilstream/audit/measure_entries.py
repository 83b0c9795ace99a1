"""Claims about measured values and distinct people: pairs that bounding itself makes of one person's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.attack import Claim, stream_claim
from veilstream.audit.pairs import Counts, Pair
from veilstream.audit.presence_entries import PresencePair, presence_pair
from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.distinct import WindowPeople, movement_of_people
from veilstream.data.bounding.keyed import Key
from veilstream.data.cells import CellColumn
from veilstream.data.values import GRID, ONE
from veilstream.mechanisms.histograms.cuts import QuantileCuts
from veilstream.mechanisms.streams import RunningTotal, Uniform
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.measured import seal_measured

OTHERS: Final = 20
CELLS: Final = 4
SO_FAR: Final = Guarantee(1, w=None, delta="1/1000", presence=1)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPair(Pair):
    """Parts of rows in multiples of 2⁻¹⁶, which one row moves by 1 in the L1 norm and by ``norm`` in the L2 norm."""

    norm: Fraction = Fraction(1)

    def feed(self, present: bool) -> Callable[[int, NDArray[Any] | None], Sealed]:
        """Sealed parts of step t with or without the person's row."""
        sums = self.others + (self.person if present else 0)
        return lambda t, _published: seal_measured(sums[t], t, Fraction(1), self.norm, grid=GRID, shape=(self.bins,))


def cell_pair(group: int, steps: int = 3) -> MeasuredPair:
    """A row in the last cell of a column, at one step of a crowd."""
    column = CellColumn("value", tuple(map(Fraction, range(CELLS + 1))), group)
    row = column.sums(np.array([0]), np.array([CELLS - 1], dtype=np.int32), 1)[0]
    others = np.tile(column.sums(np.zeros(CELLS, dtype=np.int64), np.arange(CELLS, dtype=np.int32), 1), (steps, 1))
    person = np.zeros_like(others)
    person[1] = row
    kind = "alone" if group == 1 else f"in groups of {group}"
    return MeasuredPair(f"a row in cells {kind}", others * OTHERS, person, ONE, norm=column.norm)


def people_counts(visits: Sequence[tuple[int, int]], last: int, steps: int, bins: int) -> Counts:
    """What a person with visits (step, bin) adds to the counts of distinct people over the last ``last`` steps.

    >>> people_counts([(0, 0), (1, 1)], last=2, steps=4, bins=2).tolist()
    [[1, 0], [0, 1], [0, 1], [0, 0]]
    """
    people, found = WindowPeople(last, bins, 1, Key(bytes(16))), np.zeros((steps, bins), dtype=np.int64)
    for step in range(steps):
        here = [bin_ for at, bin_ in visits if at == step]
        found[step] = people.counts(Rows(np.ones(len(here), dtype=np.int64), None, np.array(here, np.int64)), step)
    return found


def people_pair(
    name: str, visits: Sequence[tuple[int, int]], gone: Sequence[int], last: int, steps: int, bins: int
) -> PresencePair:
    """A person with ``visits``, and without those of the steps ``gone``."""
    counts = [
        people_counts([visit for visit in visits if visit[0] not in left_out], last, steps, bins)
        for left_out in ((), gone)
    ]
    others = np.full((steps, bins), OTHERS, dtype=np.int64)
    return PresencePair(name, others, counts[0], movement_of_people(bins, 1, last), afterwards=counts[1])


def _uniform() -> list[Claim]:
    # Visits within v steps change the counts over the last m steps in v + m − 1 steps.
    people = [
        (Guarantee(1, w=3), people_pair("a visit that is seen for three steps", [(1, 0)], [1], 3, 5, 1)),
        (Guarantee(1, w=2), people_pair("a visit in another place", [(0, 0), (1, 1)], [1], 2, 4, 2)),
        (Guarantee(1, w=4), people_pair("two visits within two steps", [(0, 0), (1, 1), (2, 0)], [1, 2], 3, 6, 2)),
    ]
    cells = [stream_claim(Uniform(), Guarantee(1, w=1), cell_pair(group), quick=4_000) for group in (1, 2)]
    cuts = Uniform(QuantileCuts(CELLS, ("1/4", "1/2", "3/4")))
    chosen = replace(cell_pair(1), name="a row in cells of which edges are chosen")
    cells.append(stream_claim(cuts, Guarantee(1, w=1), chosen, quick=1_000))
    return [*cells, *(stream_claim(Uniform(), guarantee, pair, quick=4_000) for guarantee, pair in people)]


def _running_total() -> list[Claim]:
    pair = presence_pair("a person who is counted once for ever", SO_FAR, range(6), range(6), 6)
    return [stream_claim(RunningTotal(horizon=6), SO_FAR, pair, quick=4_000)]


MEASURE_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {"uniform": _uniform, "running-total": _running_total}
"""Name in ``STREAMS`` -> claims about measured values and distinct people, next to those of ``STREAM_CLAIMS``."""
