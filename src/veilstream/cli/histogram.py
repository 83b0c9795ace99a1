"""``veilstream histogram``: one private histogram of a file, charged to a ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from veilstream.cli.dry_run import tell_dry_run
from veilstream.cli.histogram_rows import ONE_STEP, HistogramRows
from veilstream.cli.options import (
    AsJson,
    Decimal,
    Delimiter,
    DryRun,
    Encoding,
    Files,
    RowPerPerson,
    check_level,
    job_option,
    option,
    settings_of,
    source_of,
)
from veilstream.cli.population import DataFrom, DataTo, HowToDraw, InPopulation, membership_of
from veilstream.cli.publish import tell_dropped
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.data import ReadOptions

if TYPE_CHECKING:
    import polars as pl

    from veilstream.mechanisms.protocols import HistogramMechanism, StreamMechanism
    from veilstream.privacy.guarantee import Guarantee
    from veilstream.privacy.population import Membership
    from veilstream.values.postprocess import Step
    from veilstream.values.release import Release

PICTURES: Final = (".png", ".pdf", ".svg")


def histogram(
    files: Files,
    epsilon: Annotated[str, option("--epsilon", description="Privacy budget of the release, e.g. 1 or 1/2.")],
    domain: Annotated[str, job_option("domain")],
    ledger: Annotated[str, job_option("ledger")],
    by: Annotated[list[str] | None, job_option("by")] = None,
    user: Annotated[str | None, job_option("user")] = None,
    row_per_person: RowPerPerson = False,
    method: Annotated[
        str, option("--method", description="See 'veilstream mechanisms'. Default: geometric.")
    ] = "geometric",
    setting: Annotated[
        list[str] | None, option("--set", description="Parameter of the method, name=value; repeat for several.")
    ] = None,
    post: Annotated[
        list[str] | None,
        option("--post", description="Free post-processing, in order: 'non-negative', 'total', 'whole'; repeatable."),
    ] = None,
    bins_per_user: Annotated[int, option("--bins-per-user", description="Bins one person counts in.")] = 1,
    counts_per_user: Annotated[int, option("--counts-per-user", description="Rows of one person that count.")] = 1,
    unknown: Annotated[
        str, option("--unknown", description="Values outside the domain: 'error' (default) or 'drop'.")
    ] = "error",
    stream: Annotated[
        str, option("--stream", description="Name of the release in the ledger. Default: histogram.")
    ] = "histogram",
    out: Annotated[
        str | None, option("--out", description="Table of the release: .parquet, .csv, .json or .ndjson.")
    ] = None,
    plot: Annotated[str | None, option("--plot", description="Picture of the release: .png, .pdf or .svg.")] = None,
    level: Annotated[float, job_option("level")] = 0.95,
    population: InPopulation = None,
    draw: HowToDraw = "shared",
    data_from: DataFrom = None,
    data_to: DataTo = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Publish one histogram of a file, once and for all; run it again to get the same release for nothing.

    A domain of more than 10⁷ cells is not listed: psd and fp publish boxes of it instead.
    """
    from veilstream.data.domain import MAX_BINS
    from veilstream.errors import InvalidInputError
    from veilstream.jobs.outputs import refuse_overwriting
    from veilstream.jobs.prepare import chosen_axes
    from veilstream.privacy.guarantee import Guarantee
    from veilstream.release.measure import Measure
    from veilstream.release.publisher import Publisher
    from veilstream.release.sinks import WRITERS, check_names, check_writable, release_tables, write_table
    from veilstream.storage.ledger import Ledger
    from veilstream.storage.requiring import require_population
    from veilstream.synthesis.domain import TableDomain, listed_domain, table_domain

    for path, suffixes in ((out, tuple(WRITERS)), (plot, PICTURES)):
        if path is not None:
            check_writable(path, suffixes)
    refuse_overwriting({"out": out, "plot": plot}, {"file": files, "domain": domain, "ledger": ledger})
    known = chosen_axes(domain, tuple(by) if by else None, TableDomain)
    check_level(level)
    guarantee = Guarantee(epsilon, w=None)
    histogram_method = _histogram(method, settings_of(setting or []))
    steps = _steps(post or [])
    member = membership_of(population, draw, data_from, data_to)
    read = ReadOptions(delimiter, encoding, decimal)
    rows = HistogramRows(source_of(files), known, user, row_per_person, bins_per_user, counts_per_user, unknown, read)
    if dry_run:
        dense = known.bins <= MAX_BINS
        return tell_dry_run(
            guarantee,
            as_json,
            bins=known.bins,
            method=method,
            mechanism=_once(histogram_method, steps) if dense else None,
            per_person=counts_per_user,
        )
    require_population(ledger, population)
    if known.bins > MAX_BINS:
        if plot is not None:
            raise InvalidInputError(
                name="plot", value=plot, limit="a domain too large to list has no picture", outcome="nothing was read"
            )
        done = _release_boxes(rows, guarantee, histogram_method, steps, ledger, stream, out, level, member)
        _tell(done, stream, (out, plot), as_json)
        return ExitCode.OK
    listed, measure = listed_domain(table_domain(known)), Measure.of_events(counts_per_user, None).label
    check_names(listed)
    mechanism = _once(histogram_method, steps)
    # Every row is read and checked before the ledger is touched.
    snapshot, dropped = rows.snapshot()
    with Ledger.open(ledger) as book:
        publisher = Publisher(
            listed, guarantee, mechanism, book, stream=stream, max_contribution=counts_per_user, population=member
        )
        before = book.release_at(stream, 0) is not None
        release = publisher.feed(snapshot)
        written = None
        named = _ends(histogram_method, steps, release)
        if out is not None:
            tables = release_tables(book, stream, listed, ONE_STEP, level=level, measure=measure)
            # One release has no steps, and nothing in it is repeated.
            written = write_table((table.drop("step", "time", "fresh", "as_of").rename(named) for table in tables), out)
        if plot is not None:
            drawn = (table.rename(named) for table in release_tables(book, stream, listed, ONE_STEP, level=level))
            _draw(drawn, plot, guarantee, counts_per_user, level)
    tell_dropped(dropped)
    _tell(_Done(release, "bin", listed.bins, before, written, measure), stream, (out, plot), as_json)
    return ExitCode.OK


