"""Summaries of charges say what these cost the windows of a population."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("compactions", sa.Column("pool", sa.LargeBinary))
