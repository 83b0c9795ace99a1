"""``veilstream points``: sorted points, a median or range counts of points that move little, charged to a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilstream.cli.dry_run import tell_facts
from veilstream.cli.options import AsJson, Decimal, Delimiter, DryRun, Encoding, job_argument, job_option, option
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.data import ReadOptions
from veilstream.errors import InvalidInputError

if TYPE_CHECKING:
    import polars as pl

    from veilstream.metric import MetricGuarantee, PointMechanism
    from veilstream.values.release import Release

KINDS = ("sorted", "median", "smooth-median", "grid")


def points(
    file: Annotated[str, job_argument("file")],
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
    row_per_person: Annotated[
        bool, option("--row-per-person", description="Declare that every row is another person; instead of --user.")
    ] = False,
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
    stream: Annotated[
        str, option("--stream", description="Name of the release in the ledger. Default: points.")
    ] = "points",
    out: Annotated[
        str | None, option("--out", description="Table of the release: .parquet, .csv, .json or .ndjson.")
    ] = None,
    level: Annotated[float, job_option("level")] = 0.95,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Publish points of a file once; how many there are is public, where each of them is within a distance is not."""
    from veilstream.jobs.outputs import refuse_overwriting
    from veilstream.metric import MetricGuarantee, Space, release_points
    from veilstream.release.sinks import WRITERS, check_writable, write_table
    from veilstream.storage.ledger import Ledger

    if out is not None:
        check_writable(out, tuple(WRITERS))
    refuse_overwriting({"out": out}, {"file": file, "ledger": ledger})
    guarantee = MetricGuarantee(epsilon, distance, Space(tuple(low), tuple(high), metric))
    mechanism = _mechanism(kind, quantile, cells)
    if not 0 < level < 1:
        raise InvalidInputError(name="level", value=level, limit="between 0 and 1", outcome="nothing was read")
    if dry_run:
        return tell_facts(as_json, {"epsilon": str(guarantee.epsilon), "promise": guarantee.promise(), "release": kind})
    # Every row is read and checked before the ledger is touched.
    places = _places(file, at, user, row_per_person, ReadOptions(delimiter, encoding, decimal))
    guarantee.space.encode(places, clip=clip)
    with Ledger.open(ledger) as book:
        before = any(spec.name == stream for spec in book.streams()) and book.release_at(stream, 0) is not None
        release = release_points(places, mechanism, guarantee, book, stream, clip=clip)
    table = _table(kind, release, guarantee, at, _cells(mechanism, guarantee, len(places)))
    table = _with_intervals(table, mechanism, release, guarantee, len(places), level)
    written = None if out is None else write_table([table], out)
    _tell(release, guarantee, stream, before, written, out, table, as_json)
    return ExitCode.OK


def _mechanism(kind: str, quantile: str | None, cells: int | None) -> PointMechanism:
    from veilstream.metric import ChosenMedian, HatGrid, SmoothMedian, SortedPoints

    if quantile is not None and kind not in ("median", "smooth-median"):
        raise InvalidInputError(
            name="quantile", value=quantile, limit=f"release '{kind}' has none", outcome="nothing was read"
        )
    if cells is not None and kind != "grid":
        raise InvalidInputError(
            name="cells", value=cells, limit=f"release '{kind}' has none", outcome="nothing was read"
        )
    match kind:
        case "sorted":
            return SortedPoints()
        case "median":
            return ChosenMedian(quantile or "1/2")
        case "smooth-median":
            return SmoothMedian(quantile or "1/2")
        case "grid":
            return HatGrid(cells)
        case _:
            raise InvalidInputError(
                name="release", value=kind, limit=f"one of {', '.join(KINDS)}", outcome="nothing was read"
            )


def _places(file: str, at: list[str], user: str | None, row_per_person: bool, options: ReadOptions) -> Any:
    import numpy as np
    import polars as pl

    from veilstream.data.axes import as_numbers
    from veilstream.data.bounding.people import canonical_ids
    from veilstream.data.readers import open_batches

    if (user is None) != row_per_person:
        raise InvalidInputError(
            "user: name the column of people's ids with --user, or declare with --row-per-person that "
            "every row is another person, but not both",
            outcome="nothing was read",
        )
    batches = list(open_batches(file, at if user is None else [user, *at], options, user=user))
    if not sum(len(batch) for batch in batches):
        raise InvalidInputError(f"{file}: no rows, at least 1 point is needed")
    table = pl.concat(batches)
    if user is not None:
        table = table.with_columns(canonical_ids(table[user]))
        if table[user].null_count():
            raise InvalidInputError(f"column '{user}': a row has no person, each needs one")
        table = table.unique(user, keep="first", maintain_order=True)
    return np.stack([as_numbers(table[name]) for name in at], axis=1)


