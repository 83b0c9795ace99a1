"""Charges that grow: what a block of comparisons has cost so far, and which windows its next charge newly reaches.

PROOF.md, "Sparse vector", says why every window that a block reads must pay all of its amount.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple


class Piece(NamedTuple):
    """An amount that is new to every window whose last timestamp lies in ``first..last``."""

    amount: Fraction
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Block:
    """What an open block has cost every window that it reads, and which windows these are.

    A window is known by its last timestamp. Paid for are the windows of ``since .. last + w - 1`` for certain, and all
    that were paid for lie in ``first .. last + w - 1``: there may be gaps where the block was not compared for long.
    """

    amount: Fraction
    first: int
    since: int
    last: int

    @classmethod
    def opened(cls, amount: Fraction, first: int, now: int) -> tuple[Block, list[Piece]]:
        """A new block that reads ``first..now``."""
        return cls(amount, first, first, now), [Piece(amount, first, now)]

    def grown(self, amount: Fraction, first: int, now: int, w: int) -> tuple[Block, list[Piece]]:
        """The block once it also reads ``first..now`` and costs ``amount``, and what that newly costs which windows.

        >>> block, _ = Block.opened(Fraction(1, 2), first=3, now=3)
        >>> block.grown(Fraction(3, 4), first=1, now=5, w=2)[1] # doctest: +NORMALIZE_WHITESPACE
        [Piece(amount=Fraction(1, 2), first=5, last=5), Piece(amount=Fraction(1, 2), first=1, last=2),
         Piece(amount=Fraction(1, 4), first=1, last=5)]
        """
        pieces: list[Piece] = []
        free = self.last + w
        since = first if first > free else min(self.since, first)
        if free <= now:
            pieces.append(Piece(self.amount, max(free, first), now))
        if first < self.since:
            pieces.append(Piece(self.amount, first, self.since - 1))
        whole = min(self.first, first)
        if amount > self.amount:
            pieces.append(Piece(amount - self.amount, whole, now))
        return Block(max(amount, self.amount), whole, since, now), pieces
