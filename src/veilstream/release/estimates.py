"""Counts, sums, means, variances and quantiles with intervals, from the released parts of measured values.

All of it is post-processing of released numbers; quantiles have a file of their own. A mean is the θ between 0 and 1
for which (1 − θ)·B − θ·A is zero, A and B being the parts of the two ends of the range. For the true θ that number is
noise of a known law and nothing else, so the θ for which it lies within the noise's quantile cover the truth at exactly
the level (Fieller, 1954). Of a bin whose number of rows may as well be zero nothing is known: its interval is the whole
range, and it has no value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from veilstream.data.cells import CellColumn
from veilstream.data.measures import Statistic, ValueMeasures, share_of
from veilstream.data.values import ValueColumn
from veilstream.release.quantiles import CellEstimates, Ends
from veilstream.release.smoothing import Smoothing
from veilstream.values.release import Release
from veilstream.values.values import NoiseLaw
from veilstream.values.weighted import half_width_of_sum

Reals = NDArray[np.float64]

HALVINGS: Final = 32
"""Ends of intervals are found to 2⁻³² of the range."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic of every bin: a value, NaN where nothing is known of it, and the ends of its interval."""

    label: str
    value: Reals
    low: Reals
    high: Reals


def estimates(release: Release, measures: ValueMeasures, level: float = 0.95) -> list[Estimate]:
    """What was asked for, from one release.

    >>> from fractions import Fraction
    >>> from veilstream.values.values import Values
    >>> asked = ValueMeasures.of({"mean": {"fare": (0, 100)}, "count": {"fare": (0, 100)}})
    >>> parts = Values(np.array([90.0, 30.0, 0.5, -0.7]), 1.0, NoiseLaw.LAPLACE)
    >>> mean, count = estimates(Release("taxi", 1, 0, parts, Fraction(1), Fraction(0)), asked)
    >>> mean.value, mean.low.round(1), mean.high.round(1), count.value
    (array([25., nan]), array([23.6,  0. ]), array([ 26.4, 100. ]), array([120. ,  -0.2]))
    """
    return estimates_of_all([release], measures, level)[0]


def estimates_of_all(
    releases: Sequence[Release], measures: ValueMeasures, level: float = 0.95, smoothing: Smoothing | None = None
) -> list[list[Estimate]]:
    """The same of many releases at once, which takes little longer than one.

    With ``smoothing`` quantiles lean on the releases before theirs, which are those that it has seen and the earlier
    ones among ``releases``; their intervals stay as they are.
    """
    found: list[list[Estimate]] = [[] for _ in releases]
    for law in dict.fromkeys(release.law for release in releases):
        same = [index for index, release in enumerate(releases) if release.law is law]
        numbers = np.stack([np.asarray(releases[index].values, dtype=np.float64) for index in same])
        stds = [np.broadcast_to(np.asarray(releases[index].std), numbers.shape[1:]) for index in same]
        rows, spread = numbers.reshape(-1, measures.parts), np.stack(stds).reshape(-1, measures.parts)
        ends = _ends_of_asked(measures, rows, spread, law, level)
        for label, asked in zip(measures.labels, ends, strict=True):
            value, low, high = (end.reshape(len(same), -1) for end in asked)
            for position, index in enumerate(same):
                found[index].append(Estimate(label, value[position], low[position], high[position]))
    if smoothing is not None:
        for release, of_release in zip(releases, found, strict=True):
            for place, value in learn(release, measures, smoothing).items():
                of_release[place] = _within(value, of_release[place])
    return found


def learn(release: Release, measures: ValueMeasures, smoothing: Smoothing) -> dict[int, Reals]:
    """Show ``smoothing`` the next release; the values of its quantiles, by their places among what was asked for.

    Mechanisms with other laws of noise lean on the past themselves, or have errors that steps share.
    """
    found: dict[int, Reals] = {}
    if release.law not in (NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN):
        return found
    numbers = np.asarray(release.values, dtype=np.float64)
    std = np.broadcast_to(np.asarray(release.std), numbers.shape).reshape(-1, measures.parts)
    numbers = numbers.reshape(-1, measures.parts)
    for name in dict.fromkeys(name for statistic, name in measures.asked if share_of(statistic) is not None):
        wanted = [(at, share_of(pair[0])) for at, pair in enumerate(measures.asked) if pair[1] == name]
        places = {at: float(share) for at, share in wanted if share is not None}
        column, where = measures.column(measures.asked[next(iter(places))][0], name)
        if isinstance(column, CellColumn) and not np.isnan(std[:, where]).any():
            shares = tuple(places.values())
            values = smoothing.quantiles(column, numbers[:, where], std[:, where], shares, release.t, release.fresh)
            found.update(zip(places, values.T, strict=True))
    return found


def _within(value: Reals, plain: Estimate) -> Estimate:
    """A value that leans on the past, within its interval; what the step shows by itself where the past is silent."""
    return replace(plain, value=np.where(np.isnan(value), plain.value, np.clip(value, plain.low, plain.high)))