def _cells(mechanism: PointMechanism, guarantee: MetricGuarantee, count: int) -> int | None:
    from veilstream.metric import HatGrid

    return mechanism.cells_for(guarantee, count) if isinstance(mechanism, HatGrid) else None


def _table(kind: str, release: Release, guarantee: MetricGuarantee, at: list[str], cells: int | None) -> pl.DataFrame:
    """One row per sorted point, per node of the grid, or the median alone."""
    import numpy as np
    import polars as pl

    values = pl.Series("points" if kind == "grid" else at[0], np.asarray(release.values, dtype=np.float64))
    if cells is None:
        ranks = pl.Series("rank", np.arange(1, len(values) + 1))
        return pl.DataFrame([ranks, values]) if kind == "sorted" else pl.DataFrame([values])
    from veilstream.metric import nodes

    shape = nodes(guarantee.space, cells)
    spacing = max(guarantee.space.extents) / cells
    index = np.indices(shape).reshape(len(shape), -1)
    columns = [
        pl.Series(name, float(start) + along * float(spacing))
        for name, start, along in zip(at, guarantee.space.low, index, strict=True)
    ]
    return pl.DataFrame([*columns, values])


def _with_intervals(
    table: pl.DataFrame,
    mechanism: PointMechanism,
    release: Release,
    guarantee: MetricGuarantee,
    count: int,
    level: float,
) -> pl.DataFrame:
    """The table with intervals of the noise, or of a median's rank; noise of a private width has none."""
    import numpy as np
    import polars as pl

    from veilstream.metric import ChosenMedian

    if {"low", "high", "covers"} & set(table.columns):
        # A coordinate has such a name, and keeps it.
        return table
    if isinstance(mechanism, ChosenMedian):
        low, high = mechanism.ranks(guarantee, count, level)
        return table.with_columns(
            pl.lit(low).alias("low"), pl.lit(high).alias("high"), pl.lit("rank among the points").alias("covers")
        )
    if np.isnan(np.asarray(release.std, dtype=np.float64)).any():
        return table
    low_ends, high_ends = release.interval(level)
    return table.with_columns(
        pl.Series("low", low_ends), pl.Series("high", high_ends), pl.lit(release.covers).alias("covers")
    )


def _tell(
    release: Release,
    guarantee: MetricGuarantee,
    stream: str,
    before: bool,
    written: int | None,
    out: str | None,
    table: pl.DataFrame,
    as_json: bool,
) -> None:
    import numpy as np

    from veilstream.jobs.wording import number

    std = float(np.mean(release.std))
    if as_json:
        print_json(
            {
                "stream": stream,
                "released_before": before,
                "spent": str(release.spent),
                "guarantee": guarantee.promise(),
                "noise_std": None if np.isnan(std) else std,
                "rows": len(table),
                "value": float(release.values[0]) if len(table) == 1 else None,
                "interval": table.select("low", "high", "covers").row(0, named=True) if _has_rank(table) else None,
                "outputs": [] if out is None else [out],
            }
        )
        return
    cost = f"epsilon {number(release.spent)}"
    if before:
        typer.echo(f"nothing new: '{stream}' was released before, for {cost}; nothing was spent")
    else:
        typer.echo(f"released '{stream}': {len(table):,} number(s) for {cost}")
    typer.echo(guarantee.promise())
    if len(table) == 1:
        typer.echo(f"value: {float(release.values[0]):.6g}")
        if _has_rank(table):
            low, high, _ = table.select("low", "high", "covers").row(0)
            typer.echo(f"with the probability of the level it lies between the points of rank {low:,} and {high:,}")
    if not np.isnan(std):
        ordered = ", before they are put in order" if "rank" in table.columns else ""
        typer.echo(f"noise: standard deviation {number(std)} per number on average{ordered}")
    if out is not None:
        typer.echo(f"wrote {out} ({written:,} rows)")


def _has_rank(table: pl.DataFrame) -> bool:
    """Whether the table is one median with an interval."""
    return len(table) == 1 and "covers" in table.columns
