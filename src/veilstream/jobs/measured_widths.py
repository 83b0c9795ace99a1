"""How far off measures of a column will be, before any row is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from veilstream.data.measures import ValueMeasures
from veilstream.jobs.measured import measures_of_texts
from veilstream.jobs.wording import number
from veilstream.mechanisms.streams import Uniform
from veilstream.privacy.guarantee import Guarantee
from veilstream.release.estimates import estimates
from veilstream.values.release import Release
from veilstream.values.values import NoiseLaw, Values

BIN_SIZES: Final = (100, 1_000, 10_000)


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
