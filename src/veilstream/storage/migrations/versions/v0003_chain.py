"""A chain of keyed digests over every stream; what was there before is covered by one entry for each."""

from __future__ import annotations

import os

import sqlalchemy as sa
from alembic import op

from veilstream.storage.ledger.adopting import adopt

revision = "0003"
down_revision = "0002"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "chain",
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("charge", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("failure", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "secret_keys",
        sa.Column("purpose", sa.Text, primary_key=True),
        sa.Column("key", sa.LargeBinary, nullable=False),
    )
    op.add_column("streams", sa.Column("mac", sa.Text, nullable=False, server_default=""))
    op.add_column("secret_states", sa.Column("entry", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("secret_states", sa.Column("mac", sa.Text, nullable=False, server_default=""))
    connection = op.get_bind()
    connection.execute(
        sa.text("INSERT INTO secret_keys (purpose, key) VALUES ('chain', :key)"), {"key": os.urandom(32)}
    )
    adopt(connection)
