"""The doors by which rows of files, frames and engines come in."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog

from tests.cli.support import veilstream
from tests.isolation.harness import Case, Door, Seen
from tests.isolation.rows import (
    CALENDAR,
    DOMAIN,
    LIMITS,
    MEASURES,
    NAMES,
    ZONE,
    Row,
    columns,
    everybody,
    inferred,
    large,
    mixed,
    names,
    objects,
    rounding,
    seen,
    small,
    tables,
    unsealed,
)
from veilstream.data.engines.duckdb import snapshots
from veilstream.data.engines.lake import delta_commits, iceberg_commits, iceberg_table
from veilstream.errors import UnreadableFileError
from veilstream.release.publisher import Publisher
from veilstream.trusted.counts import Sealed

Make = Callable[[Any, Path], Any]


def _counted(make: Make) -> Callable[[Any, Path], Seen]:
    return lambda rows, folder: seen(make(rows, folder))


def _measured(make: Make) -> Callable[[Any, Path], Seen]:
    return lambda rows, folder: seen(make(rows, folder), measured=True)


def _mapping(rows: Sequence[Row], _: Path) -> Any:
    return columns(rows)


def _pandas_objects(rows: Sequence[Row], _: Path) -> Any:
    return inferred(rows)


def _arrow(table: pa.Table, _: Path) -> Any:
    return table


def _reader(table: pa.Table, _: Path) -> Any:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=3))


def _polars(table: pa.Table, _: Path) -> Any:
    return pl.from_arrow(table)


def _lazy(table: pa.Table, _: Path) -> Any:
    return pl.DataFrame(pl.from_arrow(table)).lazy()


def _framed(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas(date_as_object=False)
    return frame


def _pandas(table: pa.Table, _: Path) -> Any:
    return _framed(table)


def _parquet(table: pa.Table, folder: Path) -> Any:
    path = folder / f"{uuid.uuid4().hex}.parquet"
    pq.write_table(table, path, row_group_size=4)
    return path


def _duckdb(table: pa.Table, _: Path, *, stored: bool = False, **measured: Any) -> Seen:
    with duckdb.connect() as database:
        relation = database.from_arrow(table)
        if stored:
            relation.create("visits")
            relation = database.sql("SELECT * FROM visits WHERE true")
        return unsealed(
            lambda: snapshots(
                relation,
                domain=DOMAIN,
                calendar=CALENDAR,
                user="id",
                time="time",
                missing_value="drop",
                **LIMITS,
                **measured,
            )
        )


# Tables of a lake: the files that each commit brought.


def _delta(table: pa.Table, folder: Path) -> Any:
    place = folder / uuid.uuid4().hex
    write_deltalake(place, table, mode="append")
    return [path.removeprefix("file://") for commit in delta_commits(str(place), {}) for path in commit.files]


def _iceberg(table: pa.Table, folder: Path) -> Any:
    name = uuid.uuid4().hex
    place = {"type": "sql", "uri": f"sqlite:///{folder / name}.db", "warehouse": f"file://{folder / name}"}
    catalog = load_catalog(name, **place)
    catalog.create_namespace("city")
    catalog.create_table("city.visits", table.schema).append(table)
    made = iceberg_table(name, "city.visits", place)
    return [path.removeprefix("file://") for commit in iceberg_commits(made, "visits") for path in commit.files]


# The command: tables, what it says, and how it ends.

NUMBERS: Final = re.compile(r"-?[0-9][0-9.,e+-]*")


def _command(text: bytes, folder: Path) -> Seen:
    """What `veilstream publish` counts, and all that readers see of it but the noisy numbers."""
    place = folder / uuid.uuid4().hex
    place.mkdir()
    (place / "visits.csv").write_bytes(text)
    fed: list[Sealed] = []
    feed = Publisher.feed

    def record(publisher: Publisher[Any], snapshot: Any, t: int | None = None) -> Any:
        fed.append(snapshot)
        return feed(publisher, snapshot, t)

    options = {
        "user": "id", "time": "time", "domain": json.dumps(DOMAIN.to_json()), "every": "6h", "start": "2024-01-01",
        "end": "2024-01-03", "zone": ZONE, "epsilon": 1, "window": 4, "mechanism": "uniform", "unknown": "drop",
        "missing-time": "drop", "counts-per-user": 2, "bins-per-user": 2, "ledger": place / "b.db",
    }  # fmt: skip
    with mock.patch.object(Publisher, "feed", record), mock.patch("os.urandom", bytes):
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        ended = veilstream("publish", place / "visits.csv", *words, "--allow-empty", "--out", place / "out.csv")
    if ended.code:
        raise UnreadableFileError(NUMBERS.sub("#", ended.err))
    said = ended.out.replace(str(place), "")
    files = sorted(path.name for path in place.iterdir())
    table = [NUMBERS.sub("#", line) for line in (place / "out.csv").read_text(encoding="utf-8").splitlines()]
    made = unsealed(lambda: fed)
    public = {**made.public, "said": NUMBERS.sub("#", said), "files": files, "table": table}
    return Seen(made.counts, made.movement, public)


# CSV: a line is bytes, and a hostile line may be any.

CELLS: Final = (
    b"", b" ", b"1", b"1.0", b"7", b"x", b"nan", b"inf", b"1e999", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"soon",
    b"2024-01-01", b"2024-01-01T00:00:00Z", b"1704067200", b"9" * 40, b"y" * 3000, "é".encode(), b"true", b"0x1",
)  # fmt: skip


def _line(row: Row) -> bytes:
    cells = [row[name].isoformat() if name == "time" else str(row[name]) for name in NAMES]
    return ",".join(cells).encode()


@st.composite
def csv_lines(draw: st.DrawFn) -> Case[bytes]:
    others = [_line(row) for row in draw(everybody(draw(st.sampled_from([small, large, names]))))]
    sound = [b"99", b"2024-01-01T00:00:00Z", b"1", b"7", b"20", b"1", b"true", b"3"]
    ids = st.sampled_from([b"99", b" 99", b"99.0", b"+99", b"", b" ", b"\xff", b"9007199254740993.0"])
    cell = [ids, *(st.just(value) | st.sampled_from(CELLS) for value in sound[1:])]
    row = st.tuples(*cell).map(b",".join)
    torn = st.sampled_from(
        [b"99", b",", b",,,,,,,,,,,,", b"99,1", b"\t", b"\x00", b"\xff\xfe", b",".join([*sound, b"1"])]
    )
    quoted = st.sampled_from([b'"99"', b'99,"', b'9"9', b'99,"a', b'""', b'99,""","""', b'",",', b"\r", b'a","b'])
    quotes = draw(st.booleans())
    mine = draw(st.lists(row | torn | quoted if quotes else row | torn, min_size=1, max_size=4))
    header = ",".join(NAMES).encode()
    both = mixed(draw, others, mine)
    whole = any(b'"' in line for line in mine)
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    last = draw(st.sampled_from([b"", end]))
    text = [end.join([header, *lines]) + last for lines in (others, both, mine)]
    return Case(text[0], text[1], text[2], whole)


def _csv(text: bytes, folder: Path) -> Any:
    path = folder / f"{uuid.uuid4().hex}.csv"
    path.write_bytes(text)
    return path


DOORS: Final[tuple[Door[Any], ...]] = (
    Door("mapping", objects(), _counted(_mapping)),
    Door("mapping measured", objects(), _measured(_mapping)),
    Door("pandas", tables().map(partial(rounding, frame=_framed, alone=True)), _counted(_pandas)),
    Door("pandas objects", objects().map(partial(rounding, frame=inferred, alone=False)), _counted(_pandas_objects)),
    Door("arrow", tables(), _counted(_arrow)),
    Door("arrow measured", tables(), _measured(_arrow)),
    Door("arrow batches", tables(), _counted(_reader), 10),
    Door("polars", tables(), _counted(_polars)),
    Door("polars lazy", tables(), _counted(_lazy), 10),
    Door("parquet", tables(), _counted(_parquet)),
    Door("duckdb", tables(), _duckdb, 20),
    Door("duckdb measured", tables(), partial(_duckdb, measures=MEASURES), 5),
    Door("sql", tables(), partial(_duckdb, stored=True), 20),
    Door("delta", tables(stored=True), _counted(_delta), 5),
    Door("iceberg", tables(stored=True), _counted(_iceberg), 3),
    Door("command", csv_lines(), _command, 5),
    Door("csv", csv_lines(), _counted(_csv), 80),
    Door("csv measured", csv_lines(), _measured(_csv), 20),
)
