"""Independent noise on every bin: the Laplace mechanism on whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True)
class Geometric:
    """Adds two-sided geometric noise to each bin.

    With q = e^{−ε/l1} every bin gets noise of P(X = x) = (1−q)/(1+q) · q^|x|: unbiased, variance 2q/(1−q)².

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.streams import Sample
    >>> y = simulate(Sample(Geometric()), Guarantee(1, w=5), np.full((5, 3), 100), seed=1)
    >>> bool(abs(y - 100).max() < 40)
    True

    Ghosh, Roughgarden, Sundararajan: Universally utility-maximizing privacy mechanisms, STOC 2009; called LPA in the
    stream literature.
    """

    oblivious: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        return meter.laplace(x, epsilon, "publish")
