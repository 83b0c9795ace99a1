"""The tables of a ledger as they are now; ``veilstream.storage.migrations`` holds the way there."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

STEP_FORMAT: Final = 1
"""Meaning of a step row; a row of a later format is refused, never guessed."""

# SQLite numbers rows by itself only where the key is spelled INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData()

streams = Table(
    "streams",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("guarantee", Text, nullable=False),
    Column("mechanism", Text, nullable=False),
    Column("bins", BigInteger, nullable=False),
    Column("domain", Text),
    Column("l1", BigInteger, key="max_contribution", nullable=False),
    Column("recorded", Text, nullable=False),
)

# One row, locked by every commit of a step: numbers are then given in the order in which readers see them,
# so that a reader who asks for what came after a number misses nothing.
counter = Table("counter", metadata, Column("seq", BigInteger, primary_key=True, autoincrement=False))

blobs = Table(
    "blobs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("stream_id", Id, ForeignKey("streams.id"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("dtype", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("packing", Text, nullable=False),
    Column("bytes", LargeBinary, nullable=False),
    UniqueConstraint("stream_id", "digest", name="blobs_by_digest"),
)

steps = Table(
    "steps",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("format", Integer, nullable=False),
    Column("stream_id", Id, ForeignKey("streams.id"), nullable=False),
    Column("t", BigInteger, nullable=False),
    Column("fresh", Boolean, nullable=False),
    Column("law", Text, nullable=False),
    Column("spent", Text, nullable=False),
    Column("left", Text, nullable=False),
    Column("spent_decimal", Float(53), nullable=False),
    Column("left_decimal", Float(53), nullable=False),
    Column("std", Float(53)),
    Column("values_blob", Id, ForeignKey("blobs.id"), nullable=False),
    Column("std_blob", Id, ForeignKey("blobs.id")),
    Column("recorded", Text, nullable=False),
    UniqueConstraint("stream_id", "t", name="steps_by_time"),
    Index("steps_by_values_blob", "values_blob"),
    Index("steps_by_std_blob", "std_blob"),
)

charges = Table(
    "charges",
    metadata,
    Column("id", Id, primary_key=True),
    Column("stream_id", Id, ForeignKey("streams.id"), nullable=False),
    Column("t", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("epsilon", Text, nullable=False),
    Column("mu_squared", Text, nullable=False),
    Column("epsilon_decimal", Float(53), nullable=False),
    Column("block", BigInteger),
    Column("outcome", Text, nullable=False),
    Column("bins_blob", Id, ForeignKey("blobs.id")),
    Column("since_blob", Id, ForeignKey("blobs.id")),
    Index("charges_by_stream", "stream_id", "id"),
    Index("charges_by_bins_blob", "bins_blob"),
    Index("charges_by_since_blob", "since_blob"),
)

failures = Table(
    "failures",
    metadata,
    Column("id", Id, primary_key=True),
    Column("stream_id", Id, ForeignKey("streams.id"), nullable=False),
    Column("t", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("recorded", Text, nullable=False),
    Index("failures_by_stream", "stream_id", "t"),
)

states = Table(
    "states",
    metadata,
    Column("stream_id", Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("t", BigInteger, nullable=False),
    Column("header", LargeBinary, nullable=False),
)

state_blobs = Table(
    "state_blobs",
    metadata,
    Column("stream_id", Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("blob_id", Id, ForeignKey("blobs.id"), nullable=False),
    Index("state_blobs_by_blob", "blob_id"),
)
