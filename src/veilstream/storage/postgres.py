"""Connections to PostgreSQL that end: a server that is away, hangs or lost power is an error, and no wait for ever.

A lock is waited for by the server, which says when the time is over. A server that itself no longer answers says
nothing, and its kernel goes on confirming what is sent: so the client counts the seconds without a byte as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Engine, event
from sqlalchemy.engine import URL

from veilstream.extras import require

ALIVE: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""By which a client notices, within half a minute, that the machine of the server or the way to it is gone."""
CLIENT_ALIVE: Final = {
    "tcp_keepalives_idle": 10,
    "tcp_keepalives_interval": 5,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""By which the server notices the same of a client, and lets go of its locks; by default it takes two hours."""


def postgres_engine(
    url: URL, timeout: float, *, silence: float | None = None, configure: Callable[[Any], None] | None = None
) -> Engine:
    """An engine whose connections wait ``timeout`` seconds for the server and for each lock.

    ``silence`` is for how many seconds a server may send nothing while it is asked; None waits, as a command does
    that reads a large ledger. ``configure`` is called with each new connection of the driver.
    """
    require("psycopg", "PostgreSQL")
    bounded = _bounded_connection()
    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        hide_parameters=True,
        pool_pre_ping=True,
        pool_timeout=timeout,
        connect_args={"connect_timeout": max(2, round(timeout)), **ALIVE},
    )
    settings = {"lock_timeout": max(1, round(timeout * 1000)), **CLIENT_ALIVE}
    if silence is not None:
        settings["statement_timeout"] = round(silence * 1000)

    def connect(_dialect: Any, _record: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        connection = bounded.connect(*arguments, **named)
        connection.silence = silence
        return connection

    def begin(connection: Any, _record: object) -> None:
        for name, value in settings.items():
            connection.execute(f"SET {name} = {value}")
        # A release that a power failure can take back is not a release.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        if configure is not None:
            configure(connection)
        connection.commit()

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "connect", begin)
    return engine


@cache
def _bounded_connection() -> Any:
    """The driver's connection with a limit on silence; made when it is needed, since the driver is optional."""
    import psycopg

    class Bounded(psycopg.Connection[Any]):
        silence: float | None = None

        def wait(self, gen: Any, *args: Any, **named: Any) -> Any:
            return super().wait(gen if self.silence is None else self._bounded(gen, self.silence), *args, **named)

        def _bounded(self, gen: Any, silence: float) -> Generator[Any, Any, Any]:
            heard = time.monotonic()
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if ready:
                        heard = time.monotonic()
                    elif time.monotonic() - heard > silence:
                        # What the server does with the statement is unknown: this connection is of no more use.
                        self.pgconn.finish()
                        raise psycopg.OperationalError(f"the server sent nothing for {silence:g} s")
                    wanted = gen.send(ready)
            except StopIteration as done:
                return done.value

    return Bounded
