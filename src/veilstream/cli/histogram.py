"""``veilstream histogram``: one private histogram of a file, charged to a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from veilstream.cli.app import settings_of
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.domain import Calendar

if TYPE_CHECKING:
    import polars as pl

    from veilstream.domain import Domain
    from veilstream.mechanism import StreamMechanism
    from veilstream.sealed import Sealed
    from veilstream.types import Release

NOW: Final = "veilstream_step"
ROW: Final = "veilstream_row"
ONE_STEP: Final = Calendar(0, 1, 1)


def _option(*names: str, words: str) -> Any:
    return typer.Option(*names, help=words, show_default=False)


def histogram(
    file: Annotated[str, typer.Argument(help="CSV, CSV.gz or Parquet: a file, a directory or a quoted glob.")],
    epsilon: Annotated[str, _option("--epsilon", words="Privacy budget of the release, e.g. 1 or 1/2.")],
    domain: Annotated[str, _option("--domain", words="JSON file of the public bins of each attribute.")],
    ledger: Annotated[str, _option("--ledger", words="The durable record: a file or a PostgreSQL URL.")],
    by: Annotated[
        list[str] | None, _option("--by", words="Attribute to count by; repeat for several. Default: the domain's.")
    ] = None,
    user: Annotated[str | None, _option("--user", words="Column of the person's id.")] = None,
    row_per_person: Annotated[
        bool, _option("--row-per-person", words="Declare that every row is another person; instead of --user.")
    ] = False,
    method: Annotated[str, _option("--method", words="See 'veilstream mechanisms'. Default: geometric.")] = "geometric",
    setting: Annotated[
        list[str] | None, _option("--set", words="Parameter of the method, name=value; repeat for several.")
    ] = None,
    post: Annotated[
        list[str] | None,
        _option("--post", words="Free post-processing, in order: 'non-negative', 'total', 'whole'; repeatable."),
    ] = None,
    bins_per_user: Annotated[int, _option("--bins-per-user", words="Bins one person counts in.")] = 1,
    counts_per_user: Annotated[int, _option("--counts-per-user", words="Rows of one person that count.")] = 1,
    unknown: Annotated[
        str, _option("--unknown", words="Values outside the domain: 'error' (default) or 'drop'.")
    ] = "error",
    stream: Annotated[
        str, _option("--stream", words="Name of the release in the ledger. Default: histogram.")
    ] = "histogram",
    out: Annotated[
        str | None, _option("--out", words="Table of the release: .parquet, .csv, .json or .ndjson.")
    ] = None,
    level: Annotated[float, _option("--level", words="Level of the error intervals. Default: 0.95.")] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; errors too.")] = False,
) -> int:
    """Publish one histogram of a file, once and for all; run it again to get the same release for nothing."""
    from veilstream.cli.plan import chosen_axes
    from veilstream.guarantee import Guarantee
    from veilstream.ledger import Ledger
    from veilstream.publisher import Publisher
    from veilstream.sinks import WRITERS, check_names, check_writable, release_tables, write_table

    if out is not None:
        check_writable(out, tuple(WRITERS))
    known = chosen_axes(domain, tuple(by) if by else None)
    check_names(known)
    guarantee = Guarantee(epsilon, w=None)
    mechanism = _mechanism(method, settings_of(setting or []), post or [])
    rows = _Rows(file, known, user, row_per_person, bins_per_user, counts_per_user, unknown)
    # Every row is read and checked before the ledger is touched.
    snapshot = rows.snapshot()
    with Ledger.open(ledger) as book:
        publisher = Publisher(known, guarantee, mechanism, book, stream=stream, l1=counts_per_user)
        before = book.release_at(stream, 0) is not None
        release = publisher.feed(snapshot)
        written = None
        if out is not None:
            written = write_table(release_tables(book, stream, known, ONE_STEP, level=level), out)
    _tell(release, known, stream, before, written, out, as_json)
    return ExitCode.OK


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a file as events of one step."""

    file: str
    domain: Domain
    user: str | None
    row_per_person: bool
    bins_per_user: int
    counts_per_user: int
    unknown: str

    def __post_init__(self) -> None:
        from veilstream.errors import InvalidInput

        if (self.user is None) != self.row_per_person:
            raise InvalidInput(
                "user: name the column of people's ids with --user, or declare with --row-per-person that every row is "
                "another person, but not both; nothing was read"
            )
        if self.unknown not in ("error", "drop"):
            raise InvalidInput(f"unknown {self.unknown!r}: it is 'error' or 'drop'; nothing was read")

    def snapshot(self) -> Sealed:
        from veilstream.bounding import bound
        from veilstream.sources import read_events

        events = read_events(self._batches(), user=self.user or ROW, time=NOW, by=self.domain.names)
        unknown: Any = self.unknown
        with bound(
            events,
            self.domain,
            ONE_STEP,
            bins_per_user=self.bins_per_user,
            counts_per_user=self.counts_per_user,
            unknown=unknown,
        ) as bounded:
            return next(bounded.snapshots())

    def _batches(self) -> Iterator[pl.DataFrame]:
        import polars as pl

        from veilstream.sources.readers import open_batches

        wanted = [*self.domain.names] if self.user is None else [self.user, *self.domain.names]
        seen = 0
        for batch in open_batches(self.file, wanted):
            numbered = batch.with_columns(pl.lit(0, dtype=pl.Int64).alias(NOW))
            if self.user is None:
                numbered = numbered.with_row_index(ROW, offset=seen)
            seen += batch.height
            yield numbered


def _mechanism(method: str, settings: dict[str, str], post: list[str]) -> StreamMechanism[Any]:
    from veilstream.cli.parameters import build_mechanism
    from veilstream.errors import InvalidInput
    from veilstream.postprocess import ConsistentTotal, NonNegative, PostProcessed, Step, Whole
    from veilstream.streams import Sample

    chosen = build_mechanism("sample", method, {f"histogram.{name}": value for name, value in settings.items()})
    assert isinstance(chosen, Sample)
    steps: dict[str, Step] = {"non-negative": NonNegative(), "total": ConsistentTotal(), "whole": Whole()}
    for name in post:
        if name not in steps:
            raise InvalidInput(f"post {name!r}: unknown, the steps are {', '.join(steps)}; nothing was read")
    return Sample(PostProcessed(chosen.histogram, tuple(steps[name] for name in post))) if post else chosen


def _tell(
    release: Release, domain: Domain, stream: str, before: bool, written: int | None, out: str | None, as_json: bool
) -> None:
    import numpy as np

    from veilstream.cli.words import number

    std = float(np.mean(release.std))
    if as_json:
        print_json(
            {
                "stream": stream,
                "bins": domain.bins,
                "released_before": before,
                "spent": str(release.spent),
                "noise_std": std,
                "outputs": [] if out is None else [out],
            }
        )
        return
    if before:
        spent = number(release.spent)
        typer.echo(f"nothing new: '{stream}' was released before, for epsilon {spent}; nothing was spent")
    else:
        typer.echo(f"released '{stream}': {domain.bins:,} bin(s) for epsilon {number(release.spent)}")
    typer.echo(f"noise: standard deviation {number(std)} per bin on average; it does not tell of a method's smoothing")
    if out is not None:
        typer.echo(f"wrote {out} ({written:,} rows)")
