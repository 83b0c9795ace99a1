"""Measured columns as settings write them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from veilstream.data.measures import USUAL_QUANTILES, QuantileOptions, ValueMeasures
from veilstream.errors import InvalidInputError
from veilstream.values.choices import STATISTICS

RANGE: Final = re.compile(r"(?P<name>.+?)=(?P<low>[^=]+?)\.\.(?P<high>[^=]+)")


def measures_of(
    asked: Mapping[str, Any],
    between: Sequence[Any] | None,
    quantiles: QuantileOptions = USUAL_QUANTILES,
) -> ValueMeasures | None:
    """What is asked of which columns: names, names with a range, or ranges by name; None if nothing is.

    >>> measures_of({"mean": ("fare",), "sum": ("tip=0..20",)}, (0, 100)).labels
    ('mean fare', 'sum tip')
    >>> measures_of({"mean": ("fare",)}, None)
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: between: missing for column 'fare'; its range must be public, not learned from
    private values; nothing was read
    """
    ranges: dict[str, dict[str, Sequence[Any]]] = {}
    known: dict[str, Sequence[Any]] = {}
    named: list[tuple[str, str]] = []
    for statistic, given in asked.items():
        columns = cast("Mapping[str, Any] | Sequence[str]", given or ())
        for entry in columns:
            found = RANGE.fullmatch(entry)
            name = entry if found is None else found["name"].strip()
            if isinstance(columns, Mapping):
                known[name] = columns[entry]
            elif found is not None:
                known[name] = (found["low"].strip(), found["high"].strip())
            named.append((statistic, name))
    for statistic, name in named:
        ends = known.get(name, between)
        if ends is None and statistic in ("median", "quantiles") and quantiles.edges is not None:
            ends = (quantiles.edges[0], quantiles.edges[-1])
        if ends is None:
            raise InvalidInputError(
                f"between: missing for column '{name}'; its range must be public, not learned from private values",
                name="between",
                value=name,
                outcome="nothing was read",
                next_step=f"give --between LOW HIGH, or {name}=LOW..HIGH",
            )
        ranges.setdefault(statistic, {})[name] = ends
    return ValueMeasures.of(ranges, quantiles) if ranges else None


def measures_of_texts(given: Sequence[str]) -> ValueMeasures:
    """What is asked of columns that are known by their ranges alone, from texts such as mean=0..100.

    >>> measures_of_texts(["mean=0..100", "median=0..60"]).labels
    ('mean 0..100', 'median 0..60')
    """
    ranges: dict[str, dict[str, Sequence[Any]]] = {}
    for text in given:
        found = RANGE.fullmatch(text)
        if found is None or found["name"].strip() not in STATISTICS:
            raise InvalidInputError(
                name="measure",
                value=text,
                limit=f"write it as mean=0..100; known are {', '.join(STATISTICS)}",
                outcome="nothing was computed",
            )
        low, high = found["low"].strip(), found["high"].strip()
        ranges.setdefault(found["name"].strip(), {})[f"{low}..{high}"] = (low, high)
    return ValueMeasures.of(ranges)
