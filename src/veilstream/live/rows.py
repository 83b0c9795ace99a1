"""Rows of a batch as the spool stores them: who and which bin, step by step, once all that a row decides is decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.arguments import is_about_values
from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.keyed import Key
from veilstream.data.bounding.people import People, identify
from veilstream.data.bounding.private import Private, cleared_on_error
from veilstream.data.calendar import MISSING, OUTSIDE
from veilstream.data.encoding import Dropped
from veilstream.data.instants import Instants
from veilstream.data.readers import open_batches
from veilstream.data.values import MISSING_VALUE, Places
from veilstream.errors import InvalidInputError, LedgerError, UnknownValueError
from veilstream.live.definition import StreamDefinition

T = TypeVar("T")
ON_ARRIVAL: Final = -1
"""The step of rows that belong to the step in which they arrive."""
WITH_NAMES: Final = 1
NARROW_BINS: Final = 2
"""Marks of stored rows: a second integer for ids that are text, and bins of two bytes instead of four."""
COLUMNS: Final = 2
"""The bits of a mark from here on say how many measured values a row has."""
MOST_NARROW: Final = 1 << 16
LITTLE: Final = "<i8"
NOT_SPOOLED: Final = "nothing was stored"
DAMAGED: Final = "spool: a stored batch is damaged; restore the spool from a backup"


@dataclass(slots=True)
class Fates:
    """How many rows of a batch were left out and why. Exact, for the operator alone."""

    rows: int = field(default=0, repr=False)
    late: int = field(default=0, repr=False)
    no_user: int = field(default=0, repr=False)
    unknown: int = field(default=0, repr=False)
    bad_time: int = field(default=0, repr=False)
    bad_user: int = field(default=0, repr=False)
    unreadable: int = field(default=0, repr=False)

    def __add__(self, other: Fates) -> Fates:
        return Fates(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


class EncodedBatch(Private):
    """The accepted rows of a batch by step, and the numbers of those left out."""

    __slots__ = ("fates", "parts")

    def __init__(self, parts: dict[int, Rows], fates: Fates) -> None:
        self.parts, self.fates = parts, fates


def encode_batch(
    source: Any, definition: StreamDefinition, key: Key, arrived: int | NDArray[np.int64] | None = None
) -> EncodedBatch:
    """Encode a table of rows; what becomes of a row depends on that row alone, unless bad rows refuse the batch.

    ``arrived`` says when the rows arrived, or each of them, where the store of a source knows that.
    """
    pieces: dict[int, list[Rows]] = {}
    fates, before = Fates(), 0
    dropped = Dropped() if definition.bad_rows == "drop" else None
    with cleared_on_error():
        for frame in open_batches(source, definition.columns, dropped=dropped):
            own = None
            if arrived is not None:
                last = before + len(frame)
                own = np.full(len(frame), arrived) if isinstance(arrived, int) else arrived[before:last]
            fates += _encode_each(frame, definition, key, pieces, own)
            before += len(frame)
    fates.unreadable += 0 if dropped is None else dropped.unreadable
    return EncodedBatch({step: join(parts) for step, parts in pieces.items()}, fates)


def _encode_each(
    frame: pl.DataFrame,
    definition: StreamDefinition,
    key: Key,
    pieces: dict[int, list[Rows]],
    arrived: NDArray[np.int64] | None,
) -> Fates:
    """Encode a table; rows that make that fail are found by halving, and dropped one by one.

    A type of column that can never be read refuses the table, and so does any row where bad rows are refused.
    """
    try:
        return _encode(frame, definition, key, pieces, arrived)
    except BaseException as error:
        if not (isinstance(error, InvalidInputError) or is_about_values(error)):
            raise
        known = isinstance(error, InvalidInputError)
        if len(frame) == 0 or definition.bad_rows == "refuse":
            if known:
                raise
            # What Polars says may quote a value.
            raise InvalidInputError(
                "batch: a column has a type that cannot be read; send text or numbers", outcome=NOT_SPOOLED
            ) from None
    _encode_each(frame.clear(), definition, key, pieces, None if arrived is None else arrived[:0])
    if len(frame) == 1:
        return Fates(rows=1, unreadable=1)
    fates, middle = Fates(), len(frame) // 2
    for half in (slice(0, middle), slice(middle, len(frame))):
        fates += _encode_each(frame[half], definition, key, pieces, None if arrived is None else arrived[half])
    return fates


def _encode(
    frame: pl.DataFrame,
    definition: StreamDefinition,
    key: Key,
    pieces: dict[int, list[Rows]],
    arrived: NDArray[np.int64] | None,
) -> Fates:
    fates = Fates(rows=len(frame))
    strict = definition.bad_rows == "refuse"
    people, bad = _people(frame[definition.user], key.derive(b"people"), strict)
    fates.bad_user = _counted(bad)
    usable = ~bad
    if people.present is not None:
        fates.no_user = _counted(usable & ~people.present)
        usable &= people.present
    steps = _steps(frame, definition, strict)
    timed = steps >= ON_ARRIVAL
    fates.bad_time = _counted(usable & ~timed)
    usable &= timed
    if arrived is not None:
        steps, late, early = _judged(steps, arrived, definition)
        fates.late, fates.bad_time = _counted(usable & late), fates.bad_time + _counted(usable & early)
        usable &= ~(late | early)
    flat = definition.bound_domain.encode(frame)
    known = flat >= 0
    if strict and (usable & ~known).any():
        _refuse_unknown(frame.filter(usable & ~known), definition)
    fates.unknown = _counted(usable & ~known)
    usable &= known
    values, absent = _values(frame, definition)
    if strict and (usable & absent).any():
        raise UnknownValueError(
            "measured column: a row has no value that is a number; correct the rows, or define the stream with "
            "bad_rows='drop'",
            outcome=NOT_SPOOLED,
        )
    fates.unknown += _counted(usable & absent)
    usable &= ~absent
    rows = Rows(people.low, people.high, flat, values)
    if not usable.all():
        rows, steps = rows.where(usable), steps[usable]
    for step, chosen in _by_step(steps):
        pieces.setdefault(step, []).append(rows if chosen is None else rows.where(chosen))
    return fates


def _counted(chosen: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(chosen))


def _judged(
    steps: NDArray[np.int64], arrived: NDArray[np.int64], definition: StreamDefinition
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """The steps of rows that arrived at known moments, and which rows are late or too early for them."""
    timetable = definition.timetable
    if definition.time is None:
        steps = timetable.place(Instants(arrived, np.ones(len(arrived), np.bool_), None))
    return steps, *timetable.judge(steps, arrived, definition.ahead_ticks)


def _by_step(steps: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64] | None]]:
    if not len(steps):
        return
    if steps.min() == steps.max():
        yield int(steps[0]), None
        return
    order = np.argsort(steps, kind="stable")
    ordered = steps[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    for first, last in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(ordered[first]), order[first:last]


def _people(column: pl.Series, key: bytes, strict: bool) -> tuple[People, NDArray[np.bool_]]:
    if strict:
        return identify(column, key), np.zeros(len(column), np.bool_)
    try:
        return identify(column, key), np.zeros(len(column), np.bool_)
    except InvalidInputError:
        return _people_one_by_one(column, key)


def _people_one_by_one(column: pl.Series, key: bytes) -> tuple[People, NDArray[np.bool_]]:
    """The people of a column in which some id cannot be taken."""
    low, bad = np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
    high, present = np.zeros(len(column), np.uint64), np.zeros(len(column), np.bool_)
    for first, last, found in _readable(column, lambda part: identify(part, key)):
        place = slice(first, last)
        if found is None:
            bad[place] = True
            continue
        low[place] = found.low
        high[place] = 0 if found.high is None else found.high
        present[place] = True if found.present is None else found.present
    return People(low, high if high.any() else None, None if present.all() else present), bad


def _steps(frame: pl.DataFrame, definition: StreamDefinition, strict: bool) -> NDArray[np.int64]:
    """The step of every row; below ``ON_ARRIVAL`` for rows without one."""
    if definition.time is None:
        return np.full(len(frame), ON_ARRIVAL, np.int64)
    column, timetable = frame[definition.time], definition.timetable
    if strict:
        steps = timetable.place(timetable.calendar.read(column))
        if (steps < 0).any():
            raise UnknownValueError(
                f"time column '{column.name}': a row has no time, or one before the stream's start", outcome=NOT_SPOOLED
            )
        return steps
    ticks, present = np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
    for first, last, found in _readable(column, timetable.calendar.read):
        if found is not None:
            ticks[first:last], present[first:last] = found.ticks, found.present
    steps = timetable.place(Instants(ticks, present, None))
    steps[(steps == OUTSIDE) | (steps == MISSING)] = ON_ARRIVAL - 1
    return steps


def _readable(column: pl.Series, read: Callable[[pl.Series], T]) -> Iterator[tuple[int, int, T | None]]:
    """Pieces of the column with what was read from them; pieces of one row that cannot be read have None.

    A piece is read whole only if each of its rows could be read alone, so what becomes of a row does not depend on
    the others. A type of column that can never be read is refused.
    """
    read(column.clear())
    waiting = [(0, len(column))]
    while waiting:
        first, last = waiting.pop()
        try:
            yield first, last, read(column[first:last])
        except InvalidInputError:
            if last - first == 1:
                yield first, last, None
            else:
                middle = (first + last) // 2
                waiting += [(first, middle), (middle, last)]


def _values(frame: pl.DataFrame, definition: StreamDefinition) -> tuple[tuple[Places, ...], NDArray[np.bool_]]:
    """The places of the measured values of every row, and which rows have none."""
    if definition.measures is None:
        return (), np.zeros(len(frame), dtype=np.bool_)
    values: list[Places] = []
    for column in definition.measures.columns:
        places = np.full(len(frame), MISSING_VALUE, dtype=np.int32)
        for first, last, found in _readable(frame[column.name], column.places):
            if found is not None:
                places[first:last] = found
        values.append(places)
    return tuple(values), np.asarray(np.stack([places == MISSING_VALUE for places in values]).all(axis=0))


def _refuse_unknown(frame: pl.DataFrame, definition: StreamDefinition) -> None:
    name = definition.bound_domain.unknown_attributes(frame)[0]
    raise UnknownValueError(
        f"attribute '{name}': a row has a value that is missing or not in the public domain; correct the rows, or "
        "define the stream with bad_rows='drop'",
        outcome=NOT_SPOOLED,
    )


def join(parts: list[Rows]) -> Rows:
    """Rows of several pieces as one."""
    if len(parts) == 1:
        return parts[0]
    high = None
    if any(part.high is not None for part in parts):
        high = np.concatenate([np.zeros(len(part), np.uint64) if part.high is None else part.high for part in parts])
    empty = np.zeros(0, np.int64)
    return Rows(
        np.concatenate([part.low for part in parts] or [empty]),
        high,
        np.concatenate([part.cell for part in parts] or [empty]),
        tuple(np.concatenate(column) for column in zip(*(part.values for part in parts), strict=True)),
    )


def pack(rows: Rows) -> bytes:
    """Rows of one step as bytes: a mark, then people, second integers where ids are text, bins, and measured values."""
    narrow = len(rows) == 0 or int(rows.cell.max()) < MOST_NARROW
    mark = (0 if rows.high is None else WITH_NAMES) | (NARROW_BINS if narrow else 0) | (len(rows.values) << COLUMNS)
    names = b"" if rows.high is None else np.ascontiguousarray(rows.high, "<u8").data
    bins = rows.cell.astype("<u2" if narrow else "<u4")
    values = (np.ascontiguousarray(places, "<i4").data for places in rows.values)
    return b"".join([bytes([mark]), np.ascontiguousarray(rows.low, LITTLE).data, names, bins.data, *values])


def unpack(payload: bytes) -> Rows:
    """The rows that ``pack`` wrote."""
    if not payload:
        raise LedgerError(DAMAGED)
    named, narrow, columns = payload[0] & WITH_NAMES, payload[0] & NARROW_BINS, payload[0] >> COLUMNS
    people, bins = 16 if named else 8, 2 if narrow else 4
    count, left = divmod(len(payload) - 1, people + bins + 4 * columns)
    if left:
        raise LedgerError(DAMAGED)
    low = np.frombuffer(payload, LITTLE, count, 1)
    high = np.frombuffer(payload, "<u8", count, 1 + 8 * count) if named else None
    cell = np.frombuffer(payload, "<u2" if narrow else "<u4", count, 1 + people * count)
    places = (np.frombuffer(payload, "<i4", count, 1 + (people + bins + 4 * i) * count) for i in range(columns))
    return Rows(low, high, cell.astype(np.int64), tuple(column.astype(np.int32) for column in places))
