"""Scores of the cuts that halve the data of many disjoint nodes, listed bin by bin or in runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_counts, open_labels, open_records
from veilstream.trusted.records import SealedRecords
from veilstream.trusted.statistics.base import JointScores


@hide_frames
def median_scores(x: Sealed, widths: NDArray[np.int64]) -> JointScores:
    """How well each inner cut of each node halves the node's data.

    ``x`` holds the nodes' histograms one after the other, ``widths`` their lengths (at least 2). The cut after
    the i-th bin of a node scores −|below − above|, where below and above count the node's data on either side.

    One count added to a node, wherever in it, changes below − above by +1 or −1, so it moves each score of
    that node by at most 1 and none of another node. A unit that moves the counts of node j by c_j, Σ c_j ≤ l1, moves
    the scores of question j by at most c_j: the sum over the questions is at most l1, as ``JointScores`` asks.

    >>> from veilstream.trusted.counts import seal
    >>> scores = median_scores(seal(np.array([2, 3, 5, 1, 1]), t=0), np.array([3, 2]))
    >>> scores.sizes.tolist(), scores.sensitivity
    ([2, 1], Fraction(1, 1))
    """
    if widths.size == 0 or int(widths.min()) < 2 or int(widths.sum()) != x.size:
        raise InvalidInputError(
            f"median_scores: {widths.size} nodes over {widths.sum()} bins of {x.size}: each has at least "
            "2 bins and together they have all"
        )
    running = np.concatenate([[0], np.cumsum(open_counts(x))])
    end = np.cumsum(widths)
    begin = end - widths
    scores = np.repeat(running[begin] + running[end], widths)
    scores -= 2 * running[1:]
    np.abs(scores, out=scores)
    inner = np.ones(scores.size, dtype=np.bool_)
    inner[end - 1] = False
    return JointScores(-scores[inner], x.span, x.l1 * (1 << x.grid), widths - 1, bins=x.bins)


@hide_frames
def record_median_scores(
    records: SealedRecords, axis: NDArray[np.int64], low: NDArray[np.int64], widths: NDArray[np.int64]
) -> JointScores:
    """The scores of ``median_scores`` for the groups of records, whose histograms are never listed.

    Group g is cut on ``axis[g]``, within ``low[g] .. low[g] + widths[g] − 1`` (a record outside would count at the
    nearer end); a group of width 0 is not asked about. Between two neighbouring filled places all cuts have the same
    score: they make one run, so that time and memory grow with the records and not with the domain. The scores are
    those of the listed histograms, and so is the proof of their sensitivity; where the runs lie is as private as
    the scores.

    >>> from veilstream.trusted.records import seal_records
    >>> records = seal_records(np.array([[3], [2**40 - 1]]), (2**40,), t=0)
    >>> record_median_scores(records, np.array([0]), np.array([0]), np.array([2**40])).sizes.tolist()
    [1099511627775]
    """
    asked = np.flatnonzero(widths > 0)
    if asked.size == 0 or int(widths[asked].min()) < 2 or widths.shape != (records.groups,):
        raise InvalidInputError(
            f"record_median_scores: {asked.size} nodes of {records.groups} groups: each has at least 2 places"
        )
    cells, counts = open_records(records)
    labels = open_labels(records)
    counted = widths[labels] > 0
    labels, counts, cells = labels[counted], counts[counted], cells[counted]
    offset = np.clip(cells[np.arange(labels.size), axis[labels]] - low[labels], 0, widths[labels] - 1)
    order = np.lexsort((offset, labels))
    labels, offset, running = labels[order], offset[order], np.cumsum(counts[order])
    # Runs begin at 0 and at every filled place of a group and end before the next, or before the last place.
    sizes = np.bincount(labels, minlength=records.groups)
    first = np.cumsum(sizes) - sizes + np.arange(records.groups)
    owner = np.repeat(np.arange(records.groups), sizes + 1)
    begins, below = np.zeros(owner.size, dtype=np.int64), np.zeros(owner.size, dtype=np.int64)
    inner = np.ones(owner.size, dtype=np.bool_)
    inner[first] = False
    begins[inner], below[inner] = offset, running
    totals = np.concatenate([[0], running])[np.cumsum(sizes)]
    before = np.concatenate([[0], totals[:-1]])
    below[first] = before
    ends = np.append(begins[1:], 0)
    ends[first + sizes] = widths - 1
    lengths = ends - begins
    scores = -np.abs(2 * below - (before + totals)[owner])
    real = (lengths > 0) & (widths[owner] > 0)
    return JointScores(scores[real], records.span, records.l1, widths[asked] - 1, lengths=lengths[real])
