"""Profiles: which timestamps a row of a running sum reads, and with which weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.buffers import SCALE_BITS, Buffers
from veilstream.privacy.kernels import WEIGHT_BITS, Kernel

Integers = NDArray[np.int64]

SQUARED_ONE = 1 << (2 * WEIGHT_BITS)
"""The square of the weight 1."""
GROUPED, BUFFERED = 1, 2
"""How the weights of a recorded row are made: by groups of timestamps, or by decaying buffers."""
FIELDS = 7


@dataclass(frozen=True, slots=True)
class Profile:
    """Row ``row`` of the running sum that began at timestamp ``start``.

    >>> Profile(Kernel(), start=10, row=2).weights().tolist(), Profile(Kernel(), start=10, row=2).last
    ([0.375, 0.5, 1.0], 12)
    """

    kernel: Kernel | Buffers
    start: int
    row: int

    def weights(self) -> NDArray[np.float64]:
        """The weight of every timestamp from the start to the row."""
        if isinstance(self.kernel, Buffers):
            scales = np.array([self.kernel.scale(s) for s in range(self.row + 1)]) / float(1 << SCALE_BITS)
            return self.kernel.coefficients(self.row + 1)[::-1] * scales
        firsts, weights = self.kernel.pieces(self.row)
        return np.repeat(weights, np.diff(firsts, append=self.row + 1)) / float(1 << WEIGHT_BITS)

    def squares(self) -> Integers:
        """The squared weight of every timestamp, in multiples of 2⁻³²; those by buffers are rounded down."""
        return np.floor(self.weights() ** 2 * SQUARED_ONE).astype(np.int64)

    @property
    def last(self) -> int:
        """The timestamp of the row itself."""
        return self.start + self.row

    def encoded(self) -> Integers:
        """As whole numbers, for the record of a charge."""
        kind = BUFFERED if isinstance(self.kernel, Buffers) else GROUPED
        return np.array([kind, self.start, self.row, *self.kernel.encoded()], dtype=np.int64)

    @classmethod
    def decoded(cls, numbers: NDArray[np.int32 | np.int64]) -> Profile:
        """The profile that was recorded."""
        if numbers.ndim != 1:
            raise InvalidInputError(name="profile", limit="a row of whole numbers is needed")
        return _decoded(tuple(numbers.tolist()))


@lru_cache(maxsize=64)
def _decoded(values: tuple[int, ...]) -> Profile:
    match values[:1]:
        case (kind,) if kind == GROUPED and len(values) == FIELDS:
            return Profile(Kernel.decoded(list(values[3:])), values[1], values[2])
        case (kind,) if kind == BUFFERED and len(values) >= FIELDS and (len(values) - 4) % 3 == 0:
            return Profile(Buffers.decoded(list(values[3:])), values[1], values[2])
        case _:
            raise InvalidInputError(
                name="profile", value=list(values[:1]), limit=f"versions {GROUPED} and {BUFFERED} are known here"
            )
