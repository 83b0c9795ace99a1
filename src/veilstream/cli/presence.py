"""``veilstream presence``: in how many steps a person should count, chosen privately once or anew every few blocks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilstream.cli.dry_run import tell_dry_run, tell_facts
from veilstream.cli.groups import command_group
from veilstream.cli.options import AsJson, DryRun, Files, job_option, moments_of, option, source_of, takes_settings_of
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.jobs.model import Job

if TYPE_CHECKING:
    from veilstream.jobs.published import PublishedJob
    from veilstream.jobs.visits import PresenceChoice
    from veilstream.privacy.presence_renewal import Renewal

presence_app = command_group("Choose in how many steps one person counts (--presence of publish), for a small charge.")


@presence_app.command("choose")
def choose(
    files: Files,
    time: Annotated[str, job_option("time")],
    user: Annotated[str, job_option("user")],
    every: Annotated[str, job_option("every")],
    start: Annotated[str, option("--start", description="Start of a public period of trial, included.")],
    end: Annotated[str, option("--end", description="Its end, excluded: a whole number of windows or blocks.")],
    ledger: Annotated[str, job_option("ledger")],
    publish_epsilon: Annotated[
        str, option("--publish-epsilon", description="Budget of a window or block of the stream to come.")
    ],
    window: Annotated[
        str | None, option("--window", description="Window of the stream to come: steps, a duration, or 'user'.")
    ] = None,
    per: Annotated[str | None, option("--per", description="Blocks of it, instead: a duration or steps.")] = None,
    horizon: Annotated[
        int | None, option("--horizon", description="With --window user: steps for which people are followed.")
    ] = None,
    counts_per_user: Annotated[
        int, option("--counts-per-user", description="Rows of one person that count in a step. Default: 1.")
    ] = 1,
    zone: Annotated[str, job_option("zone")] = "UTC",
    epsilon: Annotated[
        str, option("--epsilon", description="Budget of this look, once for each person. Default: 1/10.")
    ] = "1/10",
    most: Annotated[
        int, option("--most", description="Visits that are told apart: 1, 2, … so many or more. Default: 12.")
    ] = 12,
    time_format: Annotated[str | None, job_option("time_format")] = None,
    delimiter: Annotated[str | None, job_option("delimiter")] = None,
    encoding: Annotated[str | None, job_option("encoding")] = None,
    stream: Annotated[
        str, option("--stream", description="Name of the look in the ledger. Default: presence.")
    ] = "presence",
    plot: Annotated[
        Path | None, option("--plot", description="Picture of the error over c: .png, .pdf or .svg.")
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Learn privately how often people come, and choose --presence by it.

    The look costs epsilon for every person, once. It is in the ledger, and running it again shows the same choice for
    nothing. Without a charge, from public facts: veilstream advise --visits.
    """
    from veilstream.data import ReadOptions
    from veilstream.jobs.visits import StreamToCome, choose_presence
    from veilstream.privacy.guarantee import Guarantee
    from veilstream.release.sinks import check_writable

    if plot is not None:
        check_writable(plot, (".png", ".pdf", ".svg"))
    first, last, length = moments_of(start, end, every)
    to_come = StreamToCome.of(
        publish_epsilon, length, window=window, per=per, horizon=horizon, counts_per_user=counts_per_user
    )
    if dry_run:
        return tell_dry_run(Guarantee(epsilon, w=None), as_json, visits_told_apart=most, ledger=ledger, stream=stream)
    chosen = choose_presence(
        source_of(files),
        to_come,
        time=time,
        user=user,
        every=length,
        start=first,
        end=last,
        ledger=ledger,
        zone=zone,
        epsilon=epsilon,
        most=most,
        stream=stream,
        options=ReadOptions(delimiter, encoding, time_format=time_format),
    )
    if plot is not None:
        chosen.plot(plot)
    if as_json:
        _print_choice(chosen, stream, plot)
    else:
        _tell_choice(chosen, per or window)
        if plot is not None:
            typer.echo(f"wrote {plot}")
    return ExitCode.OK


def _print_choice(chosen: PresenceChoice, stream: str, plot: Path | None) -> None:
    curve = chosen.curve
    print_json(
        {
            "stream": stream,
            "spent": str(chosen.spent),
            "released_before": chosen.before,
            "presence": chosen.presence,
            "visits": list(chosen.visits),
            "noise_std": chosen.noise,
            "errors": [curve.error(c) for c in range(1, len(curve.noise) + 1)],
            "error_without": curve.plain,
            "outputs": [] if plot is None else [str(plot)],
        }
    )


def _tell_choice(chosen: PresenceChoice, promised: str | None) -> None:
    from veilstream.jobs.wording import number

    curve = chosen.curve
    before = "released before, nothing was spent" if chosen.before else f"spent: epsilon {number(chosen.spent)}"
    typer.echo(f"how often people come, by a look on the ledger ({before})")
    if chosen.presence is None:
        typer.echo(f"no bound on presence pays: people who count in every step err {curve.plain:.3g} on average")
        return
    error = curve.error(chosen.presence)
    typer.echo(
        f"least expected error of a bin: {error:.3g} at c = {chosen.presence}, "
        f"against {curve.plain:.3g} where people count in every step"
    )
    place = "--per" if chosen.guarantee.per is not None else "--window"
    typer.echo(f"to publish: {place} {promised} --presence {chosen.presence}")


