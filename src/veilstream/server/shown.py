"""Releases as readers get them: numbers with intervals, and of measured columns the statistics that were asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.measures import ValueMeasures
from veilstream.release.estimates import Estimate, estimates_of_all, learn
from veilstream.release.smoothing import Smoothing
from veilstream.values.release import Release
from veilstream.values.values import Values

LEVEL: Final = 0.95
SMALLEST: Final = 1e-9
LARGEST_POWER: Final = 15
Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shown:
    """A release as readers get it; the interval holds what ``covers`` says of the step ``as_of`` with probability
    ``LEVEL``.

    ``values`` holds all bins of the first measure, then all of the second, and so on; counts are a single measure.
    The interval is ``half`` to either side of a count, or lies between the ``ends`` of each measured value. ``total``
    speaks of all bins together: their sum, or the first measure of all their rows; NaN where nothing is known of it.
    """

    step: int
    values: NDArray[Any]
    half: float | Reals
    ends: tuple[Reals, Reals] | None
    total: float
    fresh: bool
    spent: str
    left: str
    covers: str
    as_of: int

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        half = self.half.nbytes if isinstance(self.half, np.ndarray) else 8
        return int(self.values.nbytes) + half + (0 if self.ends is None else 2 * self.ends[0].nbytes) + 200

    @property
    def low(self) -> Reals:
        return self.values - self.half if self.ends is None else self.ends[0]

    @property
    def high(self) -> Reals:
        return self.values + self.half if self.ends is None else self.ends[1]


@dataclass(frozen=True, slots=True)
class ReadersPast:
    """What releases so far say of the next one: of each bin, and of all rows."""

    bins: Smoothing = field(default_factory=Smoothing)
    whole: Smoothing = field(default_factory=Smoothing)

    def learn(self, release: Release, measures: ValueMeasures) -> None:
        """A release that is not shown now."""
        learn(release, measures, self.bins)
        if _has_several_bins(release, measures):
            learn(_of_all_bins(release, measures), measures.drawn(), self.whole)


def shown(
    releases: Sequence[Release], as_of: Sequence[int], measures: ValueMeasures | None, past: ReadersPast | None = None
) -> list[Shown]:
    """What readers get of releases whose values are those of the steps ``as_of``; quantiles lean on the ``past``."""
    if not releases:
        return []
    if measures is None:
        return [_counts(release, step) for release, step in zip(releases, as_of, strict=True)]
    bins, whole = (None, None) if past is None else (past.bins, past.whole)
    found = estimates_of_all(releases, measures, LEVEL, bins)
    drawn = measures.drawn()
    if _has_several_bins(releases[0], measures):
        wholes = [_of_all_bins(release, measures) for release in releases]
        wholes_found = estimates_of_all(wholes, drawn, LEVEL, whole)
    else:
        wholes_found = [[one for one in of_step if one.label in drawn.labels] for of_step in found]
    return [
        _measured(release, step, several, _middle(one) if _adds_up(release, measures) else math.nan)
        for release, step, several, one in zip(releases, as_of, found, wholes_found, strict=True)
    ]


def _counts(release: Release, as_of: int) -> Shown:
    low, high = release.interval(LEVEL)
    half = (high - low) / 2
    flat: float | Reals = half if isinstance(release.std, np.ndarray) else float(half[0])
    return _shown(release, as_of, release.values, flat, None, float(np.sum(release.values)))


def _measured(release: Release, as_of: int, found: Sequence[Estimate], total: float) -> Shown:
    values, low, high = (
        np.concatenate([getattr(estimate, name) for estimate in found]) for name in ("value", "low", "high")
    )
    return _shown(release, as_of, values, 0.0, (low, high), total)


def _shown(
    release: Release,
    as_of: int,
    values: NDArray[Any],
    half: float | Reals,
    ends: tuple[Reals, Reals] | None,
    total: float,
) -> Shown:
    spent, left = str(release.spent), str(release.left)
    return Shown(release.t, values, half, ends, total, release.fresh, spent, left, release.covers, as_of)


def _has_several_bins(release: Release, measures: ValueMeasures) -> bool:
    return len(release.values) > measures.parts


def _of_all_bins(release: Release, measures: ValueMeasures) -> Release:
    """The parts of the rows of all bins together."""
    parts = np.asarray(release.values, dtype=np.float64).reshape(-1, measures.parts)
    spread = np.broadcast_to(np.asarray(release.std), release.values.shape).reshape(parts.shape)
    std = np.sqrt((spread**2).sum(axis=0))
    return replace(release, payload=Values(parts.sum(axis=0), std, release.law, release.fresh))


def _adds_up(release: Release, measures: ValueMeasures) -> bool:
    """Whether parts of several bins are parts of all their rows: not where edges were chosen bin by bin."""
    return release.values.size == measures.parts or not np.isnan(np.asarray(release.std)).any()


def _middle(estimates: Sequence[Estimate]) -> float:
    """The one statistic, or the middle one of several quantiles."""
    return float(estimates[len(estimates) // 2].value[0])


def numbers(rows: Sequence[NDArray[Any]], digits: int | None = None) -> list[list[float | None]]:
    """Rows of numbers for JSON, which has no NaN; with ``digits`` that count if they are given.

    >>> numbers([np.array([1.5, np.nan])]), numbers([np.array([3])]), numbers([np.array([1234.5678, 0])], 6)
    ([[1.5, None]], [[3]], [[1234.57, 0.0]])
    """
    if not rows or any(row.dtype.kind != "f" for row in rows):
        return [row.tolist() for row in rows]
    values = np.stack(rows)
    known = np.isfinite(values)
    exact = values if digits is None else rounded(np.where(known, values, 0.0), digits)
    found: list[list[float | None]] = exact.tolist()
    for row, place in np.argwhere(~known).tolist():
        found[row][place] = None
    return found


def rounded(values: Reals, digits: int) -> Reals:
    """Numbers to so many digits that count: shorter to write, and nobody sees the difference in a picture."""
    size = np.abs(values)
    places = digits - 1 - np.floor(np.log10(np.where(size > SMALLEST, size, 1.0)))
    unit = 10.0 ** np.clip(places, 0, LARGEST_POWER)
    return np.asarray(np.rint(values * unit) / unit)
