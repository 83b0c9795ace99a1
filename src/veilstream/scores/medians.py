"""Scores of the cuts that halve the data of many disjoint nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInput
from veilstream.scores.base import JointScores
from veilstream.sealed import Sealed
from veilstream.unsealed import exact_values


def median_scores(x: Sealed, widths: NDArray[np.int64]) -> JointScores:
    """How well each inner cut of each node halves the node's data.

    ``x`` holds the nodes' histograms one after the other, ``widths`` their lengths (at least 2). The cut after
    the i-th bin of a node scores −|below − above|, where below and above count the node's data on either side.

    One count added to a node, wherever in it, changes below − above by +1 or −1, so it moves each score of
    that node by at most 1 and none of another node. A unit that moves the counts of node j by c_j, Σ c_j ≤ l1, moves
    the scores of question j by at most c_j: the sum over the questions is at most l1, as ``JointScores`` asks.

    >>> from veilstream.sealed import seal
    >>> scores = median_scores(seal(np.array([2, 3, 5, 1, 1]), t=0), np.array([3, 2]))
    >>> scores.sizes.tolist(), scores.sensitivity
    ([2, 1], Fraction(1, 1))
    """
    if widths.size == 0 or int(widths.min()) < 2 or int(widths.sum()) != x.size:
        raise InvalidInput(
            f"median_scores: {widths.size} nodes over {widths.sum()} bins of {x.size}: each has at least 2 bins and "
            "together they have all; nothing was done"
        )
    running = np.concatenate([[0], np.cumsum(exact_values(x))])
    end = np.cumsum(widths)
    begin = end - widths
    scores = np.repeat(running[begin] + running[end], widths)
    scores -= 2 * running[1:]
    np.abs(scores, out=scores)
    inner = np.ones(scores.size, dtype=np.bool_)
    inner[end - 1] = False
    return JointScores(x.span, x.l1 * (1 << x.grid), widths - 1, bins=x.bins, _exact=-scores[inner])
