"""The snapshots of a stream made from those of a larger table.

A stream's bins have names, by which they are charged in parallel, and names of two different groupings of one table are
not disjoint (PROOF.md, "Named bins"). So a mechanism, which answers for one stream, may sum bins but not rename them;
an import contract lets only those who feed streams import this module.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import opened


@hide_frames
def snapshot_of_groups(table: Sealed, groups: NDArray[np.int64], count: int) -> Sealed:
    """The counts of ``count`` bins, each the sum of a public group of values of a complete table; -1 leaves one out.

    A count is in one value of the table and so in one bin at most: ``l1`` carries over, and bins are disjoint.

    >>> from veilstream.trusted.counts import seal
    >>> snapshot_of_groups(seal(np.array([3, 4, 5, 6]), t=7), np.array([0, 1, 0, -1]), 2).select([1]).bins
    array([1])
    """
    if table.bins is not None or not table.aligned or table.span.steps != 1:
        raise InvalidInputError(
            name="snapshot of groups", value=table.span, limit="it takes the complete counts of one timestamp"
        )
    summed = table.sums(groups, count)
    return Sealed(opened(summed), summed.span, summed.l1, grid=summed.grid, aligned=True)
