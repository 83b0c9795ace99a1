"""``veilstream budget``: a population at a glance, as a table, JSON, a picture, or a page for the privacy officer."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from veilstream.cli.options import AsJson, option
from veilstream.cli.reporting import ExitCode, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from veilstream.release.budget import BudgetStatement, Outside

LONGEST_NAME: Final = 20
"""Of a stream that keeps its name on one line of 80 columns."""


def budget(
    ledger: Annotated[str, typer.Argument(help="The ledger: a file or a PostgreSQL URL.", show_default=False)],
    name: Annotated[
        str | None, typer.Argument(help="One population only. Default: all of them.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, option("--plot", description="Picture of one population over time: .png, .svg or .pdf.")
    ] = None,
    page: Annotated[
        Path | None, option("--page", description="Page for the privacy officer, with every release: .html.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show what populations promised and spent: each stream's share, fullest window, what is left and comes back."""
    from veilstream.cli.ledger_opening import opened_ledger
    from veilstream.errors import InvalidInputError
    from veilstream.release.budget import BudgetStatement, outside, outside_json
    from veilstream.release.budget import as_json as statement_json
    from veilstream.release.budget_picture import SUFFIXES, write_picture
    from veilstream.release.officer_page import write_officer_page
    from veilstream.release.sinks import check_writable

    for path, allowed in ((plot, SUFFIXES), (page, (".html",))):
        if path is not None:
            check_writable(path, allowed)
    with opened_ledger(ledger) as book:
        names = [one.name for one in book.populations.list()] if name is None else [name]
        statements = [BudgetStatement.of(book, one) for one in names]
        others = outside(book)
    if plot is not None and len(statements) != 1:
        raise InvalidInputError(
            name="plot",
            value=plot,
            limit=f"a picture is of one population, the ledger has {len(statements)}",
            outcome="nothing was written",
            next_step="name the population after the ledger",
        )
    if plot is not None:
        write_picture(statements[0], plot)
    if page is not None:
        made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        write_officer_page(statements, page, others, ledger=_public_name(ledger), made=made)
    if as_json:
        populations = [statement_json(one) for one in statements]
        print_json({"populations": populations, "outside": outside_json(others)})
        return ExitCode.OK
    for one in statements:
        print_statement(one)
    if not statements:
        typer.echo("no populations: every stream has a promise of its own; see veilstream ledger show")
    if statements and others:
        print_outside(others)
    for path in (plot, page):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)
    return ExitCode.OK


def _public_name(ledger: str) -> str:
    """What the page calls the ledger: where it lies is nobody's business."""
    from veilstream.storage.location import locate

    place = locate(ledger)
    return place.file.name if place.file is not None else str(place.server.database if place.server else "")


def print_outside(streams: Sequence[Outside]) -> None:
    """Streams that belong to no population, which no promise here covers."""
    from veilstream.release.budget import outside_in_words

    typer.secho(f"outside: {outside_in_words(streams)}:", fg=typer.colors.RED)
    for one in streams:
        typer.secho(f"  {one.stream}: {one.guarantee}, {one.releases:,} release(s)", fg=typer.colors.RED)


def print_statement(statement: BudgetStatement) -> None:
    """A population at a glance, for a person."""
    from rich.console import Console
    from rich.table import Table

    from veilstream.jobs.wording import number
    from veilstream.release.budget import in_words

    typer.echo(str(statement.population))
    typer.echo(f"  {in_words(statement.population)}")
    window = statement.fullest_window
    when = "" if window is None else f" ({window[0]} to {window[1]})"
    typer.echo(
        f"  reserved {number(statement.reserved)}, shared {number(statement.pool)}: "
        f"{number(statement.fullest)} of it spent in the fullest window{when}, {number(statement.left)} left now"
        + ("" if statement.comes_back is None else f", more with data of {statement.comes_back}")
    )
    typer.echo(f"  all time together, for whoever is in all of it: at most epsilon {number(statement.ever)}")
    table = Table(title_justify="left")
    words = ("stream", "draws", "comes back")
    longest = max((len(one.member.name) for one in statement.streams), default=0)
    for column in ("stream", "draws", "spent", "fullest", "left", "comes back", "releases"):
        whole = column == "comes back" or (column == "stream" and longest <= LONGEST_NAME)
        table.add_column(
            column,
            justify="left" if column in words else "right",
            overflow="fold",
            no_wrap=whole,
            min_width=len("reserved") if column == "draws" else len(column),
        )
    for one in statement.streams:
        draw = one.member.membership.draw
        table.add_row(
            one.member.name,
            f"{draw} {number(one.reserved)}" if draw == "reserved" else draw,
            number(one.spent),
            number(one.fullest),
            number(one.left),
            (one.comes_back or "").removesuffix(" 00:00"),
            f"{one.releases:,}",
        )
    Console(highlight=False).print(table)
