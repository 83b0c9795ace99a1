"""From the ledger to tables: one row per step and bin, pulled from what was committed."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data import Calendar, Domain
from veilstream.data.measures import ValueMeasures
from veilstream.errors import InvalidInputError, OutputError
from veilstream.extras import require
from veilstream.release.estimates import estimates_of_all
from veilstream.release.smoothing import Smoothing
from veilstream.release.vintages import with_versions
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.as_of import with_as_of
from veilstream.storage.ledger.surroundings import clean_unfinished, sync
from veilstream.values.choices import Vintages
from veilstream.values.release import Release

ROWS_AT_ONCE: Final = 1 << 20
REVISED_AT_ONCE: Final = 256
"""Steps of which all versions are read at once."""
NOISE_ENDS: Final = {"low": "noise_low", "high": "noise_high"}
"""What the ends of intervals are called where a method smooths: they hold the value before noise, not the count."""
OWN_COLUMNS: Final = ("step", "time", "value", "low", "high", "fresh", "covers", "version")
MEASURE_COLUMN: Final = "measure"
"""Says which of several statistics a row of the table holds."""


def release_tables(
    ledger: Ledger,
    stream: str,
    domain: Domain,
    calendar: Calendar,
    *,
    level: float = 0.95,
    bins: NDArray[np.int64] | None = None,
    measures: ValueMeasures | None = None,
    measure: str | None = None,
    vintages: Vintages = "first",
    smooth: bool = True,
) -> Iterator[pl.DataFrame]:
    """Tidy tables of a stream's releases within the calendar, a bounded number of rows at a time.

    Columns: ``step``, ``time`` (when the step begins), one per attribute, ``value``, ``low`` and ``high``, ``fresh``
    (or repeated from an earlier step), ``covers``: what ``low`` and ``high`` hold with probability ``level``, the
    "value before noise", or the true "count" where a model says so. ``bins`` keeps some flat bins only. With
    ``measures`` there is a row for each of them, named in the column ``measure``; a value that nothing is known of is
    null, and its interval is all that it can be. With a ``measure`` in words two columns more say ``as_of`` which step
    a value is, and what is ``counted``. ``vintages`` other than the first give steps the values of later revisions, and
    a column ``version``. Quantiles lean on earlier steps, unless ``smooth`` is false (docs/measures.md).

    >>> from veilstream import Guarantee, Publisher
    >>> from veilstream.data import Categories
    >>> from veilstream.mechanisms.streams import Uniform
    >>> places = Domain({"place": Categories(["a", "b"])})
    >>> publisher = Publisher(places, Guarantee(1, w=2), Uniform())
    >>> release = publisher.feed(np.array([100, 200]))
    >>> (table,) = release_tables(publisher.ledger, "default", places, Calendar("2024-01-01", "2024-01-03", "1d"))
    >>> table.columns, table["place"].to_list()
    (['step', 'time', 'place', 'value', 'low', 'high', 'fresh', 'covers'], ['a', 'b'])
    """
    check_names(domain, measures)
    kept = np.arange(domain.bins) if bins is None else bins
    labels = domain.labels()
    labels = labels[kept] if domain.axes else labels
    steps_at_once = max(1, ROWS_AT_ONCE // max(1, len(kept)))
    smoothing = Smoothing() if smooth and measures is not None else None

    def tables(page: list[Release], as_of: dict[int, int]) -> Iterator[pl.DataFrame]:
        versions = with_versions(ledger, stream, page, vintages)
        for first in range(0, len(versions), steps_at_once):
            part = versions[first : first + steps_at_once]
            shown = [release for release, _ in part]
            made = _table(shown, kept, labels, calendar, level, measures, smoothing)
            if vintages != "first":
                made = made.with_columns(version=_repeated([version for _, version in part], len(made)))
            yield made if measure is None else _explained(made, [as_of[release.t] for release in shown], measure)

    page: list[Release] = []
    as_of: dict[int, int] = {}
    for release, known in with_as_of(ledger.releases(stream)):
        if 0 <= release.t < calendar.steps:
            page.append(release)
            as_of[release.t] = known
        if len(page) == (min(steps_at_once, REVISED_AT_ONCE) if vintages == "all" else steps_at_once):
            yield from tables(page, as_of)
            page, as_of = [], {}
    if page:
        yield from tables(page, as_of)


def _repeated(numbers: list[int], rows: int) -> pl.Series:
    """One number for each release of a table, for all of its rows."""
    return pl.Series(np.repeat(np.array(numbers, dtype=np.int64), rows // len(numbers)))


def _explained(table: pl.DataFrame, as_of: list[int], measure: str) -> pl.DataFrame:
    """The table with what tells how to read it; an attribute of the same name keeps its place."""
    more = (
        _repeated(as_of, len(table)).alias("as_of"),
        pl.Series("counted", [measure]).new_from_index(0, len(table)),
    )
    return table.with_columns([series for series in more if series.name not in table.columns])


def check_names(domain: Domain, measures: ValueMeasures | None = None) -> None:
    """Refuse attributes whose names the table needs for itself."""
    own = OWN_COLUMNS if measures is None else (*OWN_COLUMNS, MEASURE_COLUMN)
    for name in domain.names:
        if name in own:
            raise InvalidInputError(
                f"attribute '{name}': the table of releases has a column of that name; rename the attribute"
            )


class _Row(NamedTuple):
    """A step's numbers and the ends of their intervals."""

    step: int
    numbers: NDArray[Any]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def _table(
    page: list[Release],
    kept: NDArray[np.int64],
    labels: pl.DataFrame,
    calendar: Calendar,
    level: float,
    measures: ValueMeasures | None,
    smoothing: Smoothing | None,
) -> pl.DataFrame:
    if measures is None:
        rows = [_Row(release.t, release.values, *release.interval(level)) for release in page]
        each, named = 1, None
    else:
        found = zip(page, estimates_of_all(page, measures, level, smoothing), strict=True)
        rows = [_Row(release.t, e.value, e.low, e.high) for release, of_release in found for e in of_release]
        each = len(measures.asked)
        named = pl.Series(measures.labels).gather(np.tile(np.repeat(np.arange(each), len(kept)), len(page)))
    columns = _columns(rows, kept, labels, calendar, named)
    repeated = np.repeat(np.arange(len(page)), len(kept) * each)
    columns["fresh"] = pl.Series([release.fresh for release in page]).gather(repeated)
    columns["covers"] = pl.Series([release.covers for release in page]).gather(repeated)
    return pl.DataFrame(columns)


