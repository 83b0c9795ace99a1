"""The cost of every window of time, exact, in memory that does not grow with the stream.

A charge over ``first..now`` counts in each window of ``w`` timestamps that it touches. Charges arrive in the order of
time and end at the present, so two small structures answer "what would the fullest window cost?" exactly:

* windows that end at or after now: the fuller, the earlier they end, so only the one that ends *now* matters, a
  running sum over the last w timestamps;
* windows that ended before now: only a charge that reaches back touches them, and it touches all that ended since
  its ``first``. ``PastWindows`` holds all that can ever matter of them.

PROOF.md, "Windows and spans", has the argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from fractions import Fraction

from veilstream.privacy.bin_timeline import BinTimeline
from veilstream.privacy.blocks import Block, Piece
from veilstream.privacy.charge import Charge
from veilstream.privacy.past_windows import ZERO, PastWindows
from veilstream.privacy.presence import BEGINNING
from veilstream.privacy.snapshots import Amounts, WindowSnapshot, numbers_of, whole


class WindowTimeline:
    """The cost of every window of ``w`` timestamps (one window for ever if ``w`` is None) under charges so far.

    >>> from veilstream.privacy.charge import Span
    >>> line = WindowTimeline(w=3)
    >>> for t in range(5):
    ...     line.advance(t)
    ...     line.add(Fraction(1, 4), Charge(Fraction(1, 4), Span(t, t), "publish"))
    >>> line.peak(first=4), line.peak(first=0)
    (Fraction(3, 4), Fraction(3, 4))
    >>> line.add(Fraction(1, 8), Charge(Fraction(1, 8), Span(3, 4), "publish"))
    >>> line.peak(first=4), line.peak(first=3)
    (Fraction(7, 8), Fraction(7, 8))
    """

    def __init__(self, w: int | None) -> None:
        self._w = w
        self._now: int | None = None
        self._total = ZERO
        self._recent: deque[tuple[int, Fraction]] = deque()
        self._blocks: dict[int, Block] = {}
        self._past = PastWindows()

    @property
    def current(self) -> Fraction:
        """Cost of the window that ends now, the fullest of those still open."""
        return self._total

    @property
    def fullest(self) -> Fraction:
        return self.peak(BEGINNING)

    @property
    def unit(self) -> str:
        return "whole stream" if self._w is None else f"window of {self._w}"

    def advance(self, now: int) -> None:
        if self._w is None or self._now is None:
            self._now = now
            return
        while self._now < now and self._total:
            self._past.push(self._now, self._total)
            self._now += 1
            self._expire(self._now - self._w)
        self._now = now

    def _expire(self, oldest: int) -> None:
        while self._recent and self._recent[0][0] <= oldest:
            self._total -= self._recent.popleft()[1]
        for block in self._blocks.values():
            if block.last == oldest:
                self._total -= block.amount

    def peak(self, first: int) -> Fraction:
        """Cost of the fullest window that a charge over ``first..now`` touches."""
        return max(self._total, self._past.peak(first))

    def would_cost(self, wanted: Sequence[tuple[Fraction, Charge]]) -> Fraction:
        assert self._now is not None
        if len(wanted) == 1 and wanted[0][1].block is None:
            amount, charge = wanted[0]
            return self.peak(charge.span.first) + amount
        pieces = [piece for amount, charge in wanted for piece in self._pieces(amount, charge)[1]]
        past, total = self._past.copy(), self._total
        for amount, first, last in pieces:
            past.add(amount, first, min(last, self._now - 1))
            total += amount if last == self._now else ZERO
        return max(total, past.peak(min((piece.first for piece in pieces), default=self._now)))

    def add(self, amount: Fraction, charge: Charge) -> None:
        """Charge ``amount`` to every window that touches ``charge.span.first..now``; a known block only grows."""
        assert self._now is not None
        block, pieces = self._pieces(amount, charge)
        for new, first, last in pieces:
            self._past.add(new, first, min(last, self._now - 1))
            self._total += new if last == self._now else ZERO
        if charge.block is not None:
            self._blocks[charge.block] = block
        elif self._w is not None:
            self._recent.append((self._now, amount))

    def _pieces(self, amount: Fraction, charge: Charge) -> tuple[Block, list[Piece]]:
        """The block that a charge makes or grows, and what it newly costs which windows."""
        assert self._now is not None
        first = min(charge.span.first, self._now)
        known = None if charge.block is None else self._blocks.get(charge.block)
        if self._w is None:
            # The one window always ends now.
            before, first = (ZERO, first) if known is None else (known.amount, min(known.first, first))
            block = Block(max(amount, before), first, first, self._now)
            return block, [Piece(block.amount - before, self._now, self._now)]
        if known is None:
            return Block.opened(amount, first, self._now)
        return known.grown(amount, first, self._now, self._w)

    def close(self, block: int) -> None:
        known = self._blocks.pop(block, None)
        if known is not None and self._w is not None and self._now is not None and known.last > self._now - self._w:
            self._insert(known.last, known.amount)

    def _insert(self, last: int, amount: Fraction) -> None:
        later: list[tuple[int, Fraction]] = []
        while self._recent and self._recent[-1][0] > last:
            later.append(self._recent.pop())
        self._recent.append((last, amount))
        self._recent.extend(reversed(later))

    def open_blocks(self) -> dict[int, Block]:
        return self._blocks

    def by_bin(self, bins: int, now: int | None) -> BinTimeline:
        return BinTimeline(bins, before=self.fullest, cost=self._total, now=now, blocks=self._blocks.copy())

    def snapshot(self) -> WindowSnapshot:
        return WindowSnapshot(
            self._now,
            self._total,
            whole([t for t, _ in self._recent]),
            Amounts.of([amount for _, amount in self._recent]),
            self._blocks.copy(),
            whole(self._past.ends),
            Amounts.of(self._past.costs),
        )

    @classmethod
    def restored(cls, w: int | None, known: WindowSnapshot) -> WindowTimeline:
        """The timeline of which ``known`` is the snapshot."""
        line = cls(w)
        line._now, line._total, line._blocks = known.now, known.total, known.blocks.copy()
        line._recent.extend(zip(numbers_of(known.times), known.amounts.fractions(), strict=True))
        line._past = PastWindows(list(numbers_of(known.past_ends)), known.past_costs.fractions())
        return line
