"""The one way to what a sealed object holds, for the trust boundary alone.

An import contract lets only ``veilstream.trusted`` import this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from veilstream.trusted.sealed import PAYLOAD, Opaque

if TYPE_CHECKING:
    from veilstream.trusted.counts import Sealed
    from veilstream.trusted.points import SealedPoints
    from veilstream.trusted.records import SealedRecords
    from veilstream.trusted.rows import SealedRows
    from veilstream.trusted.statistics.base import JointScores, Scores

T = TypeVar("T")


def opened(sealed: Opaque[T]) -> T:
    """The payload of a sealed object."""
    return cast("T", PAYLOAD.__get__(sealed))


def open_counts(sealed: Sealed) -> NDArray[np.int64]:
    """The whole numbers ``v`` of values ``v · 2^-grid``."""
    return opened(sealed)


def open_records(records: SealedRecords) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The filled cells in order, one a row, and their counts."""
    cells, counts, _ = opened(records)
    return cells, counts


def open_labels(records: SealedRecords) -> NDArray[np.int64]:
    """The group of every filled cell, in the order of ``open_records``."""
    return opened(records)[2]


def open_rows(rows: SealedRows) -> tuple[tuple[NDArray[np.int32], ...], NDArray[np.uint64]]:
    """The columns of codes in the order of their hashes, and the hashes."""
    return opened(rows)


def open_points(points: SealedPoints) -> NDArray[np.int64]:
    """The whole coordinates, one point a row."""
    return opened(points)


def open_scores(scores: Scores | JointScores) -> NDArray[np.int64]:
    """The scores of all candidates; those of several questions follow one another."""
    payload = cast("NDArray[np.int64] | tuple[NDArray[np.int64], object]", PAYLOAD.__get__(scores))
    return payload[0] if isinstance(payload, tuple) else payload
