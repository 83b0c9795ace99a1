"""The cost of every set of timestamps that one unit can reach where people count in few steps, exact.

A charge counts in each set that its span touches, once. As long as every charge is of one timestamp, the dearest set
takes the largest costs of its zones; with longer charges it is found by ``dearest_stretches``. Charges end at the
present, so that only sets which touch since..now can become dearer, ``since`` being where the charge begins (where a
growing block was not yet). What lies further back is summed up, so that memory stays bounded: see the two classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm

from veilstream.errors import ChargeError
from veilstream.privacy.bin_timeline import BinTimeline
from veilstream.privacy.blocks import Block
from veilstream.privacy.charge import Charge
from veilstream.privacy.presence import Rule
from veilstream.privacy.presence_placement import Stretch
from veilstream.privacy.snapshots import PresenceSnapshot, numbers_of, whole


class PresenceTimeline(ABC):
    """The cost of every set of timestamps of ``rule`` under the charges so far, in whole multiples of one unit.

    >>> from veilstream.privacy.charge import Span
    >>> from veilstream.privacy.presence import Anywhere
    >>> from veilstream.privacy.presence_timeline import presence_timeline
    >>> line = presence_timeline(Anywhere(2))
    >>> for t in range(100):
    ...     line.advance(t)
    ...     line.add(Fraction(1, 2), Charge(Fraction(1, 2), Span(t, t), "publish"))
    >>> line.would_cost([(Fraction(3, 4), Charge(Fraction(3, 4), Span(99, 99), "publish"))]), line.current
    (Fraction(7, 4), Fraction(1, 1))
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._count = rule.count
        self._denominator = 1
        self._now: int | None = None
        self._costs: dict[int, int] = {}
        self._stretches: list[Stretch] = []
        self._blocks: dict[int, Stretch] = {}
        self._zones: dict[tuple[int, int], int] = {}

    @property
    def current(self) -> Fraction:
        """The cost of the dearest set that includes the present."""
        if self._now is None:
            return Fraction(0)
        # A charge dearer than all others together draws every dearest set to the present.
        large = 1 + self._upper_bound()
        found = self._dearest(self._now, [Stretch(self._now, self._now, large)], self._blocks)
        return Fraction(found - large, self._denominator)

    @property
    @abstractmethod
    def fullest(self) -> Fraction: ...

    @property
    def unit(self) -> str:
        return self._rule.unit

    @abstractmethod
    def advance(self, now: int) -> None: ...

    def would_cost(self, wanted: Sequence[tuple[Fraction, Charge]]) -> Fraction:
        self._refine(amount for amount, _ in wanted)
        reached = [(*self._reach(amount, charge), charge.block) for amount, charge in wanted]
        added = [stretch for stretch, _, block in reached if block is None]
        blocks = dict(self._blocks)
        for stretch, _, block in reached:
            if block is not None:
                other = blocks.get(block, stretch)
                first, amount = min(stretch.first, other.first), max(stretch.amount, other.amount)
                blocks[block] = Stretch(first, stretch.last, amount)
        news = [piece for _, pieces, _ in reached for piece in pieces]
        since = min((begins for begins, _ in news), default=self._now or 0)
        return Fraction(max(self._would_cost_past(news), self._dearest(since, added, blocks)), self._denominator)

    def add(self, amount: Fraction, charge: Charge) -> None:
        self._refine([amount])
        stretch, pieces = self._reach(amount, charge)
        for begins, more in pieces:
            self._add_to_past(begins, more)
        if charge.block is not None:
            self._blocks[charge.block] = stretch
        elif stretch.first == stretch.last:
            self._costs[stretch.last] = self._costs.get(stretch.last, 0) + stretch.amount
        else:
            self._stretches.append(stretch)

    def close(self, block: int) -> None:
        stretch = self._blocks.pop(block, None)
        if stretch is None:
            return
        if stretch.first < stretch.last:
            self._stretches.append(stretch)
        else:
            self._costs[stretch.last] = self._costs.get(stretch.last, 0) + stretch.amount
            self._zones.clear()

    def open_blocks(self) -> Mapping[int, Block]:
        return {
            number: Block(Fraction(s.amount, self._denominator), s.first, s.first, s.last)
            for number, s in self._blocks.items()
        }

    def by_bin(self, bins: int, now: int | None) -> BinTimeline:
        raise ChargeError(
            name="bins", value=bins, limit="a person who counts in few steps may be in another bin at each of them"
        )

    def snapshot(self) -> PresenceSnapshot:
        past, past_ends, cut = self._summed_up()
        stretches = [*self._stretches, *self._blocks.values()]
        # Refused charges may have made the unit smaller than it need be.
        part = gcd(self._denominator, *self._costs.values(), *past, *(s.amount for s in stretches))
        # What passed zones cost is looked up again when it is needed.
        return PresenceSnapshot(
            self._now,
            self._denominator // part,
            whole(list(self._costs)),
            whole([cost // part for cost in self._costs.values()]),
            [(s.first, s.last, s.amount // part) for s in self._stretches],
            {number: (s.first, s.last, s.amount // part) for number, s in self._blocks.items()},
            whole([cost // part for cost in past]),
            whole(past_ends),
            cut,
        )

    def restore(self, known: PresenceSnapshot) -> None:
        """Know what ``known`` says, and nothing else."""
        self._now, self._denominator = known.now, known.unit
        self._costs = dict(zip(numbers_of(known.times), numbers_of(known.costs), strict=True))
        self._stretches = [Stretch(*stretch) for stretch in known.stretches]
        self._blocks = {number: Stretch(*stretch) for number, stretch in known.blocks.items()}
        self._zones.clear()
        self._restore_past(list(numbers_of(known.past)), list(numbers_of(known.past_ends)), known.cut)

    @abstractmethod
    def _summed_up(self) -> tuple[list[int], list[int], int | None]:
        """What is known of sets that were summed up: costs, until when, and the cut."""

    @abstractmethod
    def _restore_past(self, costs: list[int], ends: list[int], cut: int | None) -> None: ...

    @abstractmethod
    def _dearest(self, since: int, added: Sequence[Stretch], blocks: Mapping[int, Stretch]) -> int:
        """The cost of the dearest set that touches since..now, with charges that are tried."""

    @abstractmethod
    def _would_cost_past(self, reached: Sequence[tuple[int, int]]) -> int:
        """The same of sets that were summed up, for amounts that count since a timestamp."""

    @abstractmethod
    def _add_to_past(self, begins: int, amount: int) -> None: ...

    @abstractmethod
    def _rescale_past(self, factor: int) -> None: ...

    def _upper_bound(self) -> int:
        """No set costs more than this."""
        return sum(self._costs.values()) + sum(s.amount for s in (*self._stretches, *self._blocks.values()))

    def _reach(self, amount: Fraction, charge: Charge) -> tuple[Stretch, list[tuple[int, int]]]:
        """What a charge covers, and what it newly costs since when: a known block where it grows, or grows dearer."""
        assert self._now is not None
        first, whole = charge.span.first, self._whole(amount)
        known = None if charge.block is None else self._blocks.get(charge.block)
        if known is None:
            return Stretch(first, self._now, whole), [(first, whole)]
        pieces = [(min(known.last + 1, self._now), known.amount)]
        if first < known.first:
            pieces.append((first, known.amount))
        first = min(first, known.first)
        if whole > known.amount:
            pieces.append((first, whole - known.amount))
        return Stretch(first, self._now, max(whole, known.amount)), pieces

    def _items(self, added: Sequence[Stretch], blocks: Mapping[int, Stretch], oldest: int) -> list[Stretch]:
        single = [Stretch(t, t, cost) for t, cost in self._costs.items() if t >= oldest]
        return [*single, *(s for s in (*self._stretches, *blocks.values(), *added) if s.last >= oldest)]

    def _whole(self, amount: Fraction) -> int:
        return amount.numerator * (self._denominator // amount.denominator)

    def _refine(self, amounts: Iterable[Fraction]) -> None:
        """Make the unit divide all ``amounts``."""
        denominator = lcm(self._denominator, *(amount.denominator for amount in amounts))
        factor, self._denominator = denominator // self._denominator, denominator
        if factor > 1:
            self._costs = {t: cost * factor for t, cost in self._costs.items()}
            self._stretches = [s._replace(amount=s.amount * factor) for s in self._stretches]
            self._blocks = {block: s._replace(amount=s.amount * factor) for block, s in self._blocks.items()}
            self._rescale_past(factor)
