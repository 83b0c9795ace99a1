"""The discrete Fourier transform comparator as FAST prints it (TKDE 2014, algorithm 2).

The first d *unnormalised* coefficients F_j = Σ e^{−2πi·jk/T} x_k go through "LPA with budget α", which gives each of d
numbers Lap(d/α). A person in all T steps moves F_0 alone by T, so the loss is T·α/d and more: 5α at T = 100, d = 20.

Pair. A person in every step, and without. Event: the mean of the published series is high. The series is published
as printed: the inverse transform of d noisy coefficients, padded with zeros; real and imaginary parts both get noise.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import fft, ifft

from .example import Floats, Generator, KnownBad

EPSILON, STEPS, KEPT = 1.0, 100, 20
COUNT = 50


def stream(present: bool) -> Floats:
    return np.full(STEPS, float(COUNT + present))


def outputs(present: bool, trials: int, generator: Generator) -> Floats:
    """The mean of the real part of the published series."""
    exact = fft(stream(present))[:KEPT]
    means = np.empty(trials)
    for start in range(0, trials, 10_000):
        size = (min(10_000, trials - start), KEPT)
        parts = [generator.laplace(scale=KEPT / EPSILON, size=size) for _ in range(2)]
        published = ifft(exact + parts[0] + 1j * parts[1], n=STEPS, axis=1).real
        means[start : start + size[0]] = published.mean(axis=1)
    return means[:, None]


DFT_PRINTED = KnownBad(
    name="DFT, as printed by FAST",
    mistake="noise for d counts on coefficients that each add up T counts",
    pair=f"in every one of {STEPS} steps",
    claimed=EPSILON,
    loss=STEPS * EPSILON / KEPT,
    trials=40_000,
    deep=500_000,
    outputs=outputs,
)
