"""The way of a ledger from any earlier schema to the present one, walked inside the process that opens it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from veilstream.errors import LedgerError

VERSION_TABLE: Final = "ledger_version"
REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007")
HEAD: Final = REVISIONS[-1]


def upgrade(connection: Connection, current: str | None) -> None:
    """Walk from revision ``current`` (``None``: an empty database) to ``HEAD`` in the open transaction.

    A new ledger gets its tables at once instead, in :mod:`veilstream.storage.ledger.creating`.

    The caller holds a lock that keeps every other process from doing the same.
    """
    # Only a ledger that is old needs these, and they take long to load.
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from alembic.script.revision import RevisionError

    try:
        script = ScriptDirectory(str(Path(__file__).parent))
        path = list(script.iterate_revisions(HEAD, current or "base"))
    except (OSError, RevisionError) as error:
        # Such as a process that may open no more files.
        raise LedgerError(
            name="ledger schema",
            value=HEAD,
            limit=f"the way to it cannot be read ({type(error).__name__}); try again",
            outcome="nothing was changed",
        ) from None
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    with Operations.context(context):
        for revision in reversed(path):
            revision.module.upgrade()
            context.stamp(script, revision.revision)
