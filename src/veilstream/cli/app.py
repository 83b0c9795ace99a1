"""The commands. Each imports what it needs when it runs, so that help stays quick."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilstream.cli.reporting import ExitCode, ReportingGroup, print_json

if TYPE_CHECKING:
    from veilstream.cli.publishing import Summary
    from veilstream.data import Dropped

app = typer.Typer(
    cls=ReportingGroup,
    help="Keep publishing statistics about people from a changing dataset, under differential privacy.",
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; errors too.")]


def _option(*names: str, words: str) -> Any:
    return typer.Option(*names, help=words, show_default=False)


@app.command()
def publish(
    file: Annotated[
        str | None,
        typer.Argument(help="CSV, CSV.gz or Parquet: a file, a directory or a quoted glob.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None, _option("--config", words="A TOML file with the same names; options override it.")
    ] = None,
    time: Annotated[str | None, _option("--time", words="Column of the time of a row.")] = None,
    user: Annotated[str | None, _option("--user", words="Column of the person's id.")] = None,
    by: Annotated[
        list[str] | None, _option("--by", words="Attribute to count by; repeat for several. Default: the domain's.")
    ] = None,
    value: Annotated[str | None, _option("--value", words="Column of counts that are aggregated already.")] = None,
    per_person: Annotated[
        int | None, _option("--per-person", words="With --value: most that one person adds to the counts of a step.")
    ] = None,
    domain: Annotated[str | None, _option("--domain", words="JSON file of the public bins of each attribute.")] = None,
    every: Annotated[
        str | None, _option("--every", words="Length of a step: 15m, 1h, 1d, 1w, 1mo, or a number.")
    ] = None,
    start: Annotated[str | None, _option("--start", words="Public start of the time range, included.")] = None,
    end: Annotated[str | None, _option("--end", words="Public end of the time range, excluded.")] = None,
    zone: Annotated[
        str | None, _option("--zone", words="Zone of times without one, and of days. Default: UTC.")
    ] = None,
    public_from_data: Annotated[
        bool, _option("--public-from-data", words="Declare the values and the time range found in FILE public.")
    ] = False,
    epsilon: Annotated[str | None, _option("--epsilon", words="Privacy budget of a window, e.g. 1 or 1/2.")] = None,
    window: Annotated[
        str | None, _option("--window", words="Steps that share the budget: 1 (event level), a number, or 'user'.")
    ] = None,
    delta: Annotated[
        str | None, _option("--delta", words="Probability of failure, for Gaussian noise. Default: 0.")
    ] = None,
    mechanism: Annotated[
        str | None, _option("--mechanism", words="See 'veilstream mechanisms'. Default: uniform.")
    ] = None,
    histogram: Annotated[
        str | None, _option("--histogram", words="How one release is made. Default: geometric.")
    ] = None,
    setting: Annotated[
        list[str] | None, _option("--set", words="Parameter of the mechanism, name=value; repeat for several.")
    ] = None,
    bins_per_user: Annotated[
        int | None, _option("--bins-per-user", words="Bins one person counts in per step.")
    ] = None,
    counts_per_user: Annotated[int | None, _option("--counts-per-user", words="Rows of one person per step.")] = None,
    unknown: Annotated[
        str | None, _option("--unknown", words="Values outside the domain or range: 'error' (default) or 'drop'.")
    ] = None,
    missing_time: Annotated[
        str | None, _option("--missing-time", words="Rows without a time: 'error' (default) or 'drop'.")
    ] = None,
    exhausted: Annotated[
        str | None,
        _option(
            "--exhausted", words="A step that failed tries left no budget for: 'error' (default) or 'repeat' the last."
        ),
    ] = None,
    ledger: Annotated[str | None, _option("--ledger", words="The durable record: a file or a PostgreSQL URL.")] = None,
    stream: Annotated[
        str | None, _option("--stream", words="Name of the stream in the ledger. Default: default.")
    ] = None,
    key_file: Annotated[
        str | None, _option("--key-file", words="The stream's secret key. Default: LEDGER.STREAM.key.")
    ] = None,
    out: Annotated[str | None, _option("--out", words="Table of releases: .parquet, .csv, .json or .ndjson.")] = None,
    plot: Annotated[str | None, _option("--plot", words="Picture of releases: .png, .pdf or .svg.")] = None,
    level: Annotated[float | None, _option("--level", words="Level of the error intervals. Default: 0.95.")] = None,
    dry_run: Annotated[
        bool, _option("--dry-run", words="Show cost and expected error; read no private data, write nothing.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Publish a file of events (or counts) step by step; run it again to go on or to see that all is done."""
    from veilstream.cli.job import Job
    from veilstream.cli.plan import make_plan

    given = {
        "file": file,
        "time": time,
        "user": user,
        "by": tuple(by) if by else None,
        "value": value,
        "per_person": per_person,
        "domain": domain,
        "every": every,
        "start": start,
        "end": end,
        "zone": zone,
        "public_from_data": public_from_data or None,
        "epsilon": epsilon,
        "window": _window(window),
        "delta": delta,
        "mechanism": mechanism,
        "histogram": histogram,
        "bins_per_user": bins_per_user,
        "counts_per_user": counts_per_user,
        "unknown": unknown,
        "missing_time": missing_time,
        "exhausted": exhausted,
        "ledger": ledger,
        "stream": stream,
        "key_file": key_file,
        "out": out,
        "plot": plot,
        "level": level,
        "set": settings_of(setting or []),
    }
    plan = make_plan(Job.load(config, given))
    if dry_run:
        return _preview(plan, as_json)
    return _publish(plan, as_json)


