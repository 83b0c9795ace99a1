"""The command line: ``veilstream publish | series | plan | histogram | ledger | mechanisms | demo | version``."""

from veilstream.cli.app import app
from veilstream.cli.histogram import histogram
from veilstream.cli.ledgers import ledger_app
from veilstream.cli.schedule import plan
from veilstream.cli.series import series

app.add_typer(ledger_app, name="ledger")
app.command()(series)
app.command()(plan)
app.command()(histogram)


def main() -> None:
    """The entry point of the ``veilstream`` command."""
    app()


__all__ = ["app", "main"]
