"""The command line: ``veilstream publish | ledger | mechanisms | demo | version``."""

from veilstream.cli.app import app
from veilstream.cli.ledgers import ledger_app

app.add_typer(ledger_app, name="ledger")


def main() -> None:
    """The entry point of the ``veilstream`` command."""
    app()


__all__ = ["app", "main"]
