"""Non-linear statistics of exact data for private choices, each with its sensitivity proved where it stands.

Besides the Meter and the codec, the functions of this module are the only ones that see exact values. Every one
returns ``Scores``, sealed like the data, and is attacked by a property test on neighbouring data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInput
from veilstream.rationals import Exact, rational
from veilstream.sealed import Sealed
from veilstream.types import Span
from veilstream.unsealed import exact_values


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A whole-number score per candidate, of which one unit moves none by more than ``sensitivity`` per timestamp.

    ``one_sided``: one unit moves all scores the same way (all up or all down), so that half the noise is enough.
    """

    span: Span
    sensitivity: Fraction
    one_sided: bool = False
    bins: NDArray[np.int64] | None = None
    _exact: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)

    @property
    def size(self) -> int:
        return self._exact.size


def quantile_scores(x: Sealed, q: Exact = "1/2") -> Scores:
    """How well each bin's upper end splits the data into shares q and 1 − q.

    With q = p/d, the score of the cut after bin i is −|(d−p)·below_i − p·above_i|, where below and above count the
    data on either side. One count added anywhere changes the inside by d−p or by −p, so a unit that moves the
    histogram by l1 moves each score by at most max(p, d−p)·l1.

    >>> from veilstream.sealed import seal
    >>> quantile_scores(seal(np.array([2, 3, 5]), t=0)).sensitivity
    Fraction(1, 1)
    """
    share = rational(q, "quantile")
    if not 0 < share < 1:
        raise InvalidInput(f"quantile {q}: it lies strictly between 0 and 1; nothing was done")
    below = np.cumsum(exact_values(x))
    above = below[-1] - below
    p, d = share.numerator, share.denominator
    exact = -np.abs((d - p) * below - p * above)
    return Scores(x.span, x.l1 * max(p, d - p) * (1 << x.grid), bins=x.bins, _exact=exact)