def _columns(
    rows: Sequence[_Row],
    kept: NDArray[np.int64],
    labels: pl.DataFrame,
    calendar: Calendar,
    named: pl.Series | None = None,
) -> dict[str, pl.Series]:
    steps = np.array([row.step for row in rows], dtype=np.int64)
    times = pl.Series("time", [calendar.begins(int(t)) for t in steps])
    repeated = np.repeat(np.arange(len(rows)), len(kept))
    columns: dict[str, pl.Series] = {"step": pl.Series(steps[repeated]), "time": times.gather(repeated)}
    for name in labels.columns:
        columns[name] = labels[name].gather(np.tile(np.arange(len(kept)), len(rows)))
    if named is not None:
        columns[MEASURE_COLUMN] = named
    nothing = np.zeros(0)
    values = np.concatenate([row.numbers[kept] for row in rows]) if rows else nothing
    columns["value"] = pl.Series(values, nan_to_null=True)
    columns["low"] = pl.Series(np.concatenate([row.low[kept] for row in rows]) if rows else nothing)
    columns["high"] = pl.Series(np.concatenate([row.high[kept] for row in rows]) if rows else nothing)
    return columns


def largest_bins(ledger: Ledger, stream: str, count: int, measures: ValueMeasures | None = None) -> NDArray[np.int64]:
    """The ``count`` flat bins with the largest sum of released values, in the order of the bins."""
    total: NDArray[np.float64] | None = None
    for release in ledger.releases(stream):
        values = np.asarray(release.values, dtype=np.float64)
        if measures is not None:
            values = np.abs(values).reshape(-1, measures.parts).sum(axis=1)
        total = values.copy() if total is None else total + values
    if total is None:
        return np.zeros(0, dtype=np.int64)
    return np.sort(np.argsort(-total, kind="stable")[:count]).astype(np.int64)


def output_path(path: str | Path) -> Path:
    """A path that a file can have."""
    if "\0" in str(path):
        raise InvalidInputError(
            name="output",
            value=str(path),
            limit="a name of a file has no NUL character",
            next_step="give it a name such as releases.csv",
        )
    return Path(path)


