"""The command line: ``veilstream publish | series | histogram | synthesize | personalised | points | plan | ...``."""

from veilstream.cli.app import app
from veilstream.cli.audit import audit
from veilstream.cli.compare import compare
from veilstream.cli.histogram import histogram
from veilstream.cli.ledgers import ledger_app
from veilstream.cli.personalised import personalised
from veilstream.cli.points import points
from veilstream.cli.schedule import plan
from veilstream.cli.series import series
from veilstream.cli.serve import serve, token_app
from veilstream.cli.synthesize import synthesize

app.add_typer(ledger_app, name="ledger")
app.add_typer(token_app, name="token")
app.command()(serve)
app.command()(series)
app.command()(plan)
app.command()(histogram)
app.command()(synthesize)
app.command()(personalised)
app.command()(points)
app.command()(audit)
app.command()(compare)


def main() -> None:
    """The entry point of the ``veilstream`` command."""
    app()


__all__ = ["app", "main"]
