"""Running totals from correlated answers: a factorisation of prefix sums that a few decaying buffers can follow.

Answer t is the count of its step with noise n_t = z_t − Σ_{k≥1} c_k·n_{t−k}, so that totals have the noise A·C⁻¹·z.
With c_k = binom(2k, k)/4^k that is the square root of prefix sums. Sums of exponentials whose rates are eight times
apart are within a few thousandths of it. A known horizon lets late answers have less noise (``Buffers.scale``), which
comes within some hundredths of the best that any factorisation can do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.streams.running.rows import row_variances
from veilstream.privacy.buffers import SCALE_BITS, Buffers
from veilstream.privacy.kernels import MOST_ROWS, SLOPE
from veilstream.trusted.correlated import CorrelatedNoise
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw, Values

Reals = NDArray[np.float64]

FACTOR_BITS: Final = 7
SHORT: Final = 1 << 12
"""Up to so many rows rates are four times apart, beyond eight times."""
PLACES: Final = 300
"""Ages at which weights are fitted."""
LEAST_DECAY: Final = 2.0**-40
"""With less hardly anything of the step before is left; weights are fitted as if it were this."""


@dataclass(frozen=True, slots=True, eq=False)
class BufferedState:
    """The noise so far, the last total, and the covariance of all buffers and the total."""

    noise: CorrelatedNoise | None = None
    total: Any = None
    last: Any = None
    covariance: Any = None


def next_buffered(
    state: BufferedState, now: Sealed, buffers: Buffers, unit: Fraction, meter: Meter, *, decay: float
) -> tuple[BufferedState, Values, float]:
    """The total with the present answer, whose row costs a timestamp of weight 1 ``unit`` of μ², and its own noise."""
    answer, noise = meter.correlated(now, buffers, unit, "total", state.noise)
    missed = 0 if state.noise is None else noise.last - state.noise.last - 1
    scale = buffers.scale(noise.last - noise.start) / float(1 << SCALE_BITS)
    covariance = covariance_after(state.covariance, buffers, float(answer.std), scale, decay, missed)
    total: Any = answer.numbers if state.total is None else decay ** (missed + 1) * state.total + answer.numbers
    values = Values(total, math.sqrt(covariance[-1, -1]), NoiseLaw.GAUSSIAN)
    return BufferedState(noise, total, total, covariance), values, float(answer.std)


def covariance_after(
    known: Reals | None, buffers: Buffers, std: float, scale: float, decay: float = 1.0, missed: int = 0
) -> Reals:
    """The covariance after a row: n = z − ω·S, then S ← θ·S + n and total ← β·total + n/d."""
    falls, omegas = _dynamics(buffers, decay)
    fresh = np.ones(len(falls))
    fresh[-1] = 1 / scale
    added = (std**2 * fresh)[:, None] * fresh
    if known is None:
        return added
    if missed:
        passed = falls**missed
        known = passed[:, None] * known * passed
    # The moved covariance is F·K·Fᵀ with F = diag(falls) − fresh·ωᵀ, multiplied out.
    across = known @ omegas
    crossed = (falls * across)[:, None] * fresh
    moved = falls[:, None] * known * falls - crossed - crossed.T
    return np.asarray(moved + added * (1 + float(omegas @ across) / std**2))


@lru_cache(maxsize=64)
def _dynamics(buffers: Buffers, decay: float) -> tuple[Reals, Reals]:
    """By how much buffers and total fall in a step, and with which factors a row reads them."""
    return np.append(buffers.thetas, decay), np.append(buffers.omegas, 0.0)


@lru_cache(maxsize=64)
def square_root(horizon: int | None, decay: Fraction = Fraction(1)) -> Buffers:
    """Buffers near to the square root of prefix sums, decayed or not; without a horizon they serve for ever.

    >>> buffers = square_root(1_000_000)
    >>> len(buffers.rates) < 10, [round(float(weight), 1) for weight in buffers.coefficients(4)]
    (True, [1.0, 0.5, 0.4, 0.3])
    """
    length = MOST_ROWS if horizon is None else horizon
    endless = horizon is None and decay == 1
    if decay < 1:
        # What is older than four times the decay's length hardly counts.
        length = min(length, max(4, math.ceil(4 / (1 - decay))))
    return _fitted(length, endless, float(decay), horizon)


def _fitted(length: int, endless: bool, decay: float, horizon: int | None) -> Buffers:
    from scipy.optimize import nnls

    ages = np.unique(np.geomspace(1, max(length - 1, 2), PLACES).astype(np.int64)).astype(np.float64)
    wanted = _binomial(ages) * max(decay, LEAST_DECAY) ** ages
    if endless:
        wanted = wanted / (1 + float(SLOPE) * np.log2(ages + 1))
    apart = 2 if length <= SHORT else 3
    rates = np.arange(1, math.log2(length) + 2, apart) if decay == 1 else np.arange(0, math.log2(length) + 1)
    columns = np.power(1 - 2.0**-rates, ages[:, None] - 1)
    # Relative errors count alike at all ages: so many rows read each of them.
    found, _ = nnls(columns / wanted[:, None], np.ones(len(ages)))
    used = [(int(rate), weight) for rate, weight in zip(rates, found.tolist(), strict=True) if weight > 0]
    shifts = [FACTOR_BITS - 1 - math.floor(math.log2(weight)) for _, weight in used]
    factors = [max(1, math.floor(weight * 2.0**shift)) for (_, weight), shift in zip(used, shifts, strict=True)]
    return Buffers(tuple(rate for rate, _ in used), tuple(factors), tuple(shifts), horizon)


def _binomial(ages: Reals) -> Reals:
    """binom(2k, k)/4^k."""
    from scipy.special import gammaln

    return np.exp(gammaln(ages + 0.5) - gammaln(ages + 1)) / math.sqrt(math.pi)


def variances_of(buffers: Buffers, workload: Reals) -> Reals:
    """Of the number of every row, in units of a row's own noise, for buffers without a horizon.

    A released number counts an age k with ``workload[k]``.
    """
    return row_variances(buffers.coefficients(len(workload)), workload)
