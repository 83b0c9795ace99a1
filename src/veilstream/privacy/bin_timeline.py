"""Event-level accounting bin by bin: an event lies in one bin, so bins are charged in parallel.

For every bin two exact costs are stored: that of the present timestamp and the largest since the bin's ``edge``. A
charge with ``starts`` publishes and closes a group of timestamps: the edge moves up behind it, so that pending
timestamps are distinguished from spent ones. Its span may end before the present timestamp, which then costs nothing.
Of what lies before the edges only the largest cost of all bins is known, and a charge that reaches back past an edge
sees that one: it can be refused too early, never admitted too late. PROOF.md, "Named bins", says why bins may be
charged in parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.blocks import Block, Piece
from veilstream.privacy.charge import Charge, Names, Span, Times, time_type
from veilstream.privacy.snapshots import BinSnapshot, numbers_of, whole_array

SAFE: Final[dict[np.dtype[Any], int]] = {np.dtype(np.int32): 1 << 29, np.dtype(np.int64): 1 << 61}
"""The largest sum of costs that a type holds with room to spare; others hold any."""
NO_EDGE: Final = int(np.iinfo(np.int64).min)
ZERO: Final = Fraction(0)
Bins: TypeAlias = Names | slice


@dataclass(frozen=True, slots=True)
class _Reach:
    """Where a charge counts: the costs of its bins at the present timestamp, and the bins it reaches back in."""

    charge: Charge
    present: NDArray[Any] | None
    back: Bins | None = None
    since_edge: NDArray[Any] | int = 0
    """The largest costs of the bins of ``back`` since their edges."""
    past_edge: NDArray[np.bool_] | None = None
    """Which of ``back`` are reached past their edges; None if none is."""


class BinTimeline:
    """Costs per bin and timestamp as whole multiples of one unit, which shrinks when a charge needs it.

    >>> from veilstream.privacy.charge import Span
    >>> line = BinTimeline(bins=3, now=0)
    >>> line.add(Fraction(1, 2), Charge(Fraction(1, 2), Span(0, 0), "publish", bins=np.array([0, 1])))
    >>> line.add(Fraction(1, 3), Charge(Fraction(1, 3), Span(0, 0), "publish", bins=np.array([1, 2])))
    >>> line.current
    Fraction(5, 6)
    """

    def __init__(
        self,
        bins: int,
        before: Fraction = ZERO,
        cost: Fraction = ZERO,
        now: int | None = None,
        blocks: dict[int, Block] | None = None,
    ) -> None:
        self._unit = lcm(before.denominator, cost.denominator)
        self._old = 0
        self._edge = _no_edges(bins, time_type(now or 0))
        self._new: NDArray[Any] = np.zeros(bins, dtype=np.int32)
        self._cost: NDArray[Any] = np.zeros(bins, dtype=np.int32)
        # Never below the sum of the largest of the costs, each of which a charge can raise: it spares looking for
        # them at every charge.
        self._bound = self._whole(before) + self._whole(cost)
        self._widen()
        self._new += self._whole(before)
        self._cost += self._whole(cost)
        self._charged_now = cost > 0
        self._closing: list[Bins] = []
        self._blocks: dict[int, Block] = blocks or {}
        self._at = now
        self._last: _Reach | None = None

    @property
    def current(self) -> Fraction:
        return Fraction(int(self._cost.max(initial=0)), self._unit)

    @property
    def fullest(self) -> Fraction:
        largest = max(self._old, int(self._new.max(initial=0)), int(self._cost.max(initial=0)))
        return Fraction(largest, self._unit)

    @property
    def unit(self) -> str:
        return "one timestamp"

    def advance(self, now: int) -> None:
        if self._at is not None and now > self._at:
            np.maximum(self._new, self._cost, out=self._new)
            self._cost.fill(0)
            self._charged_now = False
            if self._closing:
                self._old = max(self._old, int(self._new.max(initial=0)))
            self._hold_time(now)
            for bins in self._closing:
                self._new[bins] = 0
                # Whenever time passes next: what a ledger records must give the same edge.
                self._edge[bins] = self._at + 1
            self._closing.clear()
        self._at = now
        self._last = None

    def _hold_time(self, now: int) -> None:
        if self._edge.dtype == np.int32 and time_type(now) is np.int64:
            wider = _no_edges(self._edge.size, np.int64)
            known = self._edge > np.iinfo(np.int32).min
            wider[known] = self._edge[known]
            self._edge = wider

    def would_cost(self, wanted: Sequence[tuple[Fraction, Charge]]) -> Fraction:
        self._last = None
        wanted = [plain for amount, charge in wanted for plain in self._plain(amount, charge)]
        self._refine([amount for amount, _ in wanted])
        if len(wanted) == 1:
            return self._with_one(*wanted[0])
        worst = self._cost.copy()
        past = np.zeros_like(self._cost)
        for amount, charge in wanted:
            reach = self._reach(charge)
            if reach.present is not None:
                worst[_bins_of(charge)] += self._whole(amount)
            if reach.back is not None:
                past[reach.back] += self._whole(amount)
        for _, charge in wanted:
            reach = self._reach(charge)
            if reach.back is not None:
                worst[reach.back] = np.maximum(worst[reach.back], self._seen(reach) + past[reach.back])
        return Fraction(int(worst.max(initial=0)), self._unit)

    def _with_one(self, amount: Fraction, charge: Charge) -> Fraction:
        reach = self._last = self._reach(charge)
        worst = 0
        if reach.present is not None and self._charged_now:
            worst = int(reach.present.max(initial=0))
        if reach.back is not None:
            worst = max(worst, int(self._seen(reach).max(initial=0)))
        return Fraction(worst + self._whole(amount), self._unit)

    def _seen(self, reach: _Reach) -> NDArray[Any]:
        """The largest cost of the past timestamps that a charge can touch in each bin it reaches back in."""
        new = np.asarray(reach.since_edge)
        return new if reach.past_edge is None else np.where(reach.past_edge, np.maximum(self._old, new), new)

    def add(self, amount: Fraction, charge: Charge) -> None:
        if charge.block is None:
            self._add(amount, charge)
            return
        for new, plain in self._plain(amount, charge):
            self._add(new, plain)
        self._blocks[charge.block] = self._grown(amount, charge)[0]

    def _plain(self, amount: Fraction, charge: Charge) -> list[tuple[Fraction, Charge]]:
        """A charge that grows as charges that do not, for what it newly reaches."""
        if charge.block is None:
            return [(amount, charge)]
        pieces = self._grown(amount, charge)[1]
        return [(new, Charge(new, Span(first, last), charge.purpose)) for new, first, last in pieces]

    def _grown(self, amount: Fraction, charge: Charge) -> tuple[Block, list[Piece]]:
        assert charge.block is not None
        now = charge.span.last if self._at is None else self._at
        known, first = self._blocks.get(charge.block), min(charge.span.first, now)
        return Block.opened(amount, first, now) if known is None else known.grown(amount, first, now, w=1)

    def _add(self, amount: Fraction, charge: Charge) -> None:
        reach, self._last = self._last, None
        if reach is None or reach.charge is not charge:
            self._refine([amount])
            reach = self._reach(charge)
        step = self._whole(amount)
        if reach.present is not None:
            self._add_now(_bins_of(charge), reach.present, step)
        if reach.back is not None:
            if reach.past_edge is not None:
                self._old += step
            self._new[reach.back] = reach.since_edge + step
        if charge.starts is not None:
            self._closing.append(_bins_of(charge))

    def close(self, block: int) -> None:
        self._blocks.pop(block, None)

    def open_blocks(self) -> dict[int, Block]:
        return self._blocks

    def by_bin(self, bins: int, now: int | None) -> BinTimeline:
        return self

    def snapshot(self) -> BinSnapshot:
        bins = self._cost.size
        edges = np.full(bins, NO_EDGE, dtype=np.int64)
        known = self._edge > np.iinfo(self._edge.dtype).min
        edges[known] = self._edge[known]
        everywhere = np.arange(bins)
        # Refused charges may have made the unit smaller than it need be.
        part = gcd(self._unit, self._old, _divisor(self._new), _divisor(self._cost))
        return BinSnapshot(
            self._at,
            self._unit // part,
            self._old // part,
            edges,
            whole_array(self._new // part),
            whole_array(self._cost // part),
            self._charged_now,
            [everywhere[bins] for bins in self._closing],
            self._blocks.copy(),
        )

    @classmethod
    def restored(cls, bins: int, known: BinSnapshot) -> BinTimeline:
        """The timeline of which ``known`` is the snapshot."""
        line = cls(bins, now=known.now, blocks=known.blocks.copy())
        since, present = numbers_of(known.since_edge), numbers_of(known.present)
        line._unit, line._old = known.unit, known.old
        line._bound = known.old + max(since, default=0) + max(present, default=0)
        line._widen()
        line._new[:] = since
        line._cost[:] = present
        edged = known.edges > NO_EDGE
        line._edge[edged] = known.edges[edged]
        line._charged_now = known.charged_now
        line._closing = list(known.closing)
        return line

    def _add_now(self, bins: Bins, present: NDArray[Any], step: int) -> None:
        if self._charged_now:
            self._cost[bins] = present + step
        elif isinstance(bins, np.ndarray) and bins.dtype == np.bool_:
            # Nothing was charged yet: truth values as they are cost less than setting where they say.
            self._cost[:] = bins
            self._cost *= step
        else:
            self._cost[bins] = step
        self._charged_now = True

    def _reach(self, charge: Charge) -> _Reach:
        present: NDArray[Any] | None = None
        if self._costs_now(charge):
            present = self._cost[_bins_of(charge)] if self._charged_now else self._cost[:0]
        if self._at is None or charge.span.first >= self._at:
            return _Reach(charge, present)
        back: Bins = _bins_of(charge)
        since: Times | int = charge.span.first
        if charge.starts is not None and charge.bins is not None:
            since = charge.starts
            earlier = charge.starts < self._at
            if not earlier.all():
                chosen = np.flatnonzero(earlier)
                back, since = charge.bins[chosen], charge.starts[chosen]
        past: NDArray[np.bool_] = since < self._edge[back]
        return _Reach(charge, present, back, self._new[back], past if past.any() else None)

    def _costs_now(self, charge: Charge) -> bool:
        return self._at is None or charge.span.last >= self._at

    def _whole(self, amount: Fraction) -> int:
        """``amount`` in units, of which it is a multiple."""
        return amount.numerator * (self._unit // amount.denominator)

    def _refine(self, amounts: list[Fraction]) -> None:
        """Make the unit divide all ``amounts``, and leave narrow integers before a sum could pass them."""
        unit = lcm(self._unit, *(amount.denominator for amount in amounts))
        factor, self._unit = unit // self._unit, unit
        asked = 3 * sum(self._whole(amount) for amount in amounts)
        self._bound = self._bound * factor + asked
        if self._bound > SAFE.get(self._cost.dtype, self._bound):
            # It also counts what was asked and refused, or asked twice.
            largest = self._old + int(self._new.max(initial=0)) + int(self._cost.max(initial=0))
            self._bound = largest * factor + asked
            self._widen()
        if factor > 1:
            self._old *= factor
            # Zeros stay as they are, also where the type is too narrow for the factor.
            self._new = self._new * factor if self._new.any() else self._new
            self._cost = self._cost * factor if self._cost.any() else self._cost

    def _widen(self) -> None:
        if self._bound > SAFE.get(self._cost.dtype, self._bound):
            dtype = next((wider for wider, most in SAFE.items() if self._bound <= most), np.dtype(np.object_))
            self._new = self._new.astype(dtype)
            self._cost = self._cost.astype(dtype)


def _divisor(x: NDArray[Any]) -> int:
    """The greatest common divisor of whole numbers, 0 if all are 0."""
    return gcd(*x.tolist()) if x.dtype == np.object_ else int(np.gcd.reduce(x, initial=0))


def _no_edges(bins: int, kind: type[np.int32] | type[np.int64]) -> Times:
    return np.full(bins, np.iinfo(kind).min, dtype=kind)


def _bins_of(charge: Charge) -> Bins:
    return slice(None) if charge.bins is None else charge.bins
