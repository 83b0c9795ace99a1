"""The arguments that the commands on ledgers share, and how they open one."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from veilstream.storage.ledger import Ledger, StreamSpec

Where = Annotated[str, typer.Argument(help="The ledger: a file or a PostgreSQL URL.", show_default=False)]
Which = Annotated[str | None, typer.Option("--stream", help="One stream only.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; errors too.")]


@contextmanager
def opened_ledger(url: str) -> Generator[Ledger]:
    """A ledger that exists already."""
    from veilstream.storage.ledger import Ledger

    require_file(url)
    with Ledger.open(url) as ledger:
        yield ledger


def require_file(url: str) -> None:
    """Refuse a ledger in a file that does not exist."""
    from veilstream.errors import LedgerError
    from veilstream.jobs.prepare import database_file

    database = database_file(url)
    if database is not None and not database.is_file():
        raise LedgerError(
            name="ledger",
            value=database,
            limit="there is no such file",
            outcome="nothing was read",
            next_step="check its name and folder; 'veilstream publish --ledger FILE' makes one",
        )


def chosen_streams(ledger: Ledger, stream: str | None) -> list[StreamSpec]:
    """One stream of a ledger, or all of them."""
    from veilstream.errors import InvalidInputError

    specs = ledger.streams()
    if stream is None:
        return specs
    found = [spec for spec in specs if spec.name == stream]
    if not found:
        known = ", ".join(spec.name for spec in specs) or "none"
        raise InvalidInputError(
            name="stream",
            value=stream,
            limit=f"not in this ledger, its streams are: {known}",
            outcome="nothing was read",
        )
    return found
