"""The first schema: streams, steps, charges, failures, states and content-addressed arrays."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

HISTORY = """
CREATE VIEW history AS
SELECT s.name AS stream, c.t AS t, c.id AS charge, c.first AS span_first, c.last AS span_last,
       c.purpose AS purpose, c.epsilon AS epsilon, c.epsilon_decimal AS epsilon_decimal,
       c.block AS block,
       c.outcome AS outcome, p.seq AS seq, p.fresh AS fresh, p.spent AS spent, p."left" AS "left"
FROM charges c
JOIN streams s ON s.id = c.stream_id
LEFT JOIN steps p ON p.stream_id = c.stream_id AND p.t = c.t
"""


def upgrade() -> None:
    _streams_and_arrays()
    _steps()
    _charges()
    _states()
    op.execute(HISTORY)
    op.execute("INSERT INTO counter (seq) VALUES (0)")


def _streams_and_arrays() -> None:
    op.create_table(
        "streams",
        sa.Column("id", ID, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("guarantee", sa.Text, nullable=False),
        sa.Column("mechanism", sa.Text, nullable=False),
        sa.Column("bins", sa.BigInteger, nullable=False),
        sa.Column("domain", sa.Text),
        sa.Column("l1", sa.BigInteger, nullable=False),
        sa.Column("recorded", sa.Text, nullable=False),
    )
    op.create_table("counter", sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False))
    op.create_table(
        "blobs",
        sa.Column("id", ID, primary_key=True),
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("dtype", sa.Text, nullable=False),
        sa.Column("shape", sa.Text, nullable=False),
        sa.Column("packing", sa.Text, nullable=False),
        sa.Column("bytes", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("stream_id", "digest", name="blobs_by_digest"),
    )


def _steps() -> None:
    op.create_table(
        "steps",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), nullable=False),
        sa.Column("t", sa.BigInteger, nullable=False),
        sa.Column("fresh", sa.Boolean, nullable=False),
        sa.Column("law", sa.Text, nullable=False),
        sa.Column("spent", sa.Text, nullable=False),
        sa.Column("left", sa.Text, nullable=False),
        sa.Column("spent_decimal", sa.Float(53), nullable=False),
        sa.Column("left_decimal", sa.Float(53), nullable=False),
        sa.Column("std", sa.Float(53)),
        sa.Column("values_blob", ID, sa.ForeignKey("blobs.id"), nullable=False),
        sa.Column("std_blob", ID, sa.ForeignKey("blobs.id")),
        sa.Column("recorded", sa.Text, nullable=False),
        sa.UniqueConstraint("stream_id", "t", name="steps_by_time"),
    )
    op.create_index("steps_by_values_blob", "steps", ["values_blob"])
    op.create_index("steps_by_std_blob", "steps", ["std_blob"])


def _charges() -> None:
    op.create_table(
        "charges",
        sa.Column("id", ID, primary_key=True),
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), nullable=False),
        sa.Column("t", sa.BigInteger, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("epsilon", sa.Text, nullable=False),
        sa.Column("mu_squared", sa.Text, nullable=False),
        sa.Column("epsilon_decimal", sa.Float(53), nullable=False),
        sa.Column("block", sa.BigInteger),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("bins_blob", ID, sa.ForeignKey("blobs.id")),
        sa.Column("since_blob", ID, sa.ForeignKey("blobs.id")),
    )
    op.create_index("charges_by_stream", "charges", ["stream_id", "id"])
    op.create_index("charges_by_bins_blob", "charges", ["bins_blob"])
    op.create_index("charges_by_since_blob", "charges", ["since_blob"])
    op.create_table(
        "failures",
        sa.Column("id", ID, primary_key=True),
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), nullable=False),
        sa.Column("t", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("recorded", sa.Text, nullable=False),
    )
    op.create_index("failures_by_stream", "failures", ["stream_id", "t"])


def _states() -> None:
    op.create_table(
        "states",
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), primary_key=True, autoincrement=False),
        sa.Column("t", sa.BigInteger, nullable=False),
        sa.Column("header", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "state_blobs",
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("blob_id", ID, sa.ForeignKey("blobs.id"), nullable=False),
    )
    op.create_index("state_blobs_by_blob", "state_blobs", ["blob_id"])
