"""Public attributes of a table whose product may be too large to list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data import Axis, Categories, Domain, Edges, Grid
from veilstream.data.domain import MAX_BINS
from veilstream.documents import read_json
from veilstream.errors import InvalidDomainError, InvalidInputError
from veilstream.synthesis.spikes import Spiked


class TableDomain(Domain):
    """A ``Domain`` of which only every single attribute must be small enough to list, not their product.

    ``spikes`` names values of numeric attributes that many rows share, such as an income of 0: each gets a bin of its
    own (see ``Spiked``). In a JSON file they stand with the bins: ``{"low": 0, "high": 90000, "cells": 90, "spikes":
    [0]}``.

    >>> domain = TableDomain({f"x{i}": Grid(0, 1000, 1000) for i in range(8)})
    >>> domain.bins == 1000**8
    True
    >>> [codes.tolist() for codes in TableDomain({"a": Categories(["x", "y"])}).columns({"a": ["y", "?"]})]
    [[1, -1]]
    """

    __slots__ = ()

    def __init__(self, axes: Mapping[str, Axis], spikes: Mapping[str, Sequence[float]] | None = None) -> None:
        stated: dict[str, Any] = dict(axes)
        known = {name: axis.base if isinstance(axis, Spiked) else axis for name, axis in stated.items()}
        super().__init__(known)
        for name, values in (spikes or {}).items():
            base: object = known.get(name)
            if not isinstance(base, Edges | Grid):
                raise InvalidDomainError(f"spikes of '{name}': they belong to an attribute with edges or a grid")
            stated[name] = _spiked_axis(name, base, values)
        # They answer what every axis does, and are known to tables alone.
        object.__setattr__(self, "axes", stated)
        self._check_size()

    @classmethod
    def from_json(cls, source: str | Path | Mapping[str, Any]) -> Self:
        """Read a domain from a JSON file or from the value such a file holds, spikes included.

        >>> TableDomain.from_json({"income": {"low": 0, "high": 10, "cells": 2, "spikes": [0]}}).shape
        (3,)
        """
        if isinstance(source, str | Path):
            try:
                loaded: object = read_json(Path(source).read_text(encoding="utf-8"))
            except (ValueError, OSError):
                return cast("Self", super().from_json(source))
        else:
            loaded = source
        if not isinstance(loaded, Mapping):
            return cast("Self", super().from_json(cast("Any", loaded)))
        specs = dict(cast("Mapping[str, Any]", loaded))
        axes: dict[str, Axis] = {}
        spikes: dict[str, list[float]] = {}
        for name, spec in specs.items():
            bins = spec
            if isinstance(spec, Mapping) and "spikes" in spec:
                bins = {key: value for key, value in cast("Mapping[str, Any]", spec).items() if key != "spikes"}
                spikes[name] = _stated_spikes(name, cast("Any", spec["spikes"]))
            axes |= _named(name, bins)
        return cls(axes, spikes)

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


def _named(name: str, bins: Any) -> dict[str, Axis]:
    """The bins of one attribute; what is wrong with them is said with its name."""
    if type(bins) is int and bins > 0:
        raise InvalidDomainError(
            name=f"attribute '{name}'",
            value=bins,
            limit="a number of values is not enough, their bins are needed",
            next_step=f'write {{"low": 0, "high": {bins}, "cells": {bins}}} for whole numbers from 0 to {bins - 1}',
        )
    try:
        return dict(Domain.from_json({name: bins}).axes)
    except InvalidDomainError as error:
        said = str(error).removesuffix(f"; {error.outcome}")
        if f"'{name}'" in said:
            raise
        raise InvalidDomainError(f"attribute '{name}': {said}") from None


def _spiked_axis(name: str, base: Edges | Grid, values: Sequence[float]) -> Spiked:
    try:
        return Spiked(base, tuple(values))
    except InvalidDomainError as error:
        raise InvalidDomainError(name=f"spikes of '{name}'", value=list(values), limit=error.limit) from None


def _stated_spikes(name: str, stated: Any) -> list[float]:
    given: object = stated
    values: list[Any] = stated if isinstance(given, list) else []
    if not values or not all(type(value) in (int, float) for value in values):
        raise InvalidDomainError(
            name=f"spikes of '{name}'",
            value=stated,
            limit="a list of numbers inside the bins",
            next_step='write {"low": 0, "high": 100, "cells": 10, "spikes": [0]}',
        )
    return values


def table_domain(domain: Domain) -> TableDomain:
    """Any domain as the domain of a table."""
    return domain if isinstance(domain, TableDomain) else TableDomain(domain.axes)


def listed_domain(domain: TableDomain) -> Domain:
    """The same bins for releases that list them all; those of an attribute with spikes are known by their labels.

    >>> listed_domain(TableDomain({"income": Grid(0, 10, 2)}, {"income": [0]})).labels()["income"].to_list()
    ['0', '[0, 5)', '[5, 10]']
    """
    axes: dict[str, Axis] = {}
    for name, axis in domain.axes.items():
        axes[name] = axis if _spiked(axis) is None else Categories(axis.labels().to_list())
    return Domain(axes)


def _spiked(axis: object) -> Spiked | None:
    return axis if isinstance(axis, Spiked) else None


def _values(axis: Axis, codes: NDArray[np.int64], position: NDArray[np.float64]) -> pl.Series:
    """Categories as they are; numbers at random inside their bin, whole ones if all edges are whole."""
    if isinstance(axis, Categories):
        return axis.labels().gather(codes)
    edges = np.array(axis.edges) if isinstance(axis, Edges) else axis.bounds()
    spiked = _spiked(axis)
    known = np.array(spiked.spikes if spiked else ())
    spikes = spiked.spike_of(codes) if spiked else np.full(codes.size, np.nan)
    low, high = edges[codes], edges[codes + 1]
    if not (np.array_equal(edges, np.rint(edges)) and np.array_equal(known, np.rint(known))):
        return pl.Series(np.where(np.isnan(spikes), low + position * (high - low), spikes))
    # The last bin also holds its upper edge.
    width = high - low + ((codes == axis.bins - 1) & (axis.bins > 1) & (high - low > 1))
    inside = low + np.floor(position * width)
    return pl.Series(np.where(np.isnan(spikes), inside, spikes).astype(np.int64))


__all__ = ["Axis", "Categories", "Edges", "Grid", "TableDomain", "listed_domain", "table_domain"]
