"""From means to verdicts: ratios of two curves, and what several checked statements amount to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import polars as pl

from research.figure import Verdict
from research.grid import exactly
from veilstream.evaluate.runner import METRIC
from veilstream.evaluate.summary import summary

EVEN: Final = 0.03
"""Means that differ by less than this share are called even: runs are few."""


def with_twins(table: pl.DataFrame, metrics: Sequence[str], suffix: str = "-true") -> pl.DataFrame:
    """The table with rows of exact twins as mechanisms of their own, named with the ``suffix``.

    >>> table = pl.DataFrame({"mechanism": ["a", "a"], "metric": ["e", "e (exact)"], "value": [2.0, 1.0]})
    >>> with_twins(table, ["e"]).rows()
    [('a', 'e', 2.0), ('a-true', 'e', 1.0)]
    """
    parts = [table.filter(~pl.col(METRIC).is_in([exactly(metric) for metric in metrics]))]
    for metric in metrics:
        own = table.filter(pl.col(METRIC) == exactly(metric))
        parts.append(own.with_columns(pl.col("mechanism") + suffix, pl.lit(metric).alias(METRIC)))
    return pl.concat(parts)


def means(table: pl.DataFrame, x: Sequence[str], metric: str, by: str = "mechanism") -> pl.DataFrame:
    """Means over runs: a row for each ``x``, a column for each mechanism."""
    long = summary(table, [by, *x], metric)
    return long.pivot(on=by, index=list(x), values="mean").sort(*x)


def ratio(table: pl.DataFrame, of: str, over: str) -> list[float]:
    """Mean of one column over that of another, row by row, where both are there."""
    both = table.drop_nulls([of, over])
    return (both[of] / both[over]).to_list()


def geometric_mean(ratios: Iterable[float]) -> float:
    """The mean of ratios.

    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    logarithms = [math.log(value) for value in ratios]
    return math.exp(sum(logarithms) / len(logarithms))


def below(ratios: Sequence[float]) -> bool:
    """Whether all are clearly below one."""
    return all(value < 1 - EVEN for value in ratios)


def describe(ratios: Sequence[float]) -> str:
    """Ratios as a clause of a sentence.

    >>> describe([0.5, 1.01, 2.0])
    'below in 1, even in 1 and above in 1 of 3 (0.5 to 2 times, 1 in the geometric mean)'
    """
    less = sum(value < 1 - EVEN for value in ratios)
    more = sum(value > 1 + EVEN for value in ratios)
    return (
        f"below in {less}, even in {len(ratios) - less - more} and above in {more} of {len(ratios)} "
        f"({min(ratios):.3g} to {max(ratios):.3g} times, {geometric_mean(ratios):.3g} in the geometric mean)"
    )


def verdict(main: Sequence[bool], also: Sequence[bool] = ()) -> Verdict:
    """What the statements of a claim amount to: where none of the ``main`` ones holds, ``also`` does not help.

    >>> verdict([True, False]), verdict([False], also=[True])
    (<Verdict.PARTLY: 'holds in part'>, <Verdict.FAILS: 'does not hold'>)
    """
    if all(main) and all(also):
        return Verdict.HOLDS
    return Verdict.PARTLY if any(main) else Verdict.FAILS
