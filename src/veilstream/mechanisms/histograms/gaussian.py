"""Independent Gaussian noise on every bin, for guarantees with delta > 0."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from veilstream.errors import InvalidBudgetError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Adds exact discrete Gaussian noise, scaled to the L2 norm by which one unit moves the histogram.

    A share s of the pure budget that a stream hands to a release becomes the same share of μ²: n releases in a window
    then cost noise that grows with √n rather than n.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.streams import Uniform
    >>> g = Guarantee(1, w=100, delta="1e-6")
    >>> y = simulate(Uniform(Gaussian()), g, np.full((2, 50), 1000), seed=1)
    >>> bool(30 < np.std(y - 1000) < 70)
    True

    Canonne, Kamath, Steinke: The discrete Gaussian for differential privacy, NeurIPS 2020.
    """

    oblivious: ClassVar[bool] = True
    gaussian_only: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        guarantee = meter.guarantee
        if guarantee.mu_squared == 0 or guarantee.pure == 0:
            raise InvalidBudgetError(f"Gaussian noise under {guarantee}: delta and pure_share must both be above 0")
        return meter.gaussian(x, guarantee.mu_squared * epsilon / guarantee.pure, "publish")
