"""Noise on every bin, and of the steps between neighbouring bins, at all scales, only those beyond noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.projection import onto_simplex
from veilstream.values.values import NoiseLaw, Values

Reals = NDArray[np.float64]
THRESHOLD: Final = 0.75
"""Of the largest that noise alone makes of a step; chosen on margins of Adult."""
SHARE: Final = Fraction(1, 20)
"""Of the budget, for the total."""


@dataclass(frozen=True, slots=True)
class Haar:
    """Publishes all bins with Laplace noise and smooths them, at no cost, down to the steps that noise cannot explain.

    Steps between neighbouring means at every scale and every offset are kept where they are beyond noise, else they
    become 0 (``smoothed``): spikes stay, flat stretches become flat. A twentieth of ε counts the total, and the
    result is projected on counts ≥ 0 of that total. For single bins of a line, of most data; long ranges gain little.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.histograms import Geometric
    >>> from veilstream.mechanisms.streams import Sample
    >>> steps = np.repeat([0, 900, 0, 300], 250)[None]
    >>> g = Guarantee("1/10", w=1)
    >>> error = {h: abs(simulate(Sample(h), g, steps, seed=1) - steps).mean() for h in (Haar(), Geometric())}
    >>> bool(error[Haar()] < error[Geometric()] / 4)
    True

    Coifman, Donoho: Translation-invariant de-noising, 1995. Their noise is normal; that of a bin is Laplace, whose
    tails a mean over several bins loses.
    """

    oblivious: ClassVar[bool] = True

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        share = epsilon * SHARE
        total = meter.laplace(x.total(), share, "total")
        noisy = meter.laplace(x, epsilon - share, "publish")
        std = float(np.max(noisy.std))
        smooth = smoothed(np.asarray(noisy.numbers, dtype=np.float64), std)
        return Values(onto_simplex(smooth, np.asarray(total.numbers, dtype=np.float64)), std, NoiseLaw.MIXED)


def smoothed(noisy: Reals, std: float) -> Reals:
    """Noisy histograms, along the last axis, without the steps between neighbours that noise of ``std`` explains.

    >>> smoothed(np.array([9.0, 11.0, 10.0, 10.0, 500.0, 10.0, 11.0, 9.0]), std=3.0).round().tolist()
    [10.0, 10.0, 10.0, 10.0, 500.0, 10.0, 10.0, 10.0]
    """
    count = int(noisy.shape[-1])
    if std <= 0 or count < 2:
        return noisy
    levels = math.ceil(math.log2(count))
    mean = np.concatenate([noisy, noisy[..., ::-1]], axis=-1)[..., : 1 << levels]
    limit = THRESHOLD * std * math.sqrt(2 * math.log(1 << levels))
    steps: list[Reals] = []
    for level in range(levels):
        beside = np.roll(mean, -(1 << level), axis=-1)
        step, mean = (mean - beside) / 2, (mean + beside) / 2
        steps.append(np.where(np.abs(step) > limit * 2 ** (-(level + 1) / 2), step, 0.0))
    for level in reversed(range(levels)):
        mean = (mean + steps[level] + np.roll(mean - steps[level], 1 << level, axis=-1)) / 2
    return np.asarray(mean[..., :count], dtype=np.float64)
