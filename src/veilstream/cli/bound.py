"""``veilstream bound``: a small, charged look at how many rows people have, to choose a limit by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilstream.cli.dry_run import tell_dry_run
from veilstream.cli.options import (
    AsJson,
    DryRun,
    Files,
    RowPerPerson,
    job_option,
    moments_of,
    option,
    require_people,
    source_of,
)
from veilstream.cli.population import HowToDraw, InPopulation, membership_of
from veilstream.cli.reporting import ExitCode, print_json

if TYPE_CHECKING:
    from veilstream.data import Dropped
    from veilstream.evaluate.limits import LimitChoice, RowLevels
    from veilstream.jobs.limits import Limits


def bound(
    files: Files,
    time: Annotated[str, job_option("time")],
    every: Annotated[str, job_option("every")],
    start: Annotated[str, job_option("start")],
    end: Annotated[str, job_option("end")],
    ledger: Annotated[str, job_option("ledger")],
    user: Annotated[str | None, job_option("user")] = None,
    row_per_person: RowPerPerson = False,
    zone: Annotated[str, job_option("zone")] = "UTC",
    epsilon: Annotated[
        str, option("--epsilon", description="Budget of this look, once for each person. Default: 1/10.")
    ] = "1/10",
    steps_per_user: Annotated[
        int, option("--steps-per-user", description="Steps of one person that count here. Default: 1.")
    ] = 1,
    publish_epsilon: Annotated[
        str | None, option("--publish-epsilon", description="Budget of a window of the stream to come.")
    ] = None,
    window: Annotated[
        str | None, option("--window", description="Window of the stream to come: steps, a duration, or 'user'.")
    ] = None,
    count: Annotated[
        float | None, option("--count", description="Rows that one of its bins holds in a step, about.")
    ] = None,
    unknown: Annotated[str, job_option("unknown")] = "error",
    missing_time: Annotated[str, job_option("missing_time")] = "error",
    time_format: Annotated[str | None, job_option("time_format")] = None,
    delimiter: Annotated[str | None, job_option("delimiter")] = None,
    encoding: Annotated[str | None, job_option("encoding")] = None,
    stream: Annotated[str, option("--stream", description="Name of the look in the ledger. Default: bound.")] = "bound",
    plot: Annotated[Path | None, option("--plot", description="Picture of the limits: .png, .pdf or .svg.")] = None,
    population: InPopulation = None,
    draw: HowToDraw = "shared",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Learn privately how many rows people have in a step, and choose --counts-per-user by it.

    The look costs epsilon for every person, once: one step of each counts, by how many rows they have in it. It is in
    the ledger, and running it again shows the same figures for nothing. With --publish-epsilon, --window and --count
    the limit of the least error is suggested, else the least that keeps 95 % of the rows. In a --population it counts
    from --start to --end.
    """
    from veilstream.data import ReadOptions
    from veilstream.jobs import limits
    from veilstream.privacy.guarantee import Guarantee
    from veilstream.release.sinks import check_writable
    from veilstream.storage.requiring import require_population

    require_people(user, row_per_person)
    if plot is not None:
        check_writable(plot, (".png", ".pdf", ".svg"))
    stream_to_come = limits.stream_facts(publish_epsilon, window, count, every)
    guarantee = Guarantee(epsilon, w=None)
    first, last, length = moments_of(start, end, every)
    if user is None:
        return _tell_one_row(as_json, dry_run)
    if dry_run:
        return tell_dry_run(guarantee, as_json, steps_per_user=steps_per_user, ledger=ledger)
    require_population(ledger, population)
    found = limits.look(
        source_of(files),
        time=time,
        user=user,
        every=length,
        start=first,
        end=last,
        zone=zone,
        epsilon=epsilon,
        ledger=ledger,
        stream=stream,
        steps_per_user=steps_per_user,
        unknown=unknown,
        missing_time=missing_time,
        options=ReadOptions(delimiter, encoding, time_format=time_format),
        to_come=stream_to_come,
        population=None if population is None else membership_of(population, draw, start, end),
    )
    if plot is not None:
        from veilstream.evaluate.limits_picture import draw_limits

        draw_limits(found.levels, found.choices, found.suggested, plot)
    _tell_operator(found.dropped)
    if as_json:
        _print_json(found, plot)
    else:
        _tell(found)
        if plot is not None:
            typer.echo(f"wrote {plot}")
    return ExitCode.OK


def _tell_one_row(as_json: bool, dry_run: bool) -> int:
    """Where every row is another person there is nothing to look at: nobody has more than one."""
    if as_json:
        one = {"limit": 1, "kept": 1.0, "low": 1.0, "high": 1.0, "noise": None, "lost": None}
        told: dict[str, Any] = {"stream": None, "spent": "0", "released_before": False, "suggested": 1, "limits": [one]}
        print_json({**({"dry_run": True} if dry_run else {}), **told, "outputs": []})
    else:
        typer.echo("every row is another person: a limit of one row keeps all of them; nothing was read or spent")
    return ExitCode.OK


def _tell_operator(dropped: Dropped) -> None:
    rows = dropped.no_user + dropped.outside_time + dropped.missing_time
    if rows:
        typer.echo(f"rows left out (exact, for the operator alone, do not publish): {rows}", err=True)


def _print_json(found: Limits, plot: Path | None) -> None:
    print_json(
        {
            "stream": found.stream,
            "spent": str(found.spent),
            "released_before": found.before,
            "suggested": None if found.levels.blind else found.suggested.limit,
            "limits": []
            if found.levels.blind
            else [
                {"limit": c.limit, "kept": c.kept, "low": c.low, "high": c.high, "noise": c.noise, "lost": c.lost}
                for c in found.choices
            ],
            "outputs": [] if plot is None else [str(plot)],
        }
    )


def _tell(found: Limits) -> None:
    from rich.console import Console
    from rich.table import Table

    from veilstream.jobs.wording import number

    cost = "nothing was spent: it was released before" if found.before else f"spent: epsilon {number(found.spent)}"
    typer.echo(f"rows per person and step, stream '{found.stream}'; {cost}")
    if found.levels.blind:
        typer.echo(
            f"too few people to tell: noise hides groups of fewer than about {found.levels.half_width:,.0f} at this "
            "epsilon. Choose a limit by a public rule, or look again with more epsilon under another --stream"
        )
        return
    table = Table(title="limits on the rows of one person in a step", title_justify="left")
    with_errors = found.choices[0].error is not None
    errors = ("noise", "left out", "error") if with_errors else ()
    for name in ("limit", "rows kept", "95 % between", *errors):
        table.add_column(name, justify="right", no_wrap=True)
    for choice in found.choices:
        table.add_row(*_row(choice))
    Console().print(table)
    typer.echo(_blindness(found.levels))
    limit = found.suggested.limit
    why = "smallest error of a bin" if with_errors else "smallest limit that keeps 95 % of the rows seen"
    typer.echo(f"suggested: {why}\n\n  --counts-per-user {limit} --bins-per-user {limit}\n")


def _blindness(levels: RowLevels) -> str:
    return (
        f"noise hides groups of fewer than about {levels.half_width:,.0f} people at this epsilon: shares are of the "
        "rows of larger groups, and a few people with very many rows may be missing"
    )


def _row(choice: LimitChoice) -> list[str]:
    cells = [f"{choice.limit:,}", f"{choice.kept:.1%}", f"{choice.low:.1%} and {choice.high:.1%}"]
    errors = (choice.noise, choice.lost, choice.error)
    return cells + [f"{error:,.1f}" for error in errors if error is not None]
