"""``veilstream synthesize --every``: a private synthetic table for every step of a calendar."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from veilstream.cli.options import job_option
from veilstream.cli.progress import progress_bar
from veilstream.cli.reporting import ExitCode, print_json

if TYPE_CHECKING:
    import polars as pl

    from veilstream.data import Calendar, ReadOptions
    from veilstream.privacy.guarantee import Guarantee
    from veilstream.privacy.population import Membership
    from veilstream.synthesis import TableDomain
    from veilstream.synthesis.kinds import TableMechanism, TableModel

TimeColumn = Annotated[str | None, job_option("time", "With --every: column of the time of a row.")]
Every = Annotated[str | None, job_option("every", "A table for every step of this length: 1d, 1w, 1mo, or a number.")]
Window = Annotated[str | None, job_option("window", "With --every: steps that share the budget, e.g. 12 or 1y.")]
Start = Annotated[str | None, job_option("start", "With --every: public start of the time range, included.")]
End = Annotated[str | None, job_option("end", "With --every: public end of the time range, excluded.")]
Zone = Annotated[str, job_option("zone")]


@dataclass(frozen=True, slots=True)
class Steps:
    """The time column, the calendar and the guarantee of tables over time."""

    time: str
    calendar: Calendar
    guarantee: Guarantee


def steps_of(
    epsilon: str,
    time: str | None,
    every: str | None,
    window: str | None,
    start: str | None,
    end: str | None,
    zone: str,
    report: Path | None,
) -> Steps | None:
    """What the options say of time; None for a table without."""
    from veilstream.data import Calendar
    from veilstream.errors import InvalidInputError
    from veilstream.jobs.window import steps_of_window
    from veilstream.privacy.guarantee import Guarantee

    given = {"every": every, "time": time, "window": window, "start": start, "end": end}
    if all(value is None for value in given.values()):
        return None
    for name, value in given.items():
        if value is None:
            raise InvalidInputError(
                name=name,
                limit="missing; a table for every step needs --every, --time, --window, --start and --end",
                outcome="nothing was read",
                next_step=f"give --{name}",
            )
    if report is not None:
        raise InvalidInputError(
            name="report",
            limit="a page is about one table, not about one for every step",
            outcome="nothing was read",
            next_step="leave --report out",
        )
    whole = str(every).isdecimal()
    moments = [int(moment) if whole and moment.lstrip("-").isdecimal() else moment for moment in (str(start), str(end))]
    calendar = Calendar(moments[0], moments[1], int(str(every)) if whole else str(every), zone)
    return Steps(str(time), calendar, Guarantee(epsilon, steps_of_window(str(window), every)))


def synthesize_steps(
    source: str | tuple[str, ...],
    schema: TableDomain,
    steps: Steps,
    mechanism: TableMechanism,
    out: Path,
    ledger: str,
    as_json: bool,
    *,
    name: str,
    user: str | None,
    rows_per_user: int,
    unknown: Literal["error", "drop"],
    options: ReadOptions,
    population: Membership | None,
    rows: int | None,
    seed: int | None,
) -> int:
    """Publish a model of every step, draw rows from each, and write them with the time at which their step begins."""
    from veilstream.storage.ledger import Ledger
    from veilstream.synthesis import fit_over_time
    from veilstream.synthesis.over_time import read_steps

    # Every row is read and checked before the ledger is touched.
    sealed = read_steps(
        source,
        schema,
        steps.calendar,
        steps.time,
        user=user,
        rows_per_user=rows_per_user,
        unknown=unknown,
        options=options,
    )
    with progress_bar("fitting steps", as_json) as advance, Ledger.open(ledger) as book:
        head = book.head(name) if name in [spec.name for spec in book.streams()] else None
        before = 0 if head is None else min(head + 1, len(sealed))
        models = fit_over_time(
            sealed,
            schema,
            steps.guarantee,
            steps.calendar,
            steps.time,
            mechanism,
            book,
            name=name,
            rows_per_user=rows_per_user,
            population=population,
            advance=advance,
        )
    written = _write(models, steps, out, rows, seed)
    told: dict[str, Any] = {
        "steps": len(models),
        "released_before": before,
        "rows": written,
        "spent_in_a_step": [str(model.spent) for model in models[before:]],
        "ledger": ledger,
        "outputs": [str(out)],
    }
    if as_json:
        print_json(told)
        return ExitCode.OK
    new = len(models) - before
    typer.echo(
        f"drew {written:,} rows of {len(models)} steps; {new} of them are new and were paid for, {steps.guarantee} "
        f"(ledger {ledger})"
    )
    typer.echo("rows of different steps are not linked: there are no people who stay from step to step")
    typer.echo(f"wrote {out}")
    return ExitCode.OK


def _write(models: list[TableModel], steps: Steps, out: Path, rows: int | None, seed: int | None) -> int:
    import polars as pl

    from veilstream.release.sinks import replacing

    frames: list[pl.DataFrame] = []
    for t, model in enumerate(models):
        drawn: pl.DataFrame = model.sample(rows, seed=None if seed is None else seed + t)
        frames.append(drawn.select(pl.lit(steps.calendar.label(t)).alias(steps.time), pl.all()))
    table = pl.concat(frames)
    with replacing(out) as unfinished:
        write_rows(table, unfinished, out.suffix)
    return len(table)


def write_rows(table: pl.DataFrame, path: Path, suffix: str) -> None:
    """Rows as the suffix of their file says."""
    # Polars cannot open names that are not UTF-8.
    with path.open("wb") as file:
        if suffix.lower() == ".parquet":
            table.write_parquet(file)
        elif suffix.lower() == ".csv":
            table.write_csv(file)
        else:
            table.write_ndjson(file)
