"""Range-count queries: the sum over a box of public bins."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilstream.errors import InvalidInputError


@dataclass(frozen=True, slots=True, eq=False)
class RangeQuery:
    """Σ values[b] over the bins b of a box, one set of bins per attribute.

    It is asked of released values, so answering costs nothing.

    >>> from veilstream.data import Categories, Domain, Edges
    >>> domain = Domain({"place": Categories(["a", "b"]), "age": Edges([0, 18, 65, 120])})
    >>> domain.range(place=["a"], age=(0, 65)).answer([1, 2, 4, 8, 16, 32])
    3.0
    """

    shape: tuple[int, ...]
    box: tuple[NDArray[np.int64], ...] = field(repr=False)

    @property
    def size(self) -> int:
        """How many flat bins the box holds."""
        return math.prod(len(bins) for bins in self.box)

    def answer(self, values: ArrayLike) -> float:
        """The sum of the box over one flat vector of values."""
        numbers = np.asarray(values)
        if numbers.size != math.prod(self.shape):
            raise InvalidInputError(f"range over {numbers.size} values: the domain has {math.prod(self.shape)} bins")
        if not self.shape:
            return float(numbers.sum())
        return float(numbers.reshape(self.shape)[np.ix_(*self.box)].sum())

    def flat_bins(self) -> NDArray[np.int64]:
        """The flat ids of the box, in order."""
        if not self.shape:
            return np.zeros(1, dtype=np.int64)
        return np.arange(math.prod(self.shape)).reshape(self.shape)[np.ix_(*self.box)].ravel()
