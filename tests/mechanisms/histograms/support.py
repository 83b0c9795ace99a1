"""One release at a time, with no noise, with repeatable noise, or with a look at what was charged."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter, NoiseSource
from veilstream.values.values import Values


def new_meter(epsilon: str | Fraction, bins: int, noise: NoiseSource | int, w: int | None = 1) -> Meter:
    source = ExactSampler(SeededSource(noise)) if isinstance(noise, int) else noise
    return Meter(Accountant(Guarantee(epsilon, w=w), bins), source, 0)


def release(
    histogram: HistogramMechanism,
    counts: NDArray[np.int64],
    epsilon: str = "1",
    noise: NoiseSource | int = 1,
    *,
    shape: tuple[int, ...] | None = None,
    w: int | None = 1,
) -> Values:
    meter = new_meter(epsilon, counts.size, noise, w)
    return histogram.estimate(seal(counts, 0, shape=shape), Fraction(epsilon), meter)
