"""``python -m research list`` and ``python -m research reproduce [FIGURE ...]``: the papers' figures, run again."""

import typer

from research.commands import list_figures, reproduce
from veilstream.cli.reporting import ReportingGroup

app = typer.Typer(cls=ReportingGroup, pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None)
app.command("list")(list_figures)
app.command()(reproduce)


@app.callback()
def options() -> None:
    """The papers' experiments, run again under corrected guarantees."""


if __name__ == "__main__":
    app(prog_name="python -m research")