def _window(text: str | None) -> int | str | None:
    from veilstream.errors import InvalidBudgetError

    if text is None or text == "user":
        return text
    try:
        return int(text)
    except ValueError:
        raise InvalidBudgetError(
            name="window", value=text, limit="1 for event level, a whole number of steps, or 'user'"
        ) from None


def settings_of(pairs: list[str]) -> dict[str, str]:
    """``name=value`` pairs as a mapping."""
    from veilstream.errors import InvalidInputError

    settings: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidInputError(name="set", value=pair, limit="write it as name=value, e.g. interval=6")
        settings[name.strip()] = value.strip()
    return settings


def _preview(plan: Any, as_json: bool) -> int:
    from rich.console import Console
    from rich.table import Table

    from veilstream.cli.preview import describe_preview, preview

    seen = preview(plan)
    if as_json:
        print_json(seen.as_json())
        return ExitCode.OK
    table = Table(title="dry run: nothing was read, spent or written", show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in describe_preview(plan, seen):
        table.add_row(name, value)
    Console().print(table)
    return ExitCode.OK


def _publish(plan: Any, as_json: bool) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from veilstream.cli.publishing import run

    operator = Console(stderr=True, highlight=False)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=operator, disable=as_json or not operator.is_terminal) as progress:
        task = progress.add_task("reading", total=None)

        def advance(done: int, steps: int) -> None:
            progress.update(task, description="publishing", completed=done, total=steps)

        summary = run(plan, operator.print, advance)
    if summary.dropped is not None:
        _tell_dropped(summary.dropped)
    if as_json:
        print_json(summary.as_json())
    else:
        _tell(plan, summary)
    if summary.interrupted:
        typer.echo(
            f"interrupted after step {summary.before + summary.published - 1} of {summary.steps - 1}: run the same "
            "command again to go on; what was released stays released and is not paid for again",
            err=True,
        )
        return ExitCode.INTERRUPTED
    return ExitCode.OK


def _tell(plan: Any, summary: Summary) -> None:
    from veilstream.cli.words import number

    shape = f"stream '{summary.stream}', {summary.bins:,} bin(s), {plan.guarantee}"
    if summary.published == 0:
        typer.echo(f"nothing new: all {summary.steps} steps were released before; nothing was spent ({shape})")
    else:
        resumed = f", going on after {summary.before} released before" if summary.before else ""
        typer.echo(f"released {summary.published} of {summary.steps} steps{resumed} ({shape})")
    if summary.noise_std is not None and summary.left is not None:
        typer.echo(
            f"noise: standard deviation {number(summary.noise_std)} per bin; left in the current window: epsilon "
            f"{number(summary.left)}"
        )
    for path, rows in summary.outputs.items():
        typer.echo(f"wrote {path}" + ("" if rows is None else f" ({rows:,} rows)"))


def _tell_dropped(dropped: Dropped) -> None:
    counts = {
        "without a person": dropped.no_user,
        "with a value outside the domain": dropped.unknown,
        "outside the time range": dropped.outside_time,
        "without a time": dropped.missing_time,
    }
    left_out = ", ".join(f"{count} {why}" for why, count in counts.items() if count)
    if left_out:
        typer.echo(f"rows left out (exact, for the operator alone, do not publish): {left_out}", err=True)


@app.command()
def mechanisms(as_json: Json = False) -> None:
    """List stream mechanisms and histograms with their parameters."""
    from veilstream.cli.catalogue import catalogue, print_catalogue

    if as_json:
        print_json(catalogue())
    else:
        print_catalogue()


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Directory for the results.")] = Path("demo-output"),
) -> None:
    """Publish three seasons of CDC influenza counts privately: a table, pictures and a ledger."""
    from veilstream.cli.demo import run_demo

    run_demo(out)


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(f"veilstream {installed('veilstream')}")


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
