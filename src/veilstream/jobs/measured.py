"""Measured columns as settings write them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np

from veilstream.data.measures import STATISTICS, QuantileOptions, ValueMeasures
from veilstream.errors import InvalidInputError
from veilstream.jobs.wording import number
from veilstream.mechanisms.streams import Uniform
from veilstream.privacy.guarantee import Guarantee
from veilstream.release.estimates import estimates
from veilstream.values.release import Release
from veilstream.values.values import NoiseLaw, Values

BIN_SIZES: Final = (100, 1_000, 10_000)
RANGE: Final = re.compile(r"(?P<name>.+?)=(?P<low>[^=]+?)\.\.(?P<high>[^=]+)")


def measures_of(
    asked: Mapping[str, Any],
    between: Sequence[Any] | None,
    quantiles: QuantileOptions = QuantileOptions(),  # noqa: B008 (frozen)
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


def widths_of_uniform(
    given: Sequence[str], guarantee: Guarantee, steps: int | None, rows: int, per_person: int, level: float = 0.95
) -> tuple[tuple[str, str], ...]:
    """How far off measures of bins of so many rows are that are published in every step.

    >>> widths_of_uniform(["mean=0..100"], Guarantee(1, w=24), None, 500, 1)
    (('mean 0..100', 'about ±9.579 at 500 rows in a bin, at 95%'),)
    """
    measures = measures_of_texts(given)
    share = Uniform(horizon=None if guarantee.endless else steps).epsilon_of_release(guarantee)
    std = math.sqrt(2) * float(measures.movement(per_person)[0] / share)
    return expected_widths(measures, std, level, (rows,))


def expected_widths(
    measures: ValueMeasures | None, std: float, level: float, sizes: Sequence[int] = BIN_SIZES
) -> tuple[tuple[str, str], ...]:
    """How far off each measure may be with noise of this standard deviation on its parts, for bins of several sizes."""
    if measures is None:
        return ()
    lines: list[tuple[str, str]] = []
    for index, label in enumerate(measures.labels):
        widths = [_half_width(measures, index, rows, std, level) for rows in sizes]
        linear = measures.asked[index][0] in ("count", "sum")
        several = ", ".join(f"±{number(width)} at {rows:,} rows" for width, rows in zip(widths, sizes, strict=True))
        about = f"about ±{number(widths[0])} in every bin" if linear else f"about {several} in a bin"
        lines.append((label, f"{about}, at {level:.0%}"))
    return tuple(lines)


def _half_width(measures: ValueMeasures, index: int, rows: int, std: float, level: float) -> float:
    parts = np.concatenate([column.even_parts() for column in measures.columns]) * rows
    release = Release("", 0, 0, Values(parts, std, NoiseLaw.GAUSSIAN), Fraction(0), Fraction(0))
    found = estimates(release, measures, level)[index]
    return float(found.high[0] - found.low[0]) / 2
