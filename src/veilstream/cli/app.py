"""The commands by name. A command's module is loaded when the command is run, so that help answers at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from veilstream import __version__
from veilstream.cli.examples import with_examples
from veilstream.cli.groups import Commands
from veilstream.cli.problems import MEANING
from veilstream.cli.reporting import ReportingGroup


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command is defined, and what the list of commands says about it."""

    module: str
    summary: str
    function: str | None = None


COMMANDS: Final = {
    "publish": Entry("publish", "Publish a file of events or counts step by step."),
    "series": Entry("series", "Publish one count series, filtered, with error bands."),
    "histogram": Entry("histogram", "Publish one histogram of a file, once and for all."),
    "synthesize": Entry("synthesize", "Publish a private model of a table and draw synthetic rows."),
    "personalised": Entry("personalised", "Publish counts, each person protected by their own epsilon."),
    "points": Entry("points", "Publish points that move little: sorted, a median, or a grid."),
    "plan": Entry("plan", "Spread a budget over steps of different public weight."),
    "bound": Entry("bound", "Learn privately how many rows people have, to limit them."),
    "presence": Entry("presence", "Choose in how many steps one person counts.", "presence_app"),
    "advise": Entry("advise", "Choose epsilon, window and mechanism from public facts."),
    "compare": Entry("compare", "Try all mechanisms on a public stream and recommend one."),
    "mechanisms": Entry("catalogue", "List mechanisms and histograms with their parameters."),
    "ledger": Entry("ledgers", "Read a ledger: what was released, what it cost, what is left.", "ledger_app"),
    "backup": Entry("backup", "Copy ledger, spool, keys and marks while they are in use."),
    "restore": Entry("backup", "Go on from a backup, or from what was put back.", "restore"),
    "population": Entry("population", "Promise one budget for many streams and releases.", "population_app"),
    "budget": Entry("budget", "Show what populations spent, what is left, what comes back."),
    "serve": Entry("serve", "Take rows over HTTP, publish on the clock, show a live page."),
    "token": Entry("serve", "Tokens of the live service: who may send, read, operate.", "token_app"),
    "audit": Entry("audit", "Try to refute the privacy claims of mechanisms."),
    "demo": Entry("demo", "Publish three seasons of influenza counts as a demonstration."),
    "version": Entry("app", "Print the version."),
}


class CommandTable(ReportingGroup):
    """A group of the commands in ``COMMANDS``."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


@cache
def _command(name: str) -> Any:
    """A command by its name, built once in a process."""
    entry = COMMANDS[name]
    target = getattr(import_module(f"veilstream.cli.{entry.module}"), entry.function or name)
    if isinstance(target, typer.Typer):
        target.info.name = name
        return typer.main.get_command(target)
    one = Commands(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    one.command(name)(target)
    return with_examples(typer.main.get_command(one), name)


app = typer.Typer(
    cls=CommandTable,
    help="Keep publishing statistics about people from a changing dataset, under differential privacy.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="\b\nExit codes:\n" + "\n".join(f"  {code:<4}{meaning}" for code, meaning in MEANING.items()),
)


def version() -> None:
    """Print the version."""
    typer.echo(f"veilstream {__version__}")


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep publishing statistics about people from a changing dataset, under differential privacy."""
