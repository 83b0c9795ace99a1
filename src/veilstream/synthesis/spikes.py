"""A numeric attribute some of whose single values hold so many rows that they need bins of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.axes import Edges, Grid
from veilstream.data.columns import as_numbers
from veilstream.errors import InvalidDomainError, InvalidInputError


@dataclass(frozen=True, slots=True)
class Spiked:
    """Bins of numbers, and before the rest of its bin a bin of its own for each of the public ``spikes``.

    Rows of one bin are drawn at random inside it, which smears a value that many rows share, such as an income of 0.
    Which values those are is stated, never learned from private rows.

    >>> axis = Spiked(Grid(0, 100, 2), (0.0,))
    >>> axis.bins, axis.encode(pl.Series([0, 1, 49, 50])).tolist(), axis.labels().to_list()
    (3, [0, 1, 1, 2], ['0', '[0, 50)', '[50, 100]'])
    """

    base: Edges | Grid
    spikes: tuple[float, ...]

    def __post_init__(self) -> None:
        values = tuple(float(value) for value in self.spikes)
        if not values or sorted(set(values)) != list(values) or (self.base.encode(pl.Series(values)) < 0).any():
            raise InvalidDomainError(
                name="spikes", value=list(self.spikes), limit="numbers inside the bins, each once and rising"
            )
        object.__setattr__(self, "spikes", values)

    @property
    def bins(self) -> int:
        return self.base.bins + len(self.spikes)

    def encode(self, column: pl.Series) -> NDArray[np.int64]:
        """The bin of every row, -1 for what the bins do not hold."""
        codes, spikes = self.base.encode(column), np.array(self.spikes)
        numbers, places = as_numbers(column), self._places()
        wide = np.where(codes < 0, -1, codes + np.searchsorted(places, codes, side="right"))
        at = np.minimum(np.searchsorted(spikes, numbers), spikes.size - 1)
        return np.where((codes >= 0) & (spikes[at] == numbers), places[at] + at, wide)

    def bounds(self) -> NDArray[np.float64]:
        """The ``bins + 1`` borders of the bins; a spike's bin has no width."""
        base = _bounds(self.base)
        # The rest of a spike's bin still begins at that bin's own lower edge.
        return np.insert(base, self._places() + 1, base[self._places()])

    def spike_of(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """The value of every code that is a spike's, NaN elsewhere."""
        values = np.full(self.bins, np.nan)
        values[self._places() + np.arange(len(self.spikes))] = self.spikes
        return values[codes]

    def labels(self) -> pl.Series:
        names: list[str] = self.base.labels().to_list()
        for place, value in sorted(zip(self._places().tolist(), self.spikes, strict=True), reverse=True):
            names.insert(place, f"{value:g}")
        return pl.Series(names)

    def select(self, name: str, wanted: object) -> NDArray[np.int64]:
        """The bins of a spike's value, or all bins and spikes between two borders."""
        if isinstance(wanted, int | float):
            if float(wanted) not in self.spikes:
                raise InvalidInputError(f"range on '{name}': {wanted!r} is not a spike; give two ends")
            return self.encode(pl.Series([float(wanted)]))
        chosen = self.base.select(name, wanted)
        every = np.arange(self.base.bins)
        wide = every + np.searchsorted(self._places(), every, side="right")
        spikes = np.flatnonzero(np.isin(self._places(), chosen))
        return np.sort(np.concatenate([wide[chosen], self._places()[spikes] + spikes]))

    def to_json(self) -> dict[str, Any]:
        return {**self.base.to_json(), "spikes": [int(v) if v.is_integer() else v for v in self.spikes]}

    def _places(self) -> NDArray[np.int64]:
        """The bin of the base that each spike lies in."""
        return self.base.encode(pl.Series(self.spikes))


def _bounds(axis: Edges | Grid) -> NDArray[np.float64]:
    return np.array(axis.edges) if isinstance(axis, Edges) else axis.bounds()
