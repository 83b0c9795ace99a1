"""What the accountant needs of a book that knows the cost of every window of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from veilstream.privacy.charge import Charge

if TYPE_CHECKING:
    from veilstream.privacy.bin_timeline import BinTimeline
    from veilstream.privacy.blocks import Block
    from veilstream.privacy.snapshots import LineSnapshot


class Timeline(Protocol):
    """Exact costs under the charges so far: ``WindowTimeline`` by window, ``BinTimeline`` by bin and timestamp."""

    @property
    def current(self) -> Fraction:
        """The cost of the fullest window, or bin and timestamp, that includes the present."""
        ...

    @property
    def fullest(self) -> Fraction:
        """The most that any window, or bin and timestamp, has cost so far; never too little."""
        ...

    @property
    def unit(self) -> str:
        """What a cost is the cost of, for messages."""
        ...

    def advance(self, now: int) -> None:
        """Let time pass up to ``now``."""
        ...

    def would_cost(self, wanted: Sequence[tuple[Fraction, Charge]]) -> Fraction:
        """The largest cost that any of ``wanted``, amounts above 0 with their charges, would bring about."""
        ...

    def add(self, amount: Fraction, charge: Charge) -> None:
        """Count ``amount`` wherever ``charge`` reaches."""
        ...

    def close(self, block: int) -> None:
        """The block will not grow any more."""
        ...

    def open_blocks(self) -> Mapping[int, Block]:
        """The blocks that may grow, by their numbers."""
        ...

    def by_bin(self, bins: int, now: int | None) -> BinTimeline:
        """The same costs, from now on bin by bin."""
        ...

    def snapshot(self) -> LineSnapshot:
        """All that it knows."""
        ...
