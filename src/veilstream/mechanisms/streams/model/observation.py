"""One noisy look at all bins, and what it says to a Gaussian belief about each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Floats = NDArray[np.float64]

NEARLY_GAUSSIAN: Final = 50.0
"""From this ratio of a belief's variance to the squared Laplace scale on, their sum is as good as Gaussian."""
SMALLEST_RATIO: Final = 1e-4
"""Below this ratio a belief is as good as certain next to Laplace noise."""
MANY: Final = 1 << 15
"""Entries from which a table is quicker than the formula."""
PIECE: Final = 1 << 11
"""Bins that are worked on at once."""
_ROWS_PER_E: Final = 16
_ROWS: Final = int(math.log(NEARLY_GAUSSIAN / SMALLEST_RATIO) * _ROWS_PER_E) + 1
_REACH: Final = 64
_COLUMNS_PER_SCALE: Final = 16
_COLUMNS: Final = _REACH * _COLUMNS_PER_SCALE + 1
_LOG_2PI: Final = math.log(2 * math.pi)


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """``numbers`` = counts + noise of ``variance``; ``scale`` is that of Laplace noise, None for any other noise."""

    numbers: Floats
    variance: float
    scale: float | None = None


def likelihood(gap: Floats, variance: Floats, look: Look) -> tuple[Floats, Floats]:
    """Log density of ``gap`` = look − belief, and its score −d/dgap, where the belief has ``variance``.

    Gaussian noise: gap ~ N(0, P + R), score gap/(P + R). Laplace noise of scale b: with Φ the normal distribution,

        f(v) = e^{P/2b²}/(2b) · (A + B),   A = e^{−v/b} Φ((v − P/b)/√P),   B = e^{v/b} Φ((−v − P/b)/√P),

    and the score is (A − B)/((A + B)·b) = tanh(½ ln(A/B))/b: never more than 1/b, however far the look is off.
    ``variance`` has one entry for each row of ``gap`` (its last axis but one), or one for each entry.
    """
    scale = look.scale
    by_row = variance.ndim == 1 and gap.ndim > 1
    if by_row:
        variance = variance[:, None]
    total = variance + look.variance
    if scale is None:
        score = gap / total
        return -0.5 * (np.log(total) + _LOG_2PI + gap * score), score
    wide = variance >= NEARLY_GAUSSIAN * scale * scale
    if by_row:
        return _by_row(gap, variance, total, wide[:, 0], look)
    log_density, score = _laplace(gap, np.minimum(variance, NEARLY_GAUSSIAN * scale * scale), scale)
    if wide.any():
        far = gap / total
        log_density = np.where(wide, -0.5 * (np.log(total) + _LOG_2PI + gap * far), log_density)
        score = np.where(wide, far, score)
    return log_density, score


def _by_row(gap: Floats, variance: Floats, total: Floats, wide: NDArray[np.bool_], look: Look) -> tuple[Floats, Floats]:
    """The same where a whole row has one variance, so that each row needs one formula only."""
    assert look.scale is not None
    log_density, score = np.empty_like(gap), np.empty_like(gap)
    narrow = ~wide
    if narrow.any():
        near = _laplace(gap[..., narrow, :], variance[narrow], look.scale)
        log_density[..., narrow, :], score[..., narrow, :] = near
    if wide.any():
        rest = gap[..., wide, :]
        far = rest / total[wide]
        log_density[..., wide, :] = -0.5 * (np.log(total[wide]) + _LOG_2PI + rest * far)
        score[..., wide, :] = far
    return log_density, score


def _laplace(gap: Floats, variance: Floats, scale: float) -> tuple[Floats, Floats]:
    if gap.size < MANY:
        return _computed(gap, variance, scale)
    shape = np.broadcast_shapes(gap.shape, variance.shape)
    log_density, score = np.empty(shape), np.empty(shape)
    # A piece and its temporaries stay in the processor's cache.
    for first in range(0, gap.shape[-1], PIECE):
        piece = (..., slice(first, first + PIECE))
        width = variance if variance.shape[-1] == 1 else variance[piece]
        log_density[piece], score[piece] = _tabled(gap[piece], width, scale)
    return log_density, score


def _tabled(gap: Floats, variance: Floats, scale: float) -> tuple[Floats, Floats]:
    """The same from a table: linear in the gap, whose tails are lines, and at the nearest of many variances."""
    log_densities, scores = _laplace_table()
    ratio = np.log(np.maximum(variance / (scale * scale), SMALLEST_RATIO)) - math.log(SMALLEST_RATIO)
    row = np.minimum(np.rint(ratio * _ROWS_PER_E), _ROWS - 1).astype(np.int32)
    distance = np.abs(gap) / scale
    place = np.minimum(distance, _REACH) * _COLUMNS_PER_SCALE
    column = np.minimum(place.astype(np.int32), _COLUMNS - 2)
    part = place - column
    at = row * _COLUMNS + column
    left, right = log_densities[at], log_densities[at + 1]
    beyond = np.maximum(distance - _REACH, 0.0)
    log_density = left + part * (right - left) - (beyond + math.log(scale))
    left, right = scores[at], scores[at + 1]
    return log_density, np.copysign((left + part * (right - left)) / scale, gap)


@lru_cache(maxsize=1)
def _laplace_table() -> tuple[Floats, Floats]:
    """Log density and score by variance and distance for Laplace noise of scale 1."""
    variances = SMALLEST_RATIO * np.exp(np.arange(_ROWS) / _ROWS_PER_E)
    distances = np.arange(_COLUMNS) / _COLUMNS_PER_SCALE
    log_density, score = _computed(distances[None, :], variances[:, None], 1.0)
    return log_density.ravel(), score.ravel()


def _computed(gap: Floats, variance: Floats, scale: float) -> tuple[Floats, Floats]:
    root = np.sqrt(variance)
    slope = gap / scale
    middle = gap / root
    edge = root / scale
    log_a = log_ndtr(middle - edge) - slope
    log_b = log_ndtr(-middle - edge) + slope
    log_density = np.logaddexp(log_a, log_b) + (0.5 * edge * edge - math.log(2 * scale))
    return log_density, np.tanh(0.5 * (log_a - log_b)) / scale


def remaining(variance: Floats, look: Look) -> Floats:
    """The variance of a belief after the look, on average over looks: P − P²·I(P).

    I is the information that one look carries about a belief's mean: 1/(P + R) for Gaussian noise, and the mean
    squared score for Laplace noise, from a table.
    """
    if look.scale is None:
        return variance * look.variance / (variance + look.variance)
    b2 = look.scale * look.scale
    ratios, informations = _laplace_information()
    ratio = np.log(np.maximum(variance, 1e-300) / b2)
    information = np.exp(np.interp(ratio, ratios, informations)) / b2
    exact = np.where(variance >= NEARLY_GAUSSIAN * b2, 1 / (variance + look.variance), information)
    return variance * np.maximum(1 - variance * exact, 1e-12)


@lru_cache(maxsize=1)
def _laplace_information() -> tuple[Floats, Floats]:
    """ln(P/b²) and ln(b²·I), for Laplace noise of scale b = 1."""
    ratios = np.linspace(math.log(1e-6), math.log(NEARLY_GAUSSIAN), 61)
    gaps = np.linspace(-60, 60, 6001)
    values: list[float] = []
    for variance in np.exp(ratios):
        log_density, score = _computed(gaps, np.array(variance), 1.0)
        weight = np.exp(log_density)
        values.append(math.log(float((weight * score * score).sum() / weight.sum())))
    return ratios, np.array(values)
