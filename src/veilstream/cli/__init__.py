"""The command line: ``veilstream publish | series | ledger | mechanisms | demo | version``."""

from veilstream.cli.app import app
from veilstream.cli.ledgers import ledger_app
from veilstream.cli.series import series

app.add_typer(ledger_app, name="ledger")
app.command()(series)


def main() -> None:
    """The entry point of the ``veilstream`` command."""
    app()


__all__ = ["app", "main"]