def _ends_of_asked(
    measures: ValueMeasures, rows: Reals, spread: Reals, law: NoiseLaw, level: float
) -> list[tuple[Reals, Reals, Reals]]:
    """Value and ends of the interval of every statistic, in the order in which they were asked for."""
    known: dict[tuple[str, str], tuple[Reals, Reals, Reals]] = {}
    for statistic, name in measures.asked:
        column, where = measures.column(statistic, name)
        numbers, std = rows[:, where], spread[:, where]
        if isinstance(column, ValueColumn):
            known[statistic, name] = _Parts(column, numbers, std, law, level).estimate(cast(Statistic, statistic))
        elif share_of(statistic) is None:
            known[statistic, name] = CellEstimates(column, numbers, std, law, level).count()
        elif (statistic, name) not in known:
            known.update(_quantiles(measures, CellEstimates(column, numbers, std, law, level)))
    return [known[pair] for pair in measures.asked]


def _quantiles(measures: ValueMeasures, cells: CellEstimates) -> dict[tuple[str, str], Ends]:
    """All quantiles of one column together, so that they are in order."""
    column: CellColumn = cells.column
    wanted = {pair: share_of(pair[0]) for pair in measures.asked if pair[1] == column.name}
    shares = sorted({share for share in wanted.values() if share is not None})
    found = dict(zip(shares, cells.quantiles([float(share) for share in shares]), strict=True))
    return {pair: found[share] for pair, share in wanted.items() if share is not None}


@dataclass(frozen=True, slots=True)
class _Parts:
    column: ValueColumn
    numbers: Reals
    std: Reals
    law: NoiseLaw
    level: float

    def estimate(self, statistic: Statistic) -> tuple[Reals, Reals, Reals]:
        low, high = float(self.column.low), float(self.column.high)
        ends = np.linspace(0.0, 1.0, self.column.parts) if self.column.parts > 1 else np.zeros(1)
        match statistic:
            case "count":
                return self._linear(np.ones(self.column.parts))
            case "sum":
                single = self.column.parts == 1
                return self._linear(np.array([float(self.column.largest)]) if single else low + (high - low) * ends)
            case "mean":
                value, bottom, top = self._ratio(
                    lambda theta: ends - theta[:, None], self._mean(), np.ones(len(self.std))
                )
                return low + (high - low) * value, low + (high - low) * bottom, low + (high - low) * top
            case "variance":
                unit = (high - low) ** 2
                return tuple(unit * part for part in self._variance())  # type: ignore[return-value]

    def _linear(self, weights: Reals) -> tuple[Reals, Reals, Reals]:
        value = self.numbers @ weights
        width = self._width(np.broadcast_to(weights, self.numbers.shape))
        return value, value - width, value + width

    def _width(self, weights: Reals) -> Reals:
        return half_width_of_sum(weights, self.std, self.law, self.level)

    def _rows(self) -> Reals:
        return np.asarray(self.numbers.sum(axis=1))

    def _mean(self) -> Reals:
        """The mean place in the range, where there are rows."""
        ends, rows = np.linspace(0.0, 1.0, self.column.parts), self._rows()
        return np.clip(self.numbers @ ends / np.where(rows > 0, rows, 1.0), 0.0, 1.0)

    def _variance(self) -> tuple[Reals, Reals, Reals]:
        """By Σ(u − m)² − v·n, in which an error of m is of second order: m is taken where it was found."""
        m, rows = self._mean(), np.where(self._rows() > 0, self._rows(), 1.0)
        largest = m * (1 - m)
        about = np.stack([m**2, m**2 - m, (1 - m) ** 2], axis=1)
        point = np.clip((about * self.numbers).sum(axis=1) / rows, 0.0, largest)
        value, low, high = self._ratio(lambda v: about - v[:, None], point, np.full(len(m), 0.25))
        return value, low, high

    def _ratio(self, weights: Callable[[Reals], Reals], point: Reals, largest: Reals) -> tuple[Reals, Reals, Reals]:
        """The θ around ``point``, between 0 and ``largest``, for which Σ weights(θ)·numbers may be noise alone."""
        known = self._rows() > self._width(np.ones_like(self.numbers))

        def accepted(theta: Reals) -> NDArray[np.bool_]:
            given = weights(theta)
            return np.asarray(np.abs((given * self.numbers).sum(axis=1)) <= self._width(given))

        ends = [self._edge(accepted, point, np.zeros_like(point)), self._edge(accepted, point, largest)]
        # Where not even the nearest possible value is likely, only the range is certain.
        known_interval = known & accepted(point)
        low = np.where(known_interval, ends[0], 0.0)
        high = np.where(known_interval, ends[1], largest)
        return np.where(known, point, np.nan), low, high

    def _edge(self, accepted: Callable[[Reals], NDArray[np.bool_]], inside: Reals, outside: Reals) -> Reals:
        """Where acceptance ends on the way from ``inside`` to ``outside``, or ``outside`` where it does not."""
        whole = accepted(outside)
        near, far = inside.copy(), outside.copy()
        for _ in range(HALVINGS):
            middle = (near + far) / 2
            good = accepted(middle)
            near, far = np.where(good, middle, near), np.where(good, far, middle)
        return np.where(whole, outside, far)
