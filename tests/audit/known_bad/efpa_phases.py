"""EFPA that perturbs magnitudes and keeps the exact phases, as code in circulation does.

The noise goes on |F_j| and the published coefficient is (|F_j| + noise)·e^{i·arg F_j}. The direction of every kept
coefficient is thus published exactly, up to its sign, and one person turns it.

Pair. One person more in bin 1 of 8. Event: the first coefficient of the published histogram points where it must
without the person. The number of kept coefficients is fixed: choosing it privately changes nothing of this.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

from .example import Floats, Generator, KnownBad

EPSILON, KEPT = 1.0, 3
COUNTS = np.array([9, 7, 6, 2, 1, 3, 4, 8])


def histogram(present: bool) -> NDArray[np.int64]:
    return COUNTS + np.where(np.arange(COUNTS.size) == 1, int(present), 0)


def outputs(present: bool, trials: int, generator: Generator) -> Floats:
    """Direction of the first coefficient of the published histogram, as the tangent of its angle."""
    exact = rfft(histogram(present), norm="ortho")[:KEPT]
    noise = generator.laplace(scale=math.sqrt(2 * KEPT - 1) / (EPSILON / 2), size=(trials, KEPT))
    noisy = (np.abs(exact) + noise) * np.exp(1j * np.angle(exact))
    published = irfft(noisy, n=COUNTS.size, axis=1, norm="ortho")
    first = rfft(published, axis=1, norm="ortho")[:, 1]
    return (first.imag / first.real)[:, None]


EFPA_PHASES = KnownBad(
    name="EFPA, exact phases",
    mistake="noise on magnitudes only; directions are published exactly",
    pair="one count in bin 1 of 8",
    claimed=EPSILON,
    loss=math.inf,
    trials=20_000,
    deep=1_000_000,
    outputs=outputs,
)
