"""What executors do with records of a domain too large to list: encode each attribute, choose every person's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.axes import Axis
from veilstream.data.bounding.buckets import by_bucket
from veilstream.data.bounding.choice import Integers, first_of_each
from veilstream.data.bounding.keyed import KeyedHash
from veilstream.data.bounding.packing import pack, unpack
from veilstream.data.bounding.people import People, identify
from veilstream.data.encoding import Dropped, Policy
from veilstream.errors import UnknownValueError, VeilstreamError
from veilstream.spark.environment import Versions
from veilstream.spark.notes import Note, described
from veilstream.spark.worker import (
    NOTES,
    PIECE_CELLS,
    Batches,
    by_group,
    frames,
    mismatch,
    note_batch,
    number_batch,
    passed,
    payloads,
    without_message,
)


@dataclass(frozen=True, slots=True)
class RecordJob:
    """All that executors get to know of a job on records."""

    axes: Mapping[str, Axis]
    user: str
    rows_per_user: int
    unknown: Policy
    buckets: int
    expected: Versions
    people_key: bytes = field(repr=False)
    choice_key: bytes = field(repr=False)


def encoding_records(job: RecordJob) -> Any:
    """For ``mapInArrow``: from rows to packed codes by bucket."""

    def encode_records(batches: Batches) -> Batches:
        with without_message():
            yield from _encoded(job, batches)

    return encode_records


def choosing_records(job: RecordJob) -> Any:
    """For ``applyInArrow`` on a bucket: the codes of the rows that count."""

    def choose_records(bucket: int, batches: Batches) -> Batches:
        return passed(batches) if bucket == NOTES else _chosen(job, batches)

    return by_group(choose_records)


def _encoded(job: RecordJob, batches: Batches) -> Batches:
    stranger = mismatch(job.expected)
    if stranger is not None:
        yield note_batch("bucket", Note(Dropped(), error=described(stranger)))
        return
    dropped, choice = Dropped(), KeyedHash(job.choice_key)
    try:
        for frame in frames(batches, (job.user, *job.axes)):
            codes, inside = _codes(job, frame)
            dropped.unknown += len(frame) - int(np.count_nonzero(inside))
            people = identify(frame[job.user], job.people_key, job.unknown)
            if people.present is not None:
                dropped.no_user += int(np.count_nonzero(inside & ~people.present))
                inside &= people.present
            # What is not among a person's first rows here is not among the first of all.
            rows = _first_rows(_rows(people, codes, inside), job.rows_per_user, choice)
            order, slices = by_bucket(rows[0], rows[1].view(np.uint64), job.buckets)
            ordered = [column[order] for column in rows]
            packed = [(number, pack([column[mine] for column in ordered])) for number, mine in slices]
            yield number_batch("bucket", packed)
    except VeilstreamError as error:
        yield note_batch("bucket", Note(Dropped(), error=described(error)))
        return
    yield note_batch("bucket", Note(dropped))


def _codes(job: RecordJob, frame: pl.DataFrame) -> tuple[list[Integers], NDArray[np.bool_]]:
    inside = np.ones(len(frame), dtype=np.bool_)
    codes: list[Integers] = []
    for name, axis in job.axes.items():
        column = axis.encode(frame[name])
        if job.unknown == "error" and (column < 0).any():
            raise UnknownValueError(f"attribute '{name}': a row has a value that is missing or outside its bins")
        inside &= column >= 0
        codes.append(column)
    return codes, inside


def _rows(people: People, codes: list[Integers], inside: NDArray[np.bool_]) -> list[Integers]:
    """The two integers of the person's identity, then the codes."""
    high = np.zeros(len(people.low), dtype=np.int64) if people.high is None else people.high.view(np.int64)
    return [column[inside] for column in (people.low, high, *codes)]


def _first_rows(rows: list[Integers], count: int, choice: KeyedHash) -> list[Integers]:
    low, high, *codes = rows
    if not len(low):
        return rows
    chosen = first_of_each(low, high.view(np.uint64), choice.hash(*codes, 1), count)
    return [column[chosen] for column in rows]


def _chosen(job: RecordJob, batches: Batches) -> Batches:
    choice = KeyedHash(job.choice_key)
    held: list[list[Integers]] = []
    for value in payloads(batches):
        held.append(unpack(value))
        if sum(len(rows[0]) for rows in held) > PIECE_CELLS:
            held = [_first_rows(_joined(held), job.rows_per_user, choice)]
    codes = _first_rows(_joined(held), job.rows_per_user, choice)[2:]
    for first in range(0, len(codes[0]), PIECE_CELLS):
        yield number_batch("part", [(0, pack([column[first : first + PIECE_CELLS] for column in codes]))])


def _joined(held: list[list[Integers]]) -> list[Integers]:
    return [np.concatenate(columns) for columns in zip(*held, strict=True)]
