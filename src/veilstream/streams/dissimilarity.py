"""What BudgetDistribution and BudgetAbsorption share: a noisy mean distance to the last release, by runs of columns."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInput
from veilstream.mechanism import HistogramMechanism
from veilstream.meter import Meter
from veilstream.sealed import Sealed
from veilstream.types import Law, Values


def check_columns(columns: int, bins: int, mechanism: object) -> None:
    """A histogram cannot have more parts than bins."""
    if columns > bins:
        raise InvalidInput(
            f"columns {columns} of {type(mechanism).__name__}: the stream has {bins} bins, and every part needs one; "
            "nothing was released"
        )


def changed_columns(
    now: Sealed, last: Values, columns: int, epsilon: Fraction, error: float, meter: Meter
) -> NDArray[np.bool_]:
    """Bins of the parts whose noisy mean distance to the last release is above ``error``.

    All distances together move by at most l1 when one unit does, so one charge pays for all of them.
    """
    starts = np.arange(columns, dtype=np.int64) * now.size // columns
    distances = now.distance(last.numbers) if columns == 1 else now.distances(last.numbers, starts)
    sizes = np.diff(starts, append=now.size)
    noisy = meter.laplace(distances, epsilon, "dissimilarity").numbers
    return np.repeat(noisy > error * sizes, sizes)


def publish_columns(
    histogram: HistogramMechanism,
    now: Sealed,
    last: Values | None,
    bins: NDArray[np.bool_],
    epsilon: Fraction,
    meter: Meter,
) -> Values:
    """The chosen ``bins`` anew, the others as they were; one charge, for they are read at one timestamp together."""
    if last is None or bins.all():
        return histogram.estimate(now, epsilon, meter)
    part = histogram.estimate(now.select(np.flatnonzero(bins)), epsilon, meter)
    numbers = last.numbers.astype(np.result_type(last.numbers, part.numbers))
    numbers[bins] = part.numbers
    std = np.array(np.broadcast_to(last.std, numbers.shape), dtype=np.float64)
    std[bins] = part.std
    return replace(part, numbers=numbers, std=std, law=part.law if part.law is last.law else Law.MIXED)
