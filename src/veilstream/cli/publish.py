"""``veilstream publish``: a file of events or counts, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilstream.cli.options import AsJson, option, takes_settings_of
from veilstream.cli.progress import progress_bar
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.jobs.model import Job

if TYPE_CHECKING:
    from veilstream.data import Dropped
    from veilstream.jobs.prepare import PreparedJob
    from veilstream.jobs.summary import Summary


@takes_settings_of(Job, argument="file")
def publish(
    given: Mapping[str, Any],
    config: Annotated[
        Path | None, option("--config", description="A TOML file with the same names; options override it.")
    ] = None,
    dry_run: Annotated[
        bool, option("--dry-run", description="Show cost and expected error; read no private data, write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Publish a file of events (or counts) step by step; run it again to go on or to see that all is done."""
    return publish_job(Job.load(config, given), dry_run, as_json)


def publish_job(job: Job, dry_run: bool, as_json: bool) -> int:
    """Prepare the job, then show what it would do or do it."""
    from veilstream.jobs.prepare import prepare

    prepared = prepare(job)
    return _preview(prepared, as_json) if dry_run else _publish(prepared, as_json)


def _preview(prepared: PreparedJob, as_json: bool) -> int:
    from rich.console import Console
    from rich.table import Table

    from veilstream.jobs.preview import describe_preview, preview

    seen = preview(prepared)
    if as_json:
        print_json(seen.as_json())
        return ExitCode.OK
    table = Table(title="dry run: nothing was read, spent or written", show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in describe_preview(prepared, seen):
        table.add_row(name, value)
    Console().print(table)
    return ExitCode.OK


def _publish(prepared: PreparedJob, as_json: bool) -> int:
    from veilstream.jobs.run import run

    with progress_bar("publishing", as_json) as advance:
        summary = run(prepared, _tell_operator, advance)
    if summary.dropped is not None:
        tell_dropped(summary.dropped)
    if as_json:
        print_json(summary.as_json())
    else:
        _tell(prepared, summary)
    if summary.interrupted:
        typer.echo(
            f"interrupted after step {summary.before + summary.published - 1} of {summary.steps - 1}: run the same "
            "command again to go on; what was released stays released and is not paid for again",
            err=True,
        )
        return ExitCode.INTERRUPTED
    return ExitCode.OK


def _tell(prepared: PreparedJob, summary: Summary) -> None:
    from veilstream.jobs.wording import number, plural

    if summary.published == 0:
        typer.echo(f"nothing new: all {summary.steps:,} steps were released before; nothing was spent")
    else:
        resumed = f", after {summary.before:,} released before" if summary.before else ""
        kinds = f"{summary.fresh:,} fresh, {summary.published - summary.fresh:,} repeated"
        typer.echo(f"released {summary.published:,} of {summary.steps:,} steps ({kinds}){resumed}")
    typer.echo(f"stream '{summary.stream}': {plural(summary.bins, 'bin')}, {prepared.promised}")
    typer.echo(f"each number {'counts' if prepared.measures is None else 'is'} {summary.measure}")
    if summary.fresh < summary.published:
        typer.echo("a repeated number and its interval are those of its last fresh step (column 'as_of')")
    if summary.noise_std is not None and summary.left is not None:
        typer.echo(f"{_width(prepared, summary)}left in the current window: epsilon {number(summary.left)}")
    for path, rows in summary.outputs.items():
        typer.echo(f"wrote {path}" + ("" if rows is None else f" ({plural(rows, 'row')})"))


def _width(prepared: PreparedJob, summary: Summary) -> str:
    """How exact the last release is; measured columns have intervals of their own in the table."""
    from veilstream.jobs.wording import number
    from veilstream.values.values import NoiseLaw

    if prepared.measures is not None or summary.noise_std is None:
        return ""
    what = "expected error" if summary.covers == NoiseLaw.MODEL.covers else "noise"
    return f"{what}: standard deviation {number(summary.noise_std)} per bin; "


def tell_dropped(dropped: Dropped) -> None:
    """What was left out of the counts, for the operator alone."""
    counts = {
        "without a person": dropped.no_user,
        "with a value outside the domain": dropped.unknown,
        "outside the time range": dropped.outside_time,
        "without the fields of the header": dropped.unreadable,
        "without a time": dropped.missing_time,
        "of people who counted in enough steps": dropped.presence,
        "without a count or value": dropped.missing_value,
    }
    left_out = ", ".join(f"{count:,} {why}" for why, count in counts.items() if count)
    if left_out:
        typer.echo(f"rows left out (exact, for the operator alone, do not publish): {left_out}", err=True)
    if dropped.bounded_share:
        typer.echo(
            f"limits per person left out {dropped.bounded_share:.1%} of the rows (exact, for the operator alone, do "
            "not publish); 'veilstream bound' helps to choose --counts-per-user and --bins-per-user",
            err=True,
        )


def _tell_operator(line: str) -> None:
    typer.echo(line, err=True)