@dataclass(frozen=True, slots=True)
class _Done:
    """What was released, or had been before."""

    release: Release
    kind: str
    number: int
    before: bool
    written: int | None
    measure: str


def _ends(method: HistogramMechanism, steps: Sequence[Step], release: Release) -> dict[str, str]:
    """New names for the ends of intervals, where these hold the value before noise and not the count."""
    from veilstream.mechanisms.traits import Traits
    from veilstream.release.sinks import NOISE_ENDS
    from veilstream.values.values import NoiseLaw

    holding = Traits.of(method).unbiased or release.law is NoiseLaw.SMOOTHED
    return {} if holding and not steps else NOISE_ENDS


def _draw(tables: Iterator[pl.DataFrame], path: str, guarantee: Guarantee, counts_per_user: int, level: float) -> None:
    import polars as pl

    from veilstream.release.measure import Measure
    from veilstream.release.plots import plot_releases
    from veilstream.release.sinks import NOISE_ENDS, OWN_COLUMNS

    measure, table = Measure.of_events(counts_per_user, None), pl.concat(tables)
    by = [name for name in table.columns if name not in (*OWN_COLUMNS, *NOISE_ENDS.values())]
    title = f"{measure.title}, by {' and '.join(by)}" if by else measure.title
    words = f"differentially private: {guarantee}"
    plot_releases(table, path, title=title, subtitle=words, level=level, measure=measure)


