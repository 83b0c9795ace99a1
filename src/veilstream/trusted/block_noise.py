"""A block of noise for several looks at a stream: whoever is in any number of them pays for the block once."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.charge import Charge, Span
from veilstream.trusted.opening import opened
from veilstream.trusted.sealed import Opaque


@runtime_checkable
class BlockSource(Protocol):
    """A source that draws whole blocks."""

    def blocks(self, rate: Fraction, length: int, entries: int, count: int) -> NDArray[np.int64]: ...


class NoiseBlock(Opaque[NDArray[np.int64]]):
    """The secret rows of an open block, of which the first ``used`` have been added to counts.

    All else is public. A row has one number for each value that it is added to; ``max_contribution`` is how far one
    unit may move such a row. ``looked`` is the timestamp of the last look, by which the Meter knows whether rows were
    used that this object does not know of.
    """

    __slots__ = ("block", "epsilon", "looked", "max_contribution", "opened", "purpose", "used")
    contents: ClassVar[str] = "noise"

    def __init__(
        self,
        rows: NDArray[np.int64],
        block: int,
        opened: int,
        epsilon: Fraction,
        max_contribution: Fraction,
        purpose: str,
        used: int = 0,
        looked: int | None = None,
    ) -> None:
        super().__init__(rows)
        self.block = block
        self.opened = opened
        self.epsilon = epsilon
        self.max_contribution = max_contribution
        self.purpose = purpose
        self.used = used
        self.looked = opened if looked is None else looked

    @property
    def left(self) -> int:
        """How many looks it still has noise for."""
        return int(opened(self).shape[-2]) - self.used

    @property
    def length(self) -> int:
        return int(opened(self).shape[-2])

    @property
    def size(self) -> int:
        return int(opened(self).shape[-1])

    def charges(self, now: int) -> list[Charge]:
        """What a look at ``now`` costs: the block grows up to it, and after its last look it grows no more."""
        span = Span(self.opened, now)
        grown = [Charge(self.epsilon, span, self.purpose, block=self.block)]
        return grown if self.left > 1 else [*grown, Charge(Fraction(0), span, self.purpose, block=self.block)]

    def after_look(self, now: int) -> NoiseBlock:
        return self._with(opened(self), self.used + 1, now)

    def of_runs(self, runs: NDArray[np.int64]) -> NoiseBlock:
        """The same block for some of many simulated runs, each of which has rows of its own."""
        return self._with(opened(self)[runs], self.used, self.looked)

    def _with(self, rows: NDArray[np.int64], used: int, looked: int) -> NoiseBlock:
        return NoiseBlock(
            rows, self.block, self.opened, self.epsilon, self.max_contribution, self.purpose, used, looked
        )

    def __repr__(self) -> str:
        return (
            f"NoiseBlock(block={self.block}, opened={self.opened}, epsilon={self.epsilon}, length={self.length}, "
            f"used={self.used}, purpose={self.purpose!r})"
        )


def block_variance(length: int, entries: int, rate: float) -> float:
    """Of one number of a block, up to rounding: (mb+1)(mb+2)·2/((b+1)(b+2))/rate².

    The radius is a Gamma variable of shape mb + 1, and a row is uniform in the L1 ball of that radius.
    """
    size = length * entries
    return (size + 1) * (size + 2) * 2 / ((entries + 1) * (entries + 2)) / rate**2


def drawn_rows(
    noise: object, rate: Fraction, length: int, entries: int, batch: tuple[int, ...], purpose: str
) -> NDArray[np.int64]:
    """The rows of one block, or of one for each simulated run."""
    if not isinstance(noise, BlockSource):
        raise InvalidInputError(name="block of noise for", value=purpose, limit="the source draws no blocks")
    count = int(np.prod(batch, dtype=np.int64)) if batch else 1
    return noise.blocks(rate, length, entries, count).reshape(*batch, length, entries)
