"""The tables of a ledger."""

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
    text,
)

VERSION_TABLE: Final = "ledger_version"
SCHEMA: Final = "0007"
"""Which tables these are; a ledger of any other schema is refused."""
STEP_FORMAT: Final = 1
"""Meaning of a step row; a row of a later format is refused, never guessed."""

# SQLite numbers rows by itself only where the key is spelled INTEGER.
Id = BigInteger().with_variant(Integer(), "sqlite")

OF_BLOCK: Final = text("block IS NOT NULL")

metadata = MetaData()

# Public: anybody who may see the releases may see these tables.

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
    Column("calendar", Text),
    Column("key_id", Text, key="key"),
    Column("per_timestamp", Boolean, nullable=False),
    Column("payload", Text, nullable=False),
    Column("membership", Text),
    Column("mac", Text, nullable=False),
)

# One promise about everything that draws on it; a stream says in ``membership`` how it does.
populations = Table(
    "populations",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("promise", Text, nullable=False),
    Column("recorded", Text, nullable=False),
    Column("mac", Text, nullable=False),
)

# One row, locked by every commit of a step: numbers are then given in the order in which readers see them,
# so that a reader who asks for what came after a number misses nothing.
counter = Table("counter", metadata, Column("seq", BigInteger, primary_key=True, autoincrement=False))

arrays = Table(
    "arrays",
    metadata,
    Column("id", Id, primary_key=True),
    Column("stream_id", Id, ForeignKey("streams.id"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("dtype", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("packing", Text, nullable=False),
    Column("bytes", LargeBinary, nullable=False),
    UniqueConstraint("stream_id", "digest", name="arrays_once"),
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
    Column("values_array", Id, ForeignKey("arrays.id"), nullable=False),
    Column("std_array", Id, ForeignKey("arrays.id")),
    Column("corners_array", Id, ForeignKey("arrays.id")),
    Column("recorded", Text, nullable=False),
    UniqueConstraint("stream_id", "t", name="steps_once"),
    Index("steps_in_order", "stream_id", "seq"),
)

# New values for earlier steps that were published with step ``t``, by the entry of its commit: the arrays have a row
# for each of ``steps``, from ``first`` to ``last``.
revisions = Table(
    "revisions",
    metadata,
    Column("stream_id", Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("entry", BigInteger, primary_key=True, autoincrement=False),
    Column("t", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("steps", Text, nullable=False),
    Column("law", Text, nullable=False),
    Column("values_array", Id, ForeignKey("arrays.id"), nullable=False),
    Column("std_array", Id, ForeignKey("arrays.id"), nullable=False),
    Column("recorded", Text, nullable=False),
    Index("revisions_of_steps", "stream_id", "last"),
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
    Column("bins_array", Id, ForeignKey("arrays.id")),
    Column("starts_array", Id, ForeignKey("arrays.id")),
    Index("charges_in_order", "stream_id", "id"),
    Index("charges_in_time", "stream_id", "last"),
    Index("charges_of_blocks", "stream_id", "block", sqlite_where=OF_BLOCK, postgresql_where=OF_BLOCK),
)

# A block of comparisons is opened once: whoever opens it again has lost count of what was charged.
blocks = Table(
    "blocks",
    metadata,
    Column("stream_id", Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("t", BigInteger, nullable=False),
)

failures = Table(
    "failures",
    metadata,
    Column("id", Id, primary_key=True),
    Column("stream_id", Id, ForeignKey("streams.id"), nullable=False),
    Column("t", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("recorded", Text, nullable=False),
    Index("failures_in_order", "stream_id", "t"),
)

# An entry for every commit: where the rows that it covers end, and the keyed digest of them and of the entry before.
chain = Table(
    "chain",
    metadata,
    Column("stream_id", Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", Text, nullable=False),
    Column("charge", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("failure", BigInteger, nullable=False),
)

# What the accountant knew after an entry: whoever reopens a stream replays only what came later. The bodies of earlier
# ones are dropped; all of it follows from the charges.
snapshots = Table(
    "snapshots",
    metadata,
    Column("stream_id", Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("entry", BigInteger, primary_key=True, autoincrement=False),
    Column("t", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("body", LargeBinary),
)

# What an entry took away: all charges and failures up to the entry ``through``, of which a snapshot is the summary.
# ``kept`` is the digest of the steps and losses from before that are still here, ``pool`` what the charges cost the
# windows of the stream's population.
compactions = Table(
    "compactions",
    metadata,
    Column("stream_id", Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("entry", BigInteger, primary_key=True, autoincrement=False),
    Column("through", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("charge", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("failure", BigInteger, nullable=False),
    Column("summary", Text, nullable=False),
    Column("removed_charges", BigInteger, nullable=False),
    Column("removed_steps", BigInteger, nullable=False),
    Column("kept", Text, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("recorded", Text, nullable=False),
    Column("pool", LargeBinary),
)

# Steps ``first..last`` that were published and are not here, after an old copy was put back; their whole budget counts
# as spent, and the stream goes on at ``resume``. ``seen`` is the number of the last entry that was seen of them.
losses = Table(
    "losses",
    metadata,
    Column("stream_id", Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("entry", BigInteger, primary_key=True, autoincrement=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("resume", BigInteger, nullable=False),
    Column("seen", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("recorded", Text, nullable=False),
)

# What the holder decided about the ledger as a whole: a fresh start, an archive, the server that holds it.
decisions = Table(
    "decisions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("stream", Text),
    Column("facts", Text, nullable=False),
    Column("recorded", Text, nullable=False),
    Column("mac", Text, nullable=False),
)

PUBLIC: Final = (
    streams,
    counter,
    arrays,
    steps,
    revisions,
    charges,
    blocks,
    failures,
    chain,
    snapshots,
    compactions,
    losses,
    decisions,
    populations,
)
"""What a reader may be granted, with the view ``history``; rows here and their ids depend on nothing secret."""

# Secret: exact sums that wait, the noise of thresholds.

secret_states = Table(
    "secret_states",
    metadata,
    Column("stream_id", Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("t", BigInteger, nullable=False),
    Column("header", LargeBinary, nullable=False),
    Column("slots", Text, nullable=False),
    Column("entry", BigInteger, nullable=False),
    Column("mac", Text, nullable=False),
)

secret_arrays = Table(
    "secret_arrays",
    metadata,
    Column("stream_id", Id, ForeignKey("streams.id"), primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("digest", Text, nullable=False),
    Column("dtype", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("packing", Text, nullable=False),
    Column("bytes", LargeBinary, nullable=False),
)

secret_keys = Table(
    "secret_keys",
    metadata,
    Column("purpose", Text, primary_key=True),
    Column("key", LargeBinary, nullable=False),
)
