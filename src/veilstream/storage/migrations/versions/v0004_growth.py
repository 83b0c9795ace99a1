"""Snapshots of accountants, summaries of what no window reaches any more, steps that were lost, and fresh starts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "snapshots",
        *_of_entry(),
        sa.Column("t", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary),
    )
    op.create_table(
        "compactions",
        *_of_entry(),
        sa.Column("through", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("charge", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("failure", sa.BigInteger, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("removed_charges", sa.BigInteger, nullable=False),
        sa.Column("removed_steps", sa.BigInteger, nullable=False),
        sa.Column("kept", sa.Text, nullable=False),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("recorded", sa.Text, nullable=False),
    )
    op.create_table(
        "losses",
        *_of_entry(),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("resume", sa.BigInteger, nullable=False),
        sa.Column("seen", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("recorded", sa.Text, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("id", ID, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("stream", sa.Text),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("recorded", sa.Text, nullable=False),
        sa.Column("mac", sa.Text, nullable=False),
    )


def _of_entry() -> list[sa.Column[int]]:
    return [
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), primary_key=True, autoincrement=False),
        sa.Column("entry", sa.BigInteger, primary_key=True, autoincrement=False),
    ]
