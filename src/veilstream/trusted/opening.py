"""The one way to the numbers inside a Sealed, SealedRecords, SealedRows or SealedPoints, for the trust boundary alone.

An import contract lets only the Meter, the scores and the codec use this module.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from veilstream.trusted.counts import Sealed
from veilstream.trusted.points import SealedPoints
from veilstream.trusted.records import SealedRecords
from veilstream.trusted.rows import SealedRows


def open_counts(sealed: Sealed) -> NDArray[np.int64]:
    """The whole numbers ``v`` of values ``v · 2^-grid``."""
    return cast("NDArray[np.int64]", getattr(sealed, "_Sealed__exact"))  # noqa: B009 (a private name)


def open_records(records: SealedRecords) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The filled cells in order, one a row, and their counts."""
    cells = getattr(records, "_SealedRecords__cells")  # noqa: B009 (a private name)
    counts = getattr(records, "_SealedRecords__counts")  # noqa: B009 (a private name)
    return cast("NDArray[np.int64]", cells), cast("NDArray[np.int64]", counts)


def open_labels(records: SealedRecords) -> NDArray[np.int64]:
    """The group of every filled cell, in the order of ``open_records``."""
    return cast("NDArray[np.int64]", getattr(records, "_SealedRecords__labels"))  # noqa: B009 (a private name)


def open_rows(rows: SealedRows) -> tuple[tuple[NDArray[np.int32], ...], NDArray[np.uint64]]:
    """The columns of codes in the order of their hashes, and the hashes."""
    columns = getattr(rows, "_SealedRows__columns")  # noqa: B009 (a private name)
    hashes = getattr(rows, "_SealedRows__hashes")  # noqa: B009 (a private name)
    return cast("tuple[NDArray[np.int32], ...]", columns), cast("NDArray[np.uint64]", hashes)


def open_points(points: SealedPoints) -> NDArray[np.int64]:
    """The whole coordinates, one point a row."""
    return cast("NDArray[np.int64]", getattr(points, "_SealedPoints__exact"))  # noqa: B009 (a private name)
