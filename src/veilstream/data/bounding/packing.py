"""Columns of whole numbers as bytes, each number in as few bytes as the column's range needs.

Workers of a cluster exchange rows and counts in this form: a cluster then moves a few large values instead of many
small rows, and what it shows of them is their size.

Layout, little-endian: the number of columns and of entries; of each column its smallest value and the bytes per
entry; then the differences to the smallest value, column after column.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
HEADER: Final = struct.Struct("<BQ")
COLUMN: Final = struct.Struct("<qB")
WIDTHS: Final = (1, 2, 4, 8)


def pack(columns: Sequence[NDArray[Any]]) -> bytes:
    """Columns of equally many 64-bit integers as bytes; unsigned ones are taken bit by bit.

    >>> packed = pack([np.array([10**9, 10**9 + 200]), np.array([3, 3])])
    >>> len(packed), [column.tolist() for column in unpack(packed)]
    (31, [[1000000000, 1000000200], [3, 3]])
    """
    parts = [HEADER.pack(len(columns), len(columns[0]))]
    bodies: list[bytes] = []
    for column in columns:
        numbers = column.view(np.int64)
        least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
        width = next(width for width in WIDTHS if most - least < 1 << 8 * width)
        differences = numbers.view(np.uint64) - np.uint64(least & ((1 << 64) - 1))
        parts.append(COLUMN.pack(least, width))
        bodies.append(differences.astype(f"<u{width}").tobytes())
    return b"".join([*parts, *bodies])


def unpack(packed: bytes | memoryview) -> list[Integers]:
    """The columns, as signed 64-bit integers."""
    count, entries = HEADER.unpack_from(packed)
    offset = HEADER.size + count * COLUMN.size
    columns: list[Integers] = []
    for index in range(count):
        least, width = COLUMN.unpack_from(packed, HEADER.size + index * COLUMN.size)
        differences = np.frombuffer(packed, dtype=f"<u{width}", count=entries, offset=offset)
        columns.append((differences.astype(np.uint64) + np.uint64(least & ((1 << 64) - 1))).view(np.int64))
        offset += entries * width
    return columns
