"""Scores of the cuts that split data into two given shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.rationals import Exact, rational
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_counts
from veilstream.trusted.statistics.base import JointScores, Scores

SHARE_BITS = 10
"""Shares of several questions are rounded to multiples of 2⁻¹⁰, so that their scores have one scale."""


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


@hide_frames
def cut_scores(
    x: Sealed, firsts: NDArray[np.int64], widths: NDArray[np.int64], shares: NDArray[np.float64]
) -> JointScores:
    """How well each bin's upper end splits the data of several stretches of bins, each into two shares of its own.

    Stretch j has the bins firsts[j] .. firsts[j] + widths[j] − 1, of which no two stretches have one in common. With
    d = 2¹⁰ and p the share in such parts, the cut after bin i of a stretch scores −|(d−p)·below − p·above|, counted in
    that stretch. A count added to stretch j moves its scores by at most max(p, d−p) and those of no other, so that
    the movements of all questions add up to l1 times the largest of these, as ``JointScores`` asks.

    >>> from veilstream.trusted.counts import seal
    >>> x, halves = seal(np.array([2, 3, 5, 1]), t=0), np.array([2, 2])
    >>> scores = cut_scores(x, np.array([0, 2]), halves, np.array([0.5, 0.25]))
    >>> scores.sizes.tolist(), scores.sensitivity
    ([2, 2], Fraction(768, 1))
    """
    ends = firsts + widths
    apart = bool((ends[:-1] <= firsts[1:]).all())
    if not widths.size or int(widths.min()) < 1 or not apart or int(firsts[0]) < 0 or int(ends[-1]) > x.size:
        raise InvalidInputError(
            name="stretches", value=f"{widths.size}", limit="each has a bin, they follow one another, none overlap"
        )
    unit = 1 << SHARE_BITS
    parts = np.clip(np.rint(shares * unit), 1, unit - 1).astype(np.int64)
    running = np.concatenate([[0], np.cumsum(open_counts(x))])
    inside = np.repeat(firsts - np.cumsum(widths) + widths, widths) + np.arange(int(widths.sum()))
    below = running[inside + 1] - np.repeat(running[firsts], widths)
    total = np.repeat(running[ends] - running[firsts], widths)
    exact = -np.abs(unit * below - np.repeat(parts, widths) * total)
    most = int(np.maximum(parts, unit - parts).max())
    return JointScores(exact, x.span, x.l1 * most * (1 << x.grid), widths, bins=x.bins)
