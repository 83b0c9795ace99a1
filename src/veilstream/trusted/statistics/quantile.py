"""Scores of the cuts that split data into two given shares."""

from __future__ import annotations

import numpy as np

from veilstream.errors import InvalidInputError
from veilstream.privacy.rationals import Exact, rational
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_counts
from veilstream.trusted.statistics.base import Scores


@hide_frames
def quantile_scores(x: Sealed, q: Exact = "1/2") -> Scores:
    """How well each bin's upper end splits the data into shares q and 1 − q.

    With q = p/d, the score of the cut after bin i is −|(d−p)·below_i − p·above_i|, where below and above count the
    data on either side. One count added anywhere changes the inside by d−p or by −p, so a unit that moves the
    histogram by l1 moves each score by at most max(p, d−p)·l1.

    >>> from veilstream.trusted.counts import seal
    >>> quantile_scores(seal(np.array([2, 3, 5]), t=0)).sensitivity
    Fraction(1, 1)
    """
    share = rational(q, "quantile")
    if not 0 < share < 1:
        raise InvalidInputError(name="quantile", value=q, limit="it lies strictly between 0 and 1")
    below = np.cumsum(open_counts(x))
    above = below[-1] - below
    p, d = share.numerator, share.denominator
    exact = -np.abs((d - p) * below - p * above)
    return Scores(exact, x.span, x.l1 * max(p, d - p) * (1 << x.grid), bins=x.bins)
