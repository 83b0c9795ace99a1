"""Populations: one promise for many streams, and how a stream draws on it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "populations",
        sa.Column("id", ID, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("promise", sa.Text, nullable=False),
        sa.Column("recorded", sa.Text, nullable=False),
        sa.Column("mac", sa.Text, nullable=False),
    )
    op.add_column("streams", sa.Column("membership", sa.Text))
    op.create_index("charges_in_time", "charges", ["stream_id", "last"])
    of_block = sa.text("block IS NOT NULL")
    op.create_index(
        "charges_of_blocks", "charges", ["stream_id", "block"], sqlite_where=of_block, postgresql_where=of_block
    )
