"""From a DataFrame to sealed records of a domain too large to list."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from veilstream.data import Domain, Dropped, Policy
from veilstream.data.bounding.choice import Limit
from veilstream.data.bounding.keyed import CHOICE, PEOPLE, Key
from veilstream.data.bounding.packing import unpack
from veilstream.data.bounding.private import cleared_on_error
from veilstream.data.events import read_events
from veilstream.errors import InvalidDomainError
from veilstream.privacy.charge import Span
from veilstream.spark.environment import environment
from veilstream.spark.jobs import bucket_count, collected, grouped, mapped, numbered, on_cluster
from veilstream.spark.notes import Note, settle
from veilstream.spark.record_worker import RecordJob, choosing_records, encoding_records
from veilstream.spark.shipping import ship
from veilstream.spark.worker import COUNTED, DEALT, NOTES, payloads
from veilstream.trusted.records import SealedRecords, gathered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def records(
    df: DataFrame,
    *,
    domain: Domain,
    user: str,
    key: bytes | None = None,
    rows_per_user: int = 1,
    unknown: Policy = "error",
    t: int = 0,
    buckets: int | None = None,
    dropped: Dropped | None = None,
) -> SealedRecords:
    """The rows as sealed records, at most ``rows_per_user`` of each person, for releases that never list the domain.

    With the same ``key`` they are those of :func:`veilstream.synthesis.read_rows` on one machine. The domain may be a
    ``TableDomain``, of which every single attribute is listed but not the product.
    """
    limit, secret = Limit(counts_per_user=rows_per_user), Key(os.urandom(32) if key is None else key)
    # A report of a crash may record this function's variables.
    del key
    if not domain.names:
        raise InvalidDomainError("records of 0 attributes: at least 1 is needed", outcome="nothing was read")
    read_events((), user=user, time=domain.names[0], by=domain.names)
    job = RecordJob(
        axes=domain.axes,
        user=user,
        rows_per_user=limit.counts_per_user,
        unknown=unknown,
        buckets=bucket_count(df, buckets),
        expected=environment(),
        people_key=secret.derive(PEOPLE),
        choice_key=secret.derive(CHOICE),
    )
    with cleared_on_error(), on_cluster():
        return _sealed(
            numbered(df, (user, *domain.names)), job, domain.shape, t, Dropped() if dropped is None else dropped
        )


def _sealed(df: DataFrame, job: RecordJob, shape: tuple[int, ...], t: int, dropped: Dropped) -> SealedRecords:
    ship(df.sparkSession)
    dealt = mapped(df, encoding_records(job), DEALT)
    table = collected(grouped(dealt, "bucket", choosing_records(job), COUNTED))
    told = np.asarray(table.column("part")) == NOTES
    notes = payloads(table.filter(told).to_batches())
    settle((Note.from_bytes(value.to_pybytes()) for value in notes), dropped)
    merged, counts = gathered(*_codes(table.filter(~told), len(shape)), shape)
    return SealedRecords(merged, counts, shape, Span(t, t), Fraction(job.rows_per_user))


def _codes(table: Any, attributes: int) -> tuple[Any, Any]:
    pieces = [np.stack(unpack(value), axis=1) for value in payloads(table.to_batches())]
    cells = np.concatenate([np.zeros((0, attributes), dtype=np.int64), *pieces])
    return cells, np.ones(len(cells), dtype=np.int64)
