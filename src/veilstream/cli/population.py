"""``veilstream population``: one promise for many streams, and the options of what draws on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilstream.cli.groups import command_group
from veilstream.cli.options import AsJson, option
from veilstream.cli.reporting import ExitCode, print_json

if TYPE_CHECKING:
    from veilstream.privacy.population import Membership, Population

population_app = command_group("Promise one budget for many streams and releases.")

Where = Annotated[str, typer.Argument(help="The ledger: a file or a PostgreSQL URL.", show_default=False)]
InPopulation = Annotated[
    str | None, option("--population", description="Population of the ledger whose promise it keeps too.")
]
HowToDraw = Annotated[
    str,
    option("--draw", description="'shared' (default) from the population's pool, or 'reserved', a share fixed now."),
]
DataFrom = Annotated[
    str | None,
    option("--data-from", description="With --population: when the data begin. Default: they count for ever."),
]
DataTo = Annotated[str | None, option("--data-to", description="With --population: when the data end, excluded.")]


def membership_of(population: str | None, draw: str, data_from: str | None, data_to: str | None) -> Membership | None:
    """How a one-time release draws on a population: at the time of its data, or for ever."""
    from veilstream.errors import InvalidInputError
    from veilstream.privacy.population import EVER, Membership

    if population is None:
        if data_from is not None or data_to is not None:
            raise InvalidInputError(
                name="data",
                limit="a time of the data is for a population, give --population",
                outcome="nothing was read",
            )
        return None
    if (data_from is None) != (data_to is None):
        raise InvalidInputError(
            name="data", limit="give --data-from and --data-to together", outcome="nothing was read"
        )
    data = EVER if data_from is None or data_to is None else (data_from, data_to)
    chosen: Any = draw
    return Membership(population, chosen, data=data)


@population_app.command()
def define(
    ledger: Where,
    name: Annotated[str, typer.Argument(help="Name of the population.", show_default=False)],
    epsilon: Annotated[str, option("--epsilon", description="What a window may cost, e.g. 2 or 1/2.")],
    window: Annotated[str, option("--window", description="Length of a window: 24h, 7d, 1mo; 'user' for ever.")],
    every: Annotated[
        str | None, option("--every", description="Length of a cell; windows begin with one. Default: one unit.")
    ] = None,
    start: Annotated[str | None, option("--start", description="Where a cell begins. Default: 2001-01-01.")] = None,
    zone: Annotated[str, option("--zone", description="Zone of days and longer cells. Default: UTC.")] = "UTC",
    delta: Annotated[str, option("--delta", description="Probability of failure. Default: 0.")] = "0",
    unit: Annotated[
        str, option("--unit", description="What is protected: people (default), devices or events.")
    ] = "people",
    as_json: AsJson = False,
) -> int:
    """Define a population in a ledger (made if it does not exist); defining the same again changes nothing."""
    from veilstream.privacy.population import Population
    from veilstream.storage.ledger import Ledger

    wanted = Population(name, epsilon, None if window == "user" else window, every, start, zone, delta, unit)
    with Ledger.open(ledger) as book:
        known = book.populations.define(wanted)
    if as_json:
        print_json(described(known))
    else:
        typer.echo(f"defined {known}")
    return ExitCode.OK


@population_app.command("list")
def list_all(ledger: Where, as_json: AsJson = False) -> int:
    """Every population of a ledger, with the streams that draw on it."""
    from veilstream.cli.ledger_opening import opened_ledger

    with opened_ledger(ledger) as book:
        found = [(one, book.populations.account(one.name).members) for one in book.populations.list()]
    if as_json:
        print_json(
            {"populations": [{**described(one), "streams": [m.name for m in members]} for one, members in found]}
        )
        return ExitCode.OK
    for one, members in found:
        typer.echo(str(one))
        for member in members:
            typer.echo(f"  {member.name}: {member.membership.draw}, {member.guarantee}")
    if not found:
        typer.echo("no populations: every stream has a promise of its own")
    return ExitCode.OK


@population_app.command("grant")
def grant_role(
    ledger: Where,
    role: Annotated[str, option("--role", description="A role of the PostgreSQL server.")],
    may: Annotated[str, option("--may", description="What it may do: read, release, or register streams too.")],
) -> int:
    """Let a role of PostgreSQL read, release, or define populations and register streams, and nothing else."""
    from veilstream.cli.ledger_opening import opened_ledger
    from veilstream.storage.ledger.population_roles import grant

    wanted: Any = may
    with opened_ledger(ledger) as book, book.writing() as connection:
        for statement in grant(connection, role, wanted, book.label):
            typer.echo(f"{statement};")
    return ExitCode.OK


def described(population: Population) -> dict[str, Any]:
    """A population as JSON has it."""
    grid = population.grid
    return {
        "population": population.name,
        "promise": str(population),
        "epsilon": str(population.guarantee.epsilon),
        "delta": str(population.guarantee.delta),
        "unit": population.unit,
        "window_cells": population.guarantee.w,
        "cells": None if grid is None else {"start": grid.start, "every": grid.every, "zone": grid.zone},
    }
