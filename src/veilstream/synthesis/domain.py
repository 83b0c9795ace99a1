"""Public attributes of a table whose product may be too large to list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data import Axis, Categories, Domain, Edges, Grid
from veilstream.data.domain import MAX_BINS
from veilstream.errors import InvalidDomainError, InvalidInputError


class TableDomain(Domain):
    """A ``Domain`` of which only every single attribute must be small enough to list, not their product.

    >>> domain = TableDomain({f"x{i}": Grid(0, 1000, 1000) for i in range(8)})
    >>> domain.bins == 1000**8
    True
    >>> [codes.tolist() for codes in TableDomain({"a": Categories(["x", "y"])}).columns({"a": ["y", "?"]})]
    [[1, -1]]
    """

    __slots__ = ()

    def _check_size(self) -> None:
        if not self.axes:
            raise InvalidDomainError("table of 0 attributes: at least 1 is needed")
        for name, axis in self.axes.items():
            if axis.bins > MAX_BINS:
                raise InvalidDomainError(f"attribute '{name}' of {axis.bins} bins: the limit is {MAX_BINS}")

    def columns(self, frame: pl.DataFrame | Mapping[str, Any]) -> list[NDArray[np.int64]]:
        """The code of every row, attribute by attribute, -1 where a value lies outside the public bins."""
        rows = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
        return [axis.encode(rows[name]) for name, axis in self.axes.items()]

    def values(self, columns: list[NDArray[np.int64]], positions: list[NDArray[np.float64]]) -> pl.DataFrame:
        """Rows of values from codes; ``positions`` in [0, 1) say where inside a numeric bin a value lies."""
        if len(columns) != len(self.axes):
            raise InvalidInputError(f"{len(columns)} columns for {len(self.axes)} attributes")
        series = [
            _values(axis, codes, position).alias(name)
            for (name, axis), codes, position in zip(self.axes.items(), columns, positions, strict=True)
        ]
        return pl.DataFrame(series)


def table_domain(domain: Domain) -> TableDomain:
    """Any domain as the domain of a table."""
    return domain if isinstance(domain, TableDomain) else TableDomain(domain.axes)


def _values(axis: Axis, codes: NDArray[np.int64], position: NDArray[np.float64]) -> pl.Series:
    """Categories as they are; numbers at random inside their bin, whole ones if all edges are whole."""
    if isinstance(axis, Categories):
        return axis.labels().gather(codes)
    edges = np.array(axis.edges) if isinstance(axis, Edges) else axis.bounds()
    low, high = edges[codes], edges[codes + 1]
    if not np.array_equal(edges, np.rint(edges)):
        return pl.Series(low + position * (high - low))
    # The last bin also holds its upper edge.
    width = high - low + ((codes == axis.bins - 1) & (axis.bins > 1) & (high - low > 1))
    return pl.Series((low + np.floor(position * width)).astype(np.int64))


__all__ = ["Axis", "Categories", "Edges", "Grid", "TableDomain", "table_domain"]