def _release_boxes(
    rows: HistogramRows,
    guarantee: Guarantee,
    method: HistogramMechanism,
    steps: tuple[Step, ...],
    ledger: str,
    stream: str,
    out: str | None,
    level: float,
    member: Membership | None,
) -> _Done:
    from veilstream.errors import InvalidInputError
    from veilstream.release.measure import Measure
    from veilstream.release.records import RecordMechanism, release_records
    from veilstream.release.sinks import write_table
    from veilstream.storage.ledger import Ledger
    from veilstream.values.boxes import require_dense

    if not isinstance(method, RecordMechanism):
        require_dense(rows.domain.shape)
        raise AssertionError("a domain of this size is refused above")
    if rows.bins_per_user != 1:
        raise InvalidInputError(
            f"bins-per-user {rows.bins_per_user}: on a domain too large to list a person's rows, at most "
            "--counts-per-user of them, may lie in different cells; leave it out",
            outcome="nothing was read",
        )
    records = rows.records()
    with Ledger.open(ledger) as book:
        known = stream in [spec.name for spec in book.streams()]
        before = known and book.release_at(stream, 0) is not None
        done = release_records(
            records,
            guarantee.epsilon,
            method,
            book,
            name=stream,
            domain=rows.domain,
            steps=steps,
            population=member,
        )
        written = None if out is None else write_table([done.table(rows.domain, level)], out)
    measure = Measure.of_events(rows.counts_per_user, None).label
    return _Done(done.release, "box", done.boxes.size, before, written, measure)


def _histogram(method: str, settings: dict[str, str]) -> HistogramMechanism:
    from veilstream.mechanisms.named import build_mechanism
    from veilstream.mechanisms.streams import Sample

    chosen = build_mechanism("sample", method, {f"histogram.{name}": value for name, value in settings.items()})
    assert isinstance(chosen, Sample)
    return chosen.histogram


def _steps(post: list[str]) -> tuple[Step, ...]:
    from veilstream.errors import InvalidInputError
    from veilstream.values.postprocess import ConsistentTotal, NonNegative, Whole

    steps: dict[str, Step] = {"non-negative": NonNegative(), "total": ConsistentTotal(), "whole": Whole()}
    for name in post:
        if name not in steps:
            raise InvalidInputError(
                name="post", value=name, limit=f"unknown, the steps are {', '.join(steps)}", outcome="nothing was read"
            )
    return tuple(steps[name] for name in post)


def _once(method: HistogramMechanism, steps: tuple[Step, ...]) -> StreamMechanism[Any]:
    from veilstream.mechanisms.postprocessed import PostProcessed
    from veilstream.mechanisms.streams import Sample

    return Sample(PostProcessed(method, steps) if steps else method)


def _tell(done: _Done, stream: str, outputs: tuple[str | None, str | None], as_json: bool) -> None:
    import numpy as np

    from veilstream.jobs.wording import number, plural
    from veilstream.values.values import NoiseLaw

    noise = np.asarray(done.release.std, dtype=np.float64)
    # Corners of boxes have no noise.
    std = float(noise[noise > 0].mean()) if (noise > 0).any() else 0.0
    if as_json:
        print_json(
            {
                "stream": stream,
                "bins" if done.kind == "bin" else "boxes": done.number,
                "released_before": done.before,
                "spent": str(done.release.spent),
                "noise_std": std,
                "measure": done.measure,
                "outputs": [path for path in outputs if path is not None],
            }
        )
        return
    if done.before:
        spent = number(done.release.spent)
        typer.echo(f"nothing new: '{stream}' was released before, for epsilon {spent}; nothing was spent")
    else:
        typer.echo(f"released '{stream}': {plural(done.number, done.kind)} for epsilon {number(done.release.spent)}")
    typer.echo(f"each number counts {done.measure}")
    if done.release.law is NoiseLaw.SMOOTHED:
        low, high = done.release.interval(0.95)
        half = number(float((high - low).mean()) / 2)
        typer.echo(f"a 95% interval reaches {half} to both sides on average, for noise and smoothing")
    else:
        sentence = f"noise: standard deviation {number(std)} per {done.kind} on average"
        typer.echo(f"{sentence}; what a method smooths away is not in it")
    out, plot = outputs
    if out is not None and done.written is not None:
        typer.echo(f"wrote {out} ({plural(done.written, 'row')})")
    if plot is not None:
        typer.echo(f"wrote {plot}")
