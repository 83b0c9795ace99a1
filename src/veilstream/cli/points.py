"""``veilstream points``: sorted points, a median or range counts of points that move little, charged to a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from veilstream.cli.dry_run import tell_facts
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
    require_people,
    source_of,
)
from veilstream.cli.population import DataFrom, DataTo, HowToDraw, InPopulation, membership_of
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.data import ReadOptions
from veilstream.errors import InvalidInputError

if TYPE_CHECKING:
    import polars as pl

    from veilstream.metric import PointMechanism
    from veilstream.metric.release import PointRelease
    from veilstream.values.release import Release

TITLES = {
    "sorted": "Private points by {at}",
    "median": "Private median of {at}",
    "smooth-median": "Private median of {at}",
    "grid": "Private counts of points",
}
KINDS = tuple(TITLES)


def points(
    files: Files,
    kind: Annotated[str, option("--release", description=f"What to publish: {', '.join(KINDS)}.")],
    at: Annotated[list[str], option("--at", description="Column of a coordinate; repeat for a plane or a room.")],
    low: Annotated[list[str], option("--low", description="Public lower end of each coordinate, in their order.")],
    high: Annotated[list[str], option("--high", description="Public upper end of each coordinate, in their order.")],
    distance: Annotated[str, option("--distance", description="Moves up to this length are protected by epsilon.")],
    epsilon: Annotated[str, option("--epsilon", description="Privacy budget of the release, e.g. 1 or 1/2.")],
    ledger: Annotated[str, job_option("ledger")],
    metric: Annotated[
        str, option("--metric", description="'euclidean' (default), 'manhattan' or 'maximum'.")
    ] = "euclidean",
    user: Annotated[
        str | None, option("--user", description="Column of the person's id; the first row of each person counts.")
    ] = None,
    row_per_person: RowPerPerson = False,
    clip: Annotated[
        bool, option("--clip", description="Bring points outside to the boundary instead of refusing.")
    ] = False,
    quantile: Annotated[
        str | None, option("--quantile", description="Of the medians, e.g. 9/10. Default: 1/2.")
    ] = None,
    cells: Annotated[
        int | None,
        option("--cells", description="Of the grid along its longest side. Default: from distance and epsilon."),
    ] = None,
    noise: Annotated[
        str | None,
        option(
            "--noise",
            description="Of the grid: 'flow' (between neighbouring nodes; for short distances), 'cells' (a plain "
            "histogram) or 'nodes' (points shared out among nodes). Default: flow or cells, from public numbers.",
        ),
    ] = None,
    stream: Annotated[
        str, option("--stream", description="Name of the release in the ledger. Default: points.")
    ] = "points",
    out: Annotated[
        str | None, option("--out", description="Table of the release: .parquet, .csv, .json or .ndjson.")
    ] = None,
    plot: Annotated[str | None, option("--plot", description="Picture of the release: .png, .pdf or .svg.")] = None,
    level: Annotated[float, job_option("level")] = 0.95,
    people: Annotated[
        int | None,
        option("--people", description="Public number of people: so many points, whoever is missing. For populations."),
    ] = None,
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
    """Publish points of a file once; how many there are is public, where each of them is within a distance is not.

    With --people a number stated beforehand is public instead, and one person is protected, there or not, at the price
    of all moves that cross the space: so it can draw on a --population.
    """
    from veilstream.cli.points_table import grid_cells, points_table, with_intervals
    from veilstream.metric import MetricGuarantee, Space, release_points
    from veilstream.metric.release import PointRelease, as_recorded, require_people_for
    from veilstream.release.sinks import write_table
    from veilstream.storage.ledger import Ledger
    from veilstream.storage.requiring import require_population

    require_people(user, row_per_person)
    _check_outputs(files, ledger, out, plot, at)
    guarantee = MetricGuarantee(epsilon, distance, Space(tuple(low), tuple(high), metric))
    mechanism = _mechanism(kind, quantile, cells, noise)
    check_level(level)
    member = membership_of(population, draw, data_from, data_to)
    require_people_for(population, people)
    once = PointRelease(mechanism, guarantee, people)
    if dry_run:
        price = {} if people is None else {"people": people, "epsilon_of_one_person": str(once.guarantee.epsilon)}
        facts = {"epsilon": str(guarantee.epsilon), **price, "promise": once.promise(), "release": kind}
        return tell_facts(as_json, facts)
    require_population(ledger, population)
    # Every row is read and checked before the ledger is touched.
    places = _places(source_of(files), at, user, ReadOptions(delimiter, encoding, decimal), empty=people is not None)
    count = len(places) if people is None else people
    guarantee.space.encode(places, clip=clip)
    with Ledger.open(ledger) as book:
        known = [spec for spec in book.streams() if spec.name == stream]
        before = bool(known) and book.release_at(stream, 0) is not None
        if known:
            once = as_recorded(known[0].mechanism, once)
            mechanism = once.mechanism
        release = release_points(
            places, mechanism, guarantee, book, stream, clip=clip, people=people, population=member
        )
    table = points_table(kind, release, guarantee, at, grid_cells(mechanism, guarantee, count))
    table = with_intervals(table, mechanism, release, guarantee, count, level)
    done = _Done(release, once, stream, before, table, level)
    if out is not None:
        write_table([table], out)
    if plot is not None:
        _draw(done, plot, at, kind)
    _tell(done, [path for path in (out, plot) if path is not None], as_json)
    return ExitCode.OK


@dataclass(frozen=True, slots=True)
class _Done:
    """What was released, or had been before."""

    release: Release
    once: PointRelease
    stream: str
    before: bool
    table: pl.DataFrame
    level: float

    @property
    def is_median(self) -> bool:
        return len(self.table) == 1

    @property
    def ranks(self) -> dict[str, Any] | None:
        """The interval of a median, as ranks among the points."""
        ends = ("low", "high", "covers")
        return self.table.select(ends).row(0, named=True) if self.is_median and "covers" in self.table.columns else None

    @property
    def interval_note(self) -> str | None:
        """Why there is no interval, if there is none."""
        from veilstream.cli.points_table import why_no_interval

        return why_no_interval(self.table, self.release)


def _check_outputs(files: list[str], ledger: str, out: str | None, plot: str | None, at: list[str]) -> None:
    from veilstream.jobs.outputs import refuse_overwriting
    from veilstream.release.plots.points import PICTURES, require_drawable
    from veilstream.release.sinks import WRITERS, check_writable

    for path, suffixes in ((out, tuple(WRITERS)), (plot, PICTURES)):
        if path is not None:
            check_writable(path, suffixes)
    if plot is not None:
        require_drawable(at)
    refuse_overwriting({"out": out, "plot": plot}, {"file": files, "ledger": ledger})


def _draw(done: _Done, path: str, at: list[str], kind: str) -> None:
    from veilstream.release.plots.points import plot_points

    space, note = done.once.metric.space, done.interval_note or ""
    if done.ranks is not None:
        note = _between(done)
    plot_points(
        done.table,
        path,
        coordinates=at,
        ends=(float(space.low[0]), float(space.high[0])),
        title=TITLES[kind].format(at=at[0]),
        subtitle=str(done.once),
        level=done.level,
        note=note,
    )


def _between(done: _Done) -> str:
    """What the interval of a median says."""
    assert done.ranks is not None
    low, high = done.ranks["low"], done.ranks["high"]
    return f"with probability {done.level:.0%} it lies between the points of rank {low:,} and {high:,}"


def _mechanism(kind: str, quantile: str | None, cells: int | None, noise: str | None) -> PointMechanism:
    from veilstream.metric import ChosenMedian, HatGrid, SmoothMedian, SortedPoints

    if quantile is not None and kind not in ("median", "smooth-median"):
        raise InvalidInputError(
            name="quantile", value=quantile, limit=f"release '{kind}' has none", outcome="nothing was read"
        )
    for name, given in (("cells", cells), ("noise", noise)):
        if given is not None and kind != "grid":
            raise InvalidInputError(
                name=name,
                value=given,
                limit=f"release '{kind}' has none" if name == "cells" else "only a grid has several kinds",
                outcome="nothing was read",
            )
    match kind:
        case "sorted":
            return SortedPoints()
        case "median":
            return ChosenMedian(quantile or "1/2")
        case "smooth-median":
            return SmoothMedian(quantile or "1/2")
        case "grid":
            return HatGrid(cells, cast("Any", noise))
        case _:
            raise InvalidInputError(
                name="release", value=kind, limit=f"one of {', '.join(KINDS)}", outcome="nothing was read"
            )


def _places(file: str | tuple[str, ...], at: list[str], user: str | None, options: ReadOptions, *, empty: bool) -> Any:
    import numpy as np
    import polars as pl

    from veilstream.data.bounding.people import canonical_ids
    from veilstream.data.columns import as_numbers
    from veilstream.data.readers import open_batches

    batches = list(open_batches(file, at if user is None else [user, *at], options, user=user))
    if empty and not batches:
        return np.zeros((0, len(at)))
    if not empty and not sum(len(batch) for batch in batches):
        raise InvalidInputError(
            name="file", limit="no rows, at least 1 point is needed", outcome="nothing was released"
        )
    table = pl.concat(batches)
    if user is not None:
        table = table.with_columns(canonical_ids(table[user]))
        if table[user].null_count():
            raise InvalidInputError(f"column '{user}': a row has no person, each needs one")
        table = table.unique(user, keep="first", maintain_order=True)
    return np.stack([as_numbers(table[name]) for name in at], axis=1)


def _tell(done: _Done, outputs: list[str], as_json: bool) -> None:
    import numpy as np

    from veilstream.jobs.wording import number

    release, table = done.release, done.table
    std, value = float(np.mean(release.std)), float(release.values[0])
    if as_json:
        print_json(
            {
                "stream": done.stream,
                "released_before": done.before,
                "spent": str(release.spent),
                "guarantee": done.once.promise(),
                "noise_std": None if np.isnan(std) else std,
                "rows": len(table),
                "value": value if done.is_median else None,
                "interval": done.ranks,
                "interval_note": done.interval_note,
                "outputs": outputs,
            }
        )
        return
    cost = f"epsilon {number(release.spent)}"
    if done.before:
        typer.echo(f"nothing new: '{done.stream}' was released before, for {cost}; nothing was spent")
    else:
        typer.echo(f"released '{done.stream}': {len(table):,} number(s) for {cost}")
    typer.echo(done.once.promise())
    if done.once.people is not None:
        typer.echo(
            f"whoever is missing of the {done.once.people} people is at the lower or the upper corner of the space"
        )
    if done.is_median:
        typer.echo(f"value: {value:.6g}")
    if done.ranks is not None:
        typer.echo(_between(done))
    if done.interval_note is not None:
        typer.echo(done.interval_note)
    if not np.isnan(std):
        ordered = ", before they are put in order" if "rank" in table.columns else ""
        typer.echo(f"noise: standard deviation {number(std)} per number on average{ordered}")
    for path in outputs:
        typer.echo(f"wrote {path}")
