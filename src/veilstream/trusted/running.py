"""Exact running sums in the groups in which rows read them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.charge import Span
from veilstream.privacy.kernels import WEIGHT_BITS, Kernel
from veilstream.privacy.profile import Profile
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import opened
from veilstream.trusted.sealed import Opaque

Group = TypeVar("Group", bound="NDArray[Any]")


class SealedRunning(Opaque[tuple[NDArray[np.int64], ...]]):
    """The sums of every group of timestamps since ``start``, as the row of the timestamp ``last`` reads them.

    A timestamp at which nothing was added counts as zeros. At any single timestamp one unit moves what was added by
    ``l2`` at most, in the L2 norm. ``Meter.row_of`` gives the noisy row.

    >>> from veilstream.trusted.counts import seal
    >>> sums = SealedRunning.opened_with(seal(np.array([3, 4]), t=7), Kernel())
    >>> sums.extended(seal(np.array([1, 1]), t=9))
    SealedRunning(size=2, span=7..9, l2=1)
    """

    __slots__ = ("grid", "kernel", "l2", "last", "start")

    def __init__(
        self, groups: tuple[NDArray[np.int64], ...], kernel: Kernel, start: int, last: int, l2: Fraction, grid: int
    ) -> None:
        super().__init__(groups)
        self.kernel = kernel
        self.start = start
        self.last = last
        self.l2 = l2
        self.grid = grid

    @classmethod
    @hide_frames
    def opened_with(cls, now: Sealed, kernel: Kernel) -> SealedRunning:
        """The running sum that begins with the counts of one timestamp."""
        _check(now)
        return cls((opened(now),), kernel, now.span.first, now.span.first, now.l2, now.grid)

    @property
    def size(self) -> int:
        return int(opened(self)[0].shape[-1])

    @property
    def span(self) -> Span:
        return Span(self.start, self.last)

    @property
    def profile(self) -> Profile:
        """Of the row of the last timestamp."""
        return Profile(self.kernel, self.start, self.last - self.start)

    def weights(self) -> NDArray[np.int64]:
        """Of every group in the row of the last timestamp, in multiples of 2⁻¹⁶."""
        return self.kernel.pieces(self.last - self.start)[1]

    @hide_frames
    def extended(self, now: Sealed) -> SealedRunning:
        """The same with the counts of a later timestamp; timestamps between have none."""
        _check(now)
        t = now.span.first
        if t <= self.last or now.size != self.size or now.grid != self.grid:
            raise InvalidInputError(
                name="running sum",
                value=f"t={t}",
                limit=f"it takes {self.size} values after t={self.last} on the grid 2^-{self.grid}",
            )
        groups: list[NDArray[np.int64]] = list(_groups(self))
        for step in range(self.last + 1, t + 1):
            groups.append(opened(now) if step == t else np.zeros(self.size, dtype=np.int64))
            groups = merged(groups, self.kernel, step - self.start)
        return SealedRunning(tuple(groups), self.kernel, self.start, t, max(self.l2, now.l2), self.grid)

    def __repr__(self) -> str:
        return f"SealedRunning(size={self.size}, span={self.start}..{self.last}, l2={self.l2})"


def merged(groups: list[Group], kernel: Kernel, row: int) -> list[Group]:
    """The groups of ``row``, from those of the row before it and one for the newest position."""
    result = list(groups)
    for index in kernel.joined(row):
        result[index - 1] = cast(Group, result[index - 1] + result[index])
        del result[index]
    return result


def _groups(sums: SealedRunning) -> tuple[NDArray[np.int64], ...]:
    return opened(sums)


def weighted(groups: tuple[NDArray[np.int64], ...], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Σ weight · group; groups of weight 0 are not read."""
    total = np.zeros_like(groups[0])
    scaled = np.empty_like(total)
    for group, weight in zip(groups, weights.tolist(), strict=True):
        if weight:
            np.multiply(group, weight, out=scaled)
            total += scaled
    return total


ROW_BITS = WEIGHT_BITS
"""How much finer the grid of a row is than that of what it sums up."""


def _check(now: Sealed) -> None:
    if now.span.steps != 1 or now.bins is not None:
        raise InvalidInputError(name="running sum", value=now.span, limit="it takes all values of one timestamp")
