"""The product of the public attributes: from rows to flat bins and back to names."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.arguments import checks_arguments, is_a, refuses
from veilstream.data.axes import Axis, Categories, Edges, Grid, axis_from_json
from veilstream.data.ranges import RangeQuery
from veilstream.documents import read_json
from veilstream.errors import InvalidDomainError, InvalidInputError

MAX_BINS: Final = 10_000_000


def is_written_out(source: object) -> bool:
    """Whether a domain is given as JSON text instead of as the name of a file.

    >>> is_written_out('{"place": ["harbour", "market"]}'), is_written_out("domain.json")
    (True, False)
    """
    return isinstance(source, str) and source.lstrip().startswith("{")


class Domain:
    """Ordered public attributes whose bins multiply to at most 10⁷ flat bins.

    The flat id of a row is its position in the product in row-major order: the last attribute changes
    fastest. Bins are stated, never learned from private data. A domain without attributes has a single bin,
    for a series of totals. ``axes`` gives each attribute its ``Categories``, ``Edges`` or ``Grid``.

    >>> from veilstream.data import Categories, Edges
    >>> domain = Domain({"place": Categories(["a", "b"]), "age": Edges([0, 18, 65, 120])})
    >>> domain.shape, domain.bins
    ((2, 3), 6)
    >>> domain.encode({"place": ["b", "a", "?"], "age": [70, 3, 3]})
    array([ 5,  0, -1])
    >>> domain.labels().rows()[:2]
    [('a', '[0, 18)'), ('a', '[18, 65)')]
    """

    __slots__ = ("axes",)
    axes: Final[Mapping[str, Axis]]

    @checks_arguments
    def __init__(self, axes: Mapping[str, Axis]) -> None:
        for name, axis in axes.items():
            if not is_a(name, str) or not is_a(axis, Categories, Edges, Grid):
                raise InvalidDomainError("domain: attributes are names with Categories, Edges or a Grid")
        self.axes = dict(axes)
        self._check_size()

    def _check_size(self) -> None:
        if self.bins > MAX_BINS:
            raise InvalidDomainError(f"domain of {self.bins} bins: the limit is {MAX_BINS}")

    @classmethod
    def from_json(cls, source: str | Path | Mapping[str, Any]) -> Domain:
        """Read a domain from a JSON file, from JSON text (which begins with a brace), or from the value it holds.

        >>> Domain.from_json({"age": {"edges": [0, 18, 65]}, "lon": {"low": 0, "high": 1, "cells": 4}}).shape
        (2, 4)
        """
        if isinstance(source, str | Path):
            written = is_written_out(source)
            try:
                loaded: object = read_json(str(source) if written else Path(source).read_text(encoding="utf-8"))
            except FileNotFoundError as error:
                raise InvalidDomainError(name="domain file", value=source, limit="there is no such file") from error
            except (ValueError, OSError, RecursionError) as error:
                raise InvalidDomainError(
                    name="domain" if written else "domain file", value=source, limit="not readable JSON"
                ) from error
        else:
            loaded = source
        if not isinstance(loaded, Mapping):
            raise InvalidDomainError("domain: give an object from attribute to bins")
        specs = cast("Mapping[str, object]", loaded)
        return cls({name: axis_from_json(name, spec) for name, spec in specs.items()})

    @classmethod
    @refuses("public data", "a frame that has the attributes as columns of texts, numbers or truth values is needed")
    def from_public_data(
        cls, frame: pl.DataFrame, names: Iterable[str], axes: Mapping[str, Axis] | None = None
    ) -> Domain:
        """Learn categories from data that the holder declares PUBLIC.

        Bins learned from private data leak who is in them, so never call this on them. Values are sorted;
        ``axes`` gives the attributes that are not categories, and floating-point columns must be among
        them.
        """
        given = axes or {}
        learned: dict[str, Axis] = {}
        for name in names:
            if name not in given and frame[name].dtype.is_float():
                raise InvalidDomainError(f"attribute '{name}': real numbers need edges or a grid")
            learned[name] = given[name] if name in given else Categories(_observed(frame[name]))
        return cls(learned)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes, in their order."""
        return tuple(self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of bins of each attribute."""
        return tuple(axis.bins for axis in self.axes.values())

    @property
    def bins(self) -> int:
        """The number of flat bins: the product of the shape."""
        return math.prod(self.shape)

    @refuses("rows", "a frame or a mapping that has every attribute as a column is needed")
    def encode(self, frame: pl.DataFrame | Mapping[str, Any]) -> NDArray[np.int64]:
        """The flat id of every row, -1 where any attribute lies outside its public bins."""
        rows = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
        if not self.axes:
            return np.zeros(len(rows), dtype=np.int64)
        (first, axis), *rest = self.axes.items()
        flat = axis.encode(rows[first])
        for name, axis in rest:
            codes = axis.encode(rows[name])
            flat = np.where((flat < 0) | (codes < 0), -1, flat * axis.bins + codes)
        return flat

    def unknown_attributes(self, frame: pl.DataFrame) -> tuple[str, ...]:
        """The attributes in which some row lies outside the public bins."""
        return tuple(name for name, axis in self.axes.items() if (axis.encode(frame[name]) < 0).any())

    def labels(self) -> pl.DataFrame:
        """One row per flat bin, one column per attribute; numeric bins read as ``[0, 18)``."""
        if not self.axes:
            return pl.DataFrame()
        positions = np.unravel_index(np.arange(self.bins), self.shape)
        return pl.DataFrame(
            {
                name: axis.labels().gather(position)
                for (name, axis), position in zip(self.axes.items(), positions, strict=True)
            }
        )

    def range(self, **wanted: object) -> RangeQuery:
        """The box of the named values, ``place=["a"]``, and edges, ``age=(0, 65)``; other attributes in
        full."""
        unknown = [name for name in wanted if name not in self.axes]
        if unknown:
            raise InvalidInputError(f"range on '{unknown[0]}': the attributes are {', '.join(self.names)}")
        box = tuple(
            axis.select(name, wanted[name]) if name in wanted else np.arange(axis.bins, dtype=np.int64)
            for name, axis in self.axes.items()
        )
        return RangeQuery(self.shape, box)

    def to_json(self) -> dict[str, Any]:
        """The value that ``from_json`` reads."""
        return {name: axis.to_json() for name, axis in self.axes.items()}

    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON: equal exactly when names, order and bins are."""
        canonical = json.dumps(list(self.to_json().items()), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and list(self.axes.items()) == list(other.axes.items())

    def __hash__(self) -> int:
        return hash(tuple(self.axes.items()))

    def __repr__(self) -> str:
        return f"Domain({' x '.join(f'{name}[{axis.bins}]' for name, axis in self.axes.items()) or 'total'})"


def _observed(column: pl.Series) -> list[Any]:
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    return sorted(column.drop_nulls().unique().to_list())
