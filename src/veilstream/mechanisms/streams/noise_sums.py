"""How far the noise of a sum of bins reaches: quantiles of sums of independent noises, to numerical precision.

The sum of m discrete Laplace noises has the characteristic function ((1 − q)²/(1 − 2q·cos t + q²))^m with q = e^{−1/b};
sums of continuous ones have (1 + b²t²)^−m. One Fourier transform gives every probability at once. A Chernoff bound on
the same sum is half as large again, which is right for a theorem and wrong for a forecast.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

POINTS: Final = 1 << 14
"""Places at which the law of a sum is known."""
FINE: Final = 40.0
"""From this scale on, noise on the integers and in the continuum have the same quantiles within a per cent of one."""
REACH: Final = 32.0
"""A law is followed this many scales beyond eight standard deviations: less than e^−32 lies outside."""


def laplace_sum_quantile(scale: float, terms: int, miss: float, *, integer: bool) -> float:
    """The smallest a with P(|sum of ``terms`` Laplace noises of this scale| > a) ≤ ``miss``.

    >>> laplace_sum_quantile(10.0, 1, 0.05, integer=False).__round__(2), 10 * math.log(20)
    (29.96, 29.957322735539908)
    >>> laplace_sum_quantile(10.0, 9, 0.05, integer=True)
    84.0
    """
    reach = REACH + 8 * math.sqrt(2 * terms)
    if integer and scale < FINE:
        size = max(POINTS, 1 << math.ceil(math.log2(2 * reach * scale + 2)))
        q = math.exp(-1 / scale)
        angles = 2 * np.pi * np.fft.rfftfreq(size)
        law = ((1 - q) ** 2 / (1 - 2 * q * np.cos(angles) + q * q)) ** terms
        outside = _outside(law, size)
        return float(np.argmax(outside <= miss))
    # In units of the scale, on a lattice as fine as the number of points allows.
    step = 2 * reach / POINTS
    angles = 2 * np.pi * np.fft.rfftfreq(POINTS) / step
    outside = _outside(np.exp(-terms * np.log1p(angles**2)), POINTS)
    # The mass at a point of the lattice lies around it: up to half a step beyond the last point that is needed.
    last = int(np.argmax(outside <= miss))
    before, after = float(outside[last - 1]) if last else 1.0, float(outside[last])
    place = (last - 0.5 + (before - miss) / max(before - after, 1e-300)) * step * scale
    return float(math.ceil(place) if integer else max(place, 0.0))


def _outside(law: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """P(|sum| > k) for k = 0, 1, …, from the transform of a symmetric law on the integers."""
    mass = np.maximum(np.fft.irfft(law, size)[: size // 2], 0.0)
    both = 2 * mass
    both[0] = mass[0]
    # Summed from the far end, where the small numbers are.
    tail = np.cumsum(both[::-1])[::-1]
    return np.append(tail[1:], 0.0)
