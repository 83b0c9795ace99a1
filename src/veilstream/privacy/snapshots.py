"""What an accountant knows, as plain exact data: a ledger keeps it so that no reader replays all of history.

A snapshot is a function of the charges that were counted. An accountant made from one and charged on is, number by
number, the accountant that was charged from the beginning (PROOF.md, "Snapshots").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.blocks import Block

Whole: TypeAlias = NDArray[np.int64] | list[int]
"""Whole numbers: as an array where 64 bits hold them all."""
LARGEST: Final = (1 << 63) - 1


def whole(numbers: Sequence[int]) -> Whole:
    """Numbers in the form in which a snapshot keeps them.

    >>> whole([3, -5]), whole([1 << 70])
    (array([ 3, -5]), [1180591620717411303424])
    """
    if all(-LARGEST <= number <= LARGEST for number in numbers):
        return np.array(numbers, dtype=np.int64)
    return [int(number) for number in numbers]


def whole_array(numbers: NDArray[Any]) -> Whole:
    """The same for an array of whole numbers of any type."""
    return whole(numbers.tolist()) if numbers.dtype == np.object_ else numbers.astype(np.int64)


def numbers_of(kept: Whole) -> list[int]:
    """The numbers that :func:`whole` was given."""
    return kept if isinstance(kept, list) else kept.tolist()


@dataclass(frozen=True, slots=True, eq=False)
class Amounts:
    """Exact amounts as whole multiples of 1/``unit``.

    >>> Amounts.of([Fraction(1, 2), Fraction(1, 3)]).fractions()
    [Fraction(1, 2), Fraction(1, 3)]
    """

    unit: int
    parts: Whole

    @classmethod
    def of(cls, amounts: Sequence[Fraction]) -> Amounts:
        unit = lcm(*{amount.denominator for amount in amounts})
        return cls(unit, whole([amount.numerator * (unit // amount.denominator) for amount in amounts]))

    def fractions(self) -> list[Fraction]:
        known = {part: Fraction(part, self.unit) for part in set(numbers_of(self.parts))}
        return [known[part] for part in numbers_of(self.parts)]


@dataclass(frozen=True, slots=True, eq=False)
class WindowSnapshot:
    """Of a ``WindowTimeline``: the charges of the present window, open blocks, and the windows that have ended."""

    now: int | None
    total: Fraction
    times: Whole
    amounts: Amounts
    blocks: dict[int, Block]
    past_ends: Whole
    past_costs: Amounts

    @property
    def weight(self) -> int:
        """How many numbers it holds besides those that a release of the stream holds too."""
        return len(self.times) + len(self.blocks) + len(self.past_ends)


@dataclass(frozen=True, slots=True, eq=False)
class BinSnapshot:
    """Of a ``BinTimeline``: costs and edges of every bin, in whole multiples of 1/``unit``."""

    now: int | None
    unit: int
    old: int
    edges: NDArray[np.int64]
    since_edge: Whole
    present: Whole
    charged_now: bool
    closing: list[NDArray[np.int64]]
    blocks: dict[int, Block]

    @property
    def weight(self) -> int:
        return len(self.closing) + len(self.blocks)


@dataclass(frozen=True, slots=True, eq=False)
class PresenceSnapshot:
    """Of a timeline for people who count in few steps, in whole multiples of 1/``unit``.

    ``past`` is what it knows of sets of timestamps that were summed up; ``past_ends`` and ``cut`` say until when.
    """

    now: int | None
    unit: int
    times: Whole
    costs: Whole
    stretches: list[tuple[int, int, int]]
    blocks: dict[int, tuple[int, int, int]]
    past: Whole
    past_ends: Whole
    cut: int | None = None

    @property
    def weight(self) -> int:
        return len(self.times) + len(self.stretches) + len(self.blocks) + len(self.past)


@dataclass(frozen=True, slots=True, eq=False)
class TrackSnapshot:
    """Of one running sum of a ``ProfileTimeline``; ``kernel`` is None once no row can be added to it."""

    kernel: list[int] | None
    unit: Fraction
    start: int
    last: int
    firsts: NDArray[np.int64]
    squares: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ProfileSnapshot:
    """Of a ``ProfileTimeline``: the timeline beneath, the most that it has cost, and the running sums."""

    now: int | None
    most: Fraction
    ordinary: WindowSnapshot | BinSnapshot | PresenceSnapshot
    tracks: list[TrackSnapshot]

    @property
    def weight(self) -> int:
        return self.ordinary.weight + sum(track.firsts.size for track in self.tracks)


LineSnapshot: TypeAlias = WindowSnapshot | BinSnapshot | PresenceSnapshot | ProfileSnapshot


@dataclass(frozen=True, slots=True, eq=False)
class AccountantSnapshot:
    """Of an accountant; ``last_block`` is the largest number of a block that was charged."""

    now: int | None
    last_block: int
    pure: LineSnapshot
    gaussian: LineSnapshot

    @property
    def weight(self) -> int:
        return self.pure.weight + self.gaussian.weight
