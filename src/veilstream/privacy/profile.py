"""Profiles: which timestamps a row of a running sum reads, and with which weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.kernels import WEIGHT_BITS, Kernel

Integers = NDArray[np.int64]

SQUARED_ONE = 1 << (2 * WEIGHT_BITS)
"""The square of the weight 1."""
VERSION = 1
FIELDS = 7


@dataclass(frozen=True, slots=True)
class Profile:
    """Row ``row`` of the running sum that began at timestamp ``start``.

    >>> Profile(Kernel(), start=10, row=2).pieces()[0].tolist()
    [10, 11, 12]
    """

    kernel: Kernel
    start: int
    row: int

    def pieces(self) -> tuple[Integers, Integers]:
        """The timestamps at which pieces of one weight begin, in order, and the weights in multiples of 2⁻¹⁶."""
        firsts, weights = self.kernel.pieces(self.row)
        return firsts + self.start, weights

    @property
    def last(self) -> int:
        """The timestamp of the row itself."""
        return self.start + self.row

    def encoded(self) -> Integers:
        """As whole numbers, for the record of a charge."""
        return np.array([VERSION, self.start, self.row, *self.kernel.encoded()], dtype=np.int64)

    @classmethod
    def decoded(cls, numbers: NDArray[np.int32 | np.int64]) -> Profile:
        """The profile that was recorded."""
        return _decoded(tuple(numbers.tolist()))


@lru_cache(maxsize=64)
def _decoded(values: tuple[int, ...]) -> Profile:
    if len(values) != FIELDS or values[0] != VERSION:
        raise InvalidInputError(name="profile", value=list(values[:1]), limit=f"version {VERSION} is known here")
    return Profile(Kernel.decoded(list(values[3:])), values[1], values[2])
