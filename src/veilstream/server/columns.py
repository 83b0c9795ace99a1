"""Releases as arrays of numbers, for readers that draw them: nothing to write out in digits, and nothing to parse.

The body is the length of a header (8 bytes, little-endian), the header, and the arrays one after the other,
little-endian and without gaps. The header is JSON, with spaces at its end so that the arrays begin at a multiple of 8
bytes. Its ``covers`` says what intervals hold, and its ``columns`` give the name, type (as NumPy writes it) and shape
of each array. Numbers of one bin and measure lie together, step after step; NaN stands where nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.server.board import StreamBoard, dumps
from veilstream.server.shown import LEVEL, Shown

COLUMNS: Final = "application/vnd.veilstream.columns"
MICROSECONDS: Final = 1e6
ALIGNED: Final = 8


def column_bytes(board: StreamBoard, releases: Sequence[Shown]) -> bytes:
    """A page of releases as arrays: values, time (seconds since 1970), step, ends of intervals, fresh."""
    timetable, steps = board.definition.timetable, [one.step for one in releases]
    unit = MICROSECONDS if isinstance(board.definition.every, str) else 1.0
    # Wide numbers first: each array begins where its type may begin.
    arrays: dict[str, NDArray[Any]] = {
        "values": _by_series([one.values for one in releases], board.series, "<f8"),
        "time": np.array([timetable.begins(step) for step in steps], "<f8") / unit,
        "step": np.array(steps, "<f8"),
        **_intervals(releases, board),
        "fresh": np.array([one.fresh for one in releases], "|u1"),
    }
    described = [
        {"name": name, "type": array.dtype.newbyteorder("<").str, "shape": array.shape}
        for name, array in arrays.items()
    ]
    covers = list(dict.fromkeys(one.covers for one in releases))
    facts = {"stream": board.definition.name, "level": LEVEL, "covers": covers, "head": board.visible}
    header = dumps({**facts, "columns": described})
    header += b" " * (-len(header) % ALIGNED)
    return b"".join([len(header).to_bytes(ALIGNED, "little"), header, *(array.tobytes() for array in arrays.values())])


def _intervals(releases: Sequence[Shown], board: StreamBoard) -> dict[str, NDArray[Any]]:
    """Half widths of counts, one a step where all bins share it; both ends of measured values."""
    if board.definition.measures is not None:
        ends = {"low": [one.low for one in releases], "high": [one.high for one in releases]}
        return {name: _by_series(rows, board.series, "<f4") for name, rows in ends.items()}
    several = [one.half for one in releases if isinstance(one.half, np.ndarray)]
    if not several:
        return {"half": np.array([one.half for one in releases], "<f4")}
    if len(several) < len(releases):
        several = [np.broadcast_to(np.asarray(one.half), one.values.shape) for one in releases]
    return {"half": _by_series(several, board.series, "<f4")}


def _by_series(rows: Sequence[NDArray[Any]], series: int, kind: str) -> NDArray[Any]:
    joined = np.concatenate(rows) if rows else np.zeros(0)
    return np.ascontiguousarray(joined.reshape(-1, series).T, dtype=kind)
