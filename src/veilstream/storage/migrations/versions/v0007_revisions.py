"""New values for earlier steps, each published with a later one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "revisions",
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), primary_key=True, autoincrement=False),
        sa.Column("entry", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("t", sa.BigInteger, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("steps", sa.Text, nullable=False),
        sa.Column("law", sa.Text, nullable=False),
        sa.Column("values_array", ID, sa.ForeignKey("arrays.id"), nullable=False),
        sa.Column("std_array", ID, sa.ForeignKey("arrays.id"), nullable=False),
        sa.Column("recorded", sa.Text, nullable=False),
    )
    op.create_index("revisions_of_steps", "revisions", ["stream_id", "last"])