PICTURES: Final = (".png", ".pdf", ".svg")


def check_writable(path: str | Path, suffixes: Iterable[str]) -> None:
    """Refuse a file that could not be written at the end, before anything is spent."""
    target = output_path(path)
    known = tuple(suffixes)
    if not target.name.lower().endswith(known):
        raise InvalidInputError(
            name="output",
            value=target,
            limit=f"its name must end in one of {', '.join(known)}",
            next_step=f"give it such a name, as {target.stem or 'releases'}{known[0]}",
        )
    if target.name.lower().endswith(PICTURES):
        require("matplotlib", "drawing pictures")
    folder = target.parent
    try:
        writable = folder.is_dir() and os.access(folder, os.W_OK) and not target.is_dir()
    except OSError:
        writable = False
    if not writable:
        raise InvalidInputError(
            name="output",
            value=target,
            limit="it cannot be written there",
            next_step="give a file in a folder that exists and that you may write to",
        )


@contextmanager
def replacing(path: str | Path) -> Generator[Path]:
    """A temporary neighbour of ``path`` that takes its place when the block ends well, and else vanishes."""
    target = output_path(path)
    partial = target.with_name(f".{os.getpid()}-{target.name}")
    try:
        clean_unfinished(target, f".*-{glob.escape(target.name)}")
        yield partial
        sync(partial)
        partial.replace(target)
        sync(target.parent)
    except OSError as error:
        raise OutputError(name="output", value=target, limit=error.strerror or "it cannot be written") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_table(tables: Iterable[pl.DataFrame], path: str | Path) -> int:
    """Write tables one below the other, whole or not at all; the number of rows.

    The name's end decides: ``.parquet``, ``.csv``, ``.json`` (an array of objects) or ``.ndjson`` (one per line).
    """
    name = Path(path).name.lower()
    write = next((write for suffix, write in WRITERS.items() if name.endswith(suffix)), None)
    if write is None:
        raise InvalidInputError(
            name="output",
            value=path,
            limit=f"its name must end in one of {', '.join(WRITERS)}",
            outcome="nothing was written",
        )
    with replacing(path) as partial:
        return write(iter(tables), partial)


def _write_parquet(tables: Iterator[pl.DataFrame], path: Path) -> int:
    parquet: Any = import_module("pyarrow.parquet")
    rows, writer = 0, None
    # PyArrow and Polars cannot open names that are not UTF-8.
    with path.open("wb") as file:
        try:
            for table in tables:
                arrow: Any = getattr(table, "to_arrow")()  # noqa: B009 (its type is known at run time only)
                writer = parquet.ParquetWriter(file, arrow.schema, compression="zstd") if writer is None else writer
                writer.write_table(arrow)
                rows += len(table)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            pl.DataFrame().write_parquet(file)
    return rows


def _write_csv(tables: Iterator[pl.DataFrame], path: Path) -> int:
    rows = 0
    with path.open("wb") as file:
        for table in tables:
            _as_text(table).write_csv(file, include_header=rows == 0)
            rows += len(table)
    return rows


def _write_ndjson(tables: Iterator[pl.DataFrame], path: Path) -> int:
    rows = 0
    with path.open("wb") as file:
        for table in tables:
            _as_text(table).write_ndjson(file)
            rows += len(table)
    return rows


def _write_json(tables: Iterator[pl.DataFrame], path: Path) -> int:
    rows = 0
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for table in tables:
            _write_objects(file, _as_text(table), first=rows == 0)
            rows += len(table)
        file.write("\n]\n")
    return rows


def _write_objects(file: IO[str], table: pl.DataFrame, *, first: bool) -> None:
    lines = table.write_ndjson().splitlines()
    file.write(("\n" if first else ",\n") + ",\n".join(lines))


def _as_text(table: pl.DataFrame) -> pl.DataFrame:
    """Times as ISO 8601, which text files have no type for."""
    if "time" not in table.columns or not isinstance(table["time"].dtype, pl.Datetime):
        return table
    distinct = table["time"].unique(maintain_order=True)
    names = [moment.isoformat() for moment in distinct if isinstance(moment, datetime)]
    return table.with_columns(pl.col("time").replace_strict(distinct, names, return_dtype=pl.String))


WRITERS: Final[dict[str, Callable[[Iterator[pl.DataFrame], Path], int]]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".ndjson": _write_ndjson,
    ".json": _write_json,
}