@presence_app.command("renew")
@takes_settings_of(Job, argument="file")
def renew(
    given: Mapping[str, Any],
    blocks: Annotated[int, option("--blocks", description="Blocks that share one c. Default: 4.")] = 4,
    choice_epsilon: Annotated[
        str, option("--choice-epsilon", description="Budget of each choice, for a person and block. Default: 1/10.")
    ] = "1/10",
    most: Annotated[
        int,
        option("--most", description="Visits in a block that are told apart: 1, 2, … so many or more. Default: 12."),
    ] = 12,
    config: Annotated[
        Path | None, option("--config", description="A TOML file with the same names; options override it.")
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Publish in blocks (--per) with a c that is chosen anew every few of them; --presence is the first.

    After so many blocks as --blocks says, a histogram of visits is published from a budget of its own, and the c of the
    next blocks follows from it. Every choice is in the ledger. Run it again with a later --end to go on.
    """
    from veilstream.data import Calendar
    from veilstream.jobs.renewal import publish_renewed
    from veilstream.privacy.presence_renewal import Renewal

    job = Job.load(config, given)
    start, end, user, file, block = _required(job)
    renewal = Renewal(block, blocks, job.presence or 1, choice_epsilon, most)
    calendar = Calendar(start, end, job.every, job.zone)
    if dry_run:
        epochs = calendar.steps // (block * blocks)
        return tell_facts(
            as_json, {"promise": renewal.promise(job.epsilon), "epochs": epochs, "steps": epochs * block * blocks}
        )
    own = {"file", "user", "time", "every", "start", "end", "zone", "epsilon", "ledger", "stream", "per", "window"}
    settings = {
        name: value
        for name, value in job.model_dump(by_alias=True, exclude_unset=True).items()
        if name not in {*own, "presence", "out", "plot"}
    }
    jobs = publish_renewed(
        file,
        renewal,
        calendar,
        user=user,
        time=job.time,
        epsilon=job.epsilon,
        ledger=job.ledger or "",
        stream=job.stream,
        **settings,
    )
    _tell_renewed(jobs, renewal, job, as_json)
    return ExitCode.OK


def _required(job: Job) -> tuple[Any, Any, str, Any, int]:
    """What renewal needs of a job, and the steps of a block."""
    from veilstream.errors import InvalidInputError
    from veilstream.jobs.prepare import prepare, require_ledger
    from veilstream.jobs.window import steps_of_window

    for name in ("start", "end", "user", "file", "per", "presence"):
        if getattr(job, name) is None:
            raise InvalidInputError(
                name=name, limit="missing, renewal needs it", outcome="nothing was read", next_step=f"give --{name}"
            )
    require_ledger(job)
    prepare(job)
    block = steps_of_window(job.per or "", job.every)
    assert job.user is not None
    assert block is not None
    return job.start, job.end, job.user, job.file, block


def _tell_renewed(jobs: list[PublishedJob], renewal: Renewal, job: Job, as_json: bool) -> None:
    from veilstream.cli.publish import tell_dropped
    from veilstream.jobs.renewal import renewed_table
    from veilstream.release.sinks import write_table

    written = None if job.out is None else write_table([renewed_table(jobs)], job.out)
    if job.plot is not None:
        _draw(jobs, job.plot, renewal, job)
    chosen = [done.prepared.guarantee.presence for done in jobs]
    published = sum(done.summary.published for done in jobs)
    for done in jobs:
        if done.summary.published and done.summary.dropped is not None:
            done.summary.dropped.outside_time = 0
            tell_dropped(done.summary.dropped)
    outputs = [path for path in (job.out, job.plot) if path is not None]
    if as_json:
        print_json(
            {
                "stream": job.stream,
                "promise": renewal.promise(job.epsilon),
                "epochs": [done.prepared.job.stream for done in jobs],
                "presence": chosen,
                "published": published,
                "outputs": outputs,
            }
        )
        return
    typer.echo(renewal.promise(job.epsilon))
    typer.echo(f"released {published} steps now; c of the {len(jobs)} epochs: {', '.join(map(str, chosen))}")
    for path in outputs:
        typer.echo(f"wrote {path}" + (f" ({written:,} rows)" if path == job.out else ""))


def _draw(jobs: list[PublishedJob], path: str, renewal: Renewal, job: Job) -> None:
    from veilstream.jobs.renewal import renewed_table
    from veilstream.release.plots import plot_releases

    plot_releases(
        renewed_table(jobs).drop("presence", "as_of", "counted"),
        path,
        title=f"Stream {job.stream}",
        subtitle=renewal.promise(job.epsilon),
        level=job.level,
        measure=jobs[0].prepared.measure,
    )
