"""Errors of measured values in simulations: of the statistic that readers see, not of the parts it is read from."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.measures import ValueMeasures
from veilstream.data.values import ONE
from veilstream.errors import InvalidInputError
from veilstream.evaluate.metrics import average_relative_error, mean_absolute_error
from veilstream.evaluate.runner import Measures
from veilstream.release.estimates import estimates_of_all
from veilstream.release.smoothing import Smoothing
from veilstream.testing.simulation import Simulated
from veilstream.values.release import Release
from veilstream.values.values import NoiseLaw, Values

Reals = NDArray[np.float64]
NO_NOISE: Final = 1e-9


def movement_on_grid(measures: ValueMeasures, rows: int) -> int:
    """How far one person with so many rows moves the parts of a step, which are whole multiples of 2⁻¹⁶."""
    return int(measures.movement(rows)[0] * ONE)


def check_single(measures: ValueMeasures, metric: str) -> None:
    """Refuse what has no single error."""
    if len(measures.asked) != 1:
        raise InvalidInputError(
            name="measure",
            value=", ".join(measures.labels),
            limit="one statistic is compared at a time, such as a median",
            outcome="nothing was compared",
        )
    if metric == "ranges":
        raise InvalidInputError(
            name="metric", value=metric, limit="measured values have no sums of bins", outcome="nothing was compared"
        )


def errors_of_statistic(
    measures: ValueMeasures, released: Simulated, exact: NDArray[np.int64], smooth: bool = True
) -> Measures:
    """Errors of the one statistic that is asked for, over all steps and bins that have one.

    ``released`` and ``exact`` are parts (steps × bins·parts) in multiples of 2⁻¹⁶. Where no value is released, the
    middle of the range is taken. With ``smooth`` quantiles lean on earlier releases, as ``publish`` has them.
    """
    column, _ = measures.column(*measures.asked[0])
    std = np.maximum(released.noise_std / ONE, NO_NOISE)
    given = _values(
        measures,
        [
            Values(row, float(spread), law, bool(fresh))
            for row, spread, law, fresh in zip(
                np.asarray(released) / ONE, std, released.laws, released.fresh, strict=True
            )
        ],
        Smoothing() if smooth else None,
    )
    truth = _values(measures, [Values(row / ONE, NO_NOISE, NoiseLaw.LAPLACE) for row in exact])
    known = ~np.isnan(truth)
    found = np.where(np.isnan(given), float(column.low + column.high) / 2, given)[known]
    return {
        "absolute": mean_absolute_error(found[None], truth[known][None]),
        "relative": average_relative_error(found[None], truth[known][None], float(column.high - column.low) / 1000),
        "fresh": float(released.fresh.mean()),
    }


def _values(measures: ValueMeasures, steps: Sequence[Values], smoothing: Smoothing | None = None) -> Reals:
    """The statistic of every step and bin, NaN where there is none."""
    releases = [Release("", t, t, values, Fraction(0), Fraction(0)) for t, values in enumerate(steps)]
    return np.array([of_step[0].value for of_step in estimates_of_all(releases, measures, smoothing=smoothing)])
