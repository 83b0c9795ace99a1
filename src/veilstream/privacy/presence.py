"""Which timestamps one unit can reach when a person counts in few of them, and what the dearest of those cost.

A person who comes often counts only sometimes: in the first c steps for ever, in the first c of a public block, or at
a step before which they were present in fewer than c of the last w−1. Neighbouring data then differ in few timestamps,
and each rule says which sets of timestamps these can be (PROOF.md, "People in few steps", has the argument):

* ``Anywhere(c)``: any c timestamps;
* ``InBlock(c, blocks)``: any c timestamps of one block;
* ``Sliding(c, w)``: any c timestamps of a window of w, and any c of the w−1 timestamps after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from veilstream.privacy.presence_blocks import Blocks

Zone: TypeAlias = tuple[int, int, int]
"""First and last timestamp, and how many timestamps between them one unit can reach."""
BEGINNING: Final = -(1 << 62)


class Rule(Protocol):
    """The sets of timestamps in which neighbouring data can differ."""

    @property
    def count(self) -> int:
        """The most timestamps of one zone."""
        ...

    @property
    def unit(self) -> str:
        """What a cost is the cost of, for messages."""
        ...

    @property
    def reach(self) -> int:
        """The most timestamps of one set."""
        ...

    def placements(self, since: int, now: int, begun: Iterable[int] | None = None) -> Iterator[Sequence[Zone]]:
        """Zones in the order of time whose timestamps can be reached together, of all sets that touch since..now.

        With ``begun``, the timestamps at which charges begin, only those that can be the dearest.
        """
        ...

    @property
    def width(self) -> int:
        """The most timestamps from the first to the last of one set."""
        ...


@dataclass(frozen=True, slots=True)
class Anywhere:
    """Any ``count`` timestamps, however far apart."""

    count: int

    @property
    def unit(self) -> str:
        return f"any {_steps(self.count)}"

    @property
    def reach(self) -> int:
        return self.count

    def placements(self, since: int, now: int, begun: Iterable[int] | None = None) -> Iterator[Sequence[Zone]]:
        yield ((BEGINNING, now, self.count),)

    @property
    def width(self) -> int:
        return -BEGINNING


@dataclass(frozen=True, slots=True)
class InBlock:
    """Any ``count`` timestamps of one block; of blocks that are not known, any ``count`` timestamps."""

    count: int
    blocks: Blocks

    @property
    def unit(self) -> str:
        return f"any {_steps(self.count)} of one block of {self.blocks}"

    @property
    def reach(self) -> int:
        return self.count

    def placements(self, since: int, now: int, begun: Iterable[int] | None = None) -> Iterator[Sequence[Zone]]:
        last = now
        while last >= since:
            first = self.blocks.first_of(last)
            yield ((first, last, self.count),)
            last = first - 1

    @property
    def width(self) -> int:
        return self.blocks.longest or -BEGINNING


@dataclass(frozen=True, slots=True)
class Sliding:
    """Any ``count`` timestamps of a window of ``w`` timestamps, and any ``count`` of the w−1 after it.

    >>> list(Sliding(2, w=3).placements(since=9, now=9))
    [((7, 9, 2),), ((6, 8, 2), (9, 9, 2)), ((5, 7, 2), (8, 9, 2))]
    """

    count: int
    w: int

    @property
    def unit(self) -> str:
        return f"any {_steps(self.count)} of a window of {self.w} and any {self.count} of the {self.w - 1} after it"

    @property
    def reach(self) -> int:
        return 2 * self.count

    def placements(self, since: int, now: int, begun: Iterable[int] | None = None) -> Iterator[Sequence[Zone]]:
        ends: Iterable[int] = range(now, since - self.w, -1)
        if begun is not None:
            # A window can end earlier until a charge begins at its end, or the set's last timestamp w−1 after it.
            ends = {now} | {end for t in begun for end in (t, t - self.w + 1) if since - self.w < end <= now}
        for end in ends:
            window = (end - self.w + 1, end, self.count)
            yield (window,) if end == now else (window, (end + 1, min(now, end + self.w - 1), self.count))

    @property
    def width(self) -> int:
        return 2 * self.w - 1


def rule_of(presence: int, w: int | None, blocks: Blocks | None) -> Rule:
    """The rule of a guarantee: blocks that are not placed on a calendar may put any timestamps together."""
    if blocks is not None:
        return InBlock(presence, blocks) if blocks.known else Anywhere(presence)
    return Anywhere(presence) if w is None else Sliding(presence, w)


def dearest(rule: Rule, spent: Iterable[tuple[int, int]], now: int) -> int:
    """The most that one set with the timestamp ``now`` has met of ``spent``, pairs of an earlier timestamp and a cost.

    >>> dearest(Anywhere(3), [(0, 5), (1, 2), (2, 4)], now=3), dearest(Sliding(1, w=2), [(0, 5), (2, 4)], now=3)
    (9, 4)
    """
    costs = list(spent)
    worst = 0
    for zones in rule.placements(now, now):
        found = 0
        for first, last, count in zones:
            free = count - (first <= now <= last)
            inside = sorted((cost for t, cost in costs if first <= t <= last and t != now), reverse=True)
            found += sum(inside[:free])
        worst = max(worst, found)
    return worst


def _steps(count: int) -> str:
    return "step" if count == 1 else f"{count} steps"
