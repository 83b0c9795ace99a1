"""Noise on every bin, and of the steps between neighbouring bins, at all scales, only those beyond noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms._shrinkage import NORMAL, posterior_medians
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.projection import onto_simplex
from veilstream.values.values import NoiseLaw, Values

Reals = NDArray[np.float64]
Rule: TypeAlias = Literal["median", "threshold"]
THRESHOLD: Final = 0.75
"""Of the largest that noise alone makes of a step; chosen on margins of five real tables."""
SHARES: Final[Mapping[Rule, Fraction]] = {"median": Fraction(1, 50), "threshold": Fraction(1, 20)}
"""Of the budget, for the total."""


@dataclass(frozen=True, slots=True)
class Haar:
    """Publishes all bins with Laplace noise and smooths them, at no cost, down to the steps that noise cannot explain.

    Steps between neighbouring means at every scale and every offset are drawn to 0 as far as all steps of their scale
    suggest (``posterior_medians``): where most are noise, all but the largest become 0, so that spikes stay and flat
    stretches become flat; on rough data all stay nearly as they are. ``rule="threshold"`` instead keeps steps beyond
    one public limit and makes 0 of the others. A fiftieth of ε (a twentieth with a threshold) counts the total, which
    is averaged with the sum of the bins by their variances, and the result is projected on counts ≥ 0 of that total.
    For single bins of a line, of most data; long ranges gain little.

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

    version: ClassVar[int] = 2
    former_defaults: ClassVar[Mapping[int, Mapping[str, Any]]] = {1: {"rule": "threshold"}}
    oblivious: ClassVar[bool] = True
    rule: Rule = "median"

    def __post_init__(self) -> None:
        if self.rule not in SHARES:
            raise InvalidInputError(name="rule", of="Haar", value=self.rule, limit="'median' or 'threshold'")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        share = epsilon * SHARES[self.rule]
        counted = meter.laplace(x.total(), share, "total")
        noisy = meter.laplace(x, epsilon - share, "publish")
        std = float(np.max(noisy.std))
        numbers = np.asarray(noisy.numbers, dtype=np.float64)
        total = np.asarray(counted.numbers, dtype=np.float64)
        if self.rule == "median" and std > 0:
            weight = float(np.max(counted.std)) ** 2 / (float(np.max(counted.std)) ** 2 + x.size * std**2)
            total = total + weight * (numbers.sum(axis=-1, keepdims=True) - total)
        return Values(onto_simplex(smoothed(numbers, std, self.rule), total), std, NoiseLaw.MIXED)


def smoothed(noisy: Reals, std: float, rule: Rule = "threshold", normal: bool = False) -> Reals:
    """Noisy histograms, along the last axis, without the steps between neighbours that noise of ``std`` explains.

    The noise is Laplace, or ``normal``; a threshold does not ask.

    >>> smoothed(np.array([9.0, 11.0, 10.0, 10.0, 500.0, 10.0, 11.0, 9.0]), std=3.0).round().tolist()
    [10.0, 10.0, 10.0, 10.0, 500.0, 10.0, 10.0, 10.0]
    """
    count = int(noisy.shape[-1])
    if std <= 0 or count < 2:
        return noisy
    levels = math.ceil(math.log2(count))
    mean = np.concatenate([noisy, noisy[..., ::-1]], axis=-1)[..., : 1 << levels]
    limit = THRESHOLD * math.sqrt(2 * math.log(1 << levels))
    steps: list[Reals] = []
    for level in range(levels):
        beside = np.roll(mean, -(1 << level), axis=-1)
        step, mean = (mean - beside) / 2, (mean + beside) / 2
        deviation = std * 2 ** (-(level + 1) / 2)
        if rule == "median":
            steps.append(posterior_medians(step, deviation, NORMAL if normal else 2 << level))
        else:
            steps.append(np.where(np.abs(step) > limit * deviation, step, 0.0))
    for level in reversed(range(levels)):
        mean = (mean + steps[level] + np.roll(mean - steps[level], 1 << level, axis=-1)) / 2
    return np.asarray(mean[..., :count], dtype=np.float64)
