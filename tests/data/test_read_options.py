"""Files as people have them: delimiters, encodings, decimal commas, times of every kind, pipes and relations."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from veilstream.data import Calendar, Categories, Domain, Grid, ReadOptions, read_events
from veilstream.data.bounding import bound
from veilstream.data.public import read_public_counts
from veilstream.data.readers import open_batches
from veilstream.data.time_formats import RECOGNISED, parse_times
from veilstream.errors import InvalidInputError, UnknownValueError, UnreadableFileError, VeilstreamError
from veilstream.trusted.opening import open_counts

ROWS = [("ü1", "2024-01-01 00:10:00", "a"), ("u2", "2024-01-01 01:10:00", "b")]
DAY = Calendar("2024-01-01", "2024-01-02", "1h")
PLACES = Domain({"place": Categories(["a", "b"])})


def text(delimiter: str = ",") -> str:
    return "\n".join(delimiter.join(row) for row in [("id", "ts", "place"), *ROWS]) + "\n"


def read(source: Any, **options: Any) -> list[tuple[str, ...]]:
    frames = list(open_batches(source, ["id", "ts", "place"], ReadOptions(**options)))
    return pl.concat(frames).rows()


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.csv.gz"])
def test_delimiters_are_recognised_by_the_columns_that_are_needed(tmp_path: Path, delimiter: str, name: str) -> None:
    data = text(delimiter).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert read(tmp_path / name) == ROWS
    assert read(tmp_path / name, delimiter=delimiter) == ROWS


def test_a_comma_inside_a_header_of_semicolons_misleads_nobody(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id;ts;"place, or zone";place\nu;2024-01-01;x, y;a\n')
    assert read(tmp_path / "a.csv") == [("u", "2024-01-01", "a")]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"])
def test_encodings_by_their_mark_or_by_option(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes(text().encode(encoding))
    marked = encoding in ("utf-8-sig", "utf-16")
    assert read(tmp_path / "a.csv", **({} if marked else {"encoding": encoding})) == ROWS


def test_an_encoding_that_was_not_told_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(text().encode("latin-1"))
    with pytest.raises(UnreadableFileError) as refused:
        read(tmp_path / "a.csv")
    assert "--encoding latin-1" in refused.value.next_step
    assert "u2" not in str(refused.value)


def test_blocks_that_cut_characters_in_two_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veilstream.data.csv_files.HEADER_BYTES", 64)
    monkeypatch.setattr("veilstream.data.csv_files.BLOCK_BYTES", 97)
    lines = [f"ü{i},2024-01-01,ÄÖ😀{i}" for i in range(500)]
    (tmp_path / "a.csv").write_bytes(("id,ts,place\n" + "\n".join(lines)).encode("utf-16"))
    assert [",".join(row) for row in read(tmp_path / "a.csv")] == lines


@pytest.mark.parametrize("packed", ["csv", "gzip", "parquet"])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, packed: str) -> None:
    data = text(";").encode()
    if packed == "gzip":
        data = gzip.compress(data)
    if packed == "parquet":
        file = io.BytesIO()
        pl.DataFrame(ROWS, schema=["id", "ts", "place"], orient="row").write_parquet(file)
        data = file.getvalue()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert read("-") == ROWS
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO()))
    with pytest.raises(UnreadableFileError, match="0 bytes"):
        read("-")


def test_several_files_and_globs_of_several_kinds(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text(text(";"))
    (tmp_path / "2.csv").write_text(text(","))
    assert read([tmp_path / "1.csv", str(tmp_path / "2.csv")]) == ROWS * 2
    assert read(str(tmp_path / "*.csv")) == ROWS * 2


def test_relations_and_other_arrow_streams() -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    frame = pl.DataFrame(ROWS, schema=["id", "ts", "place"], orient="row")
    connection = duckdb.connect()
    connection.register("visits", frame.to_arrow())
    assert read(connection.sql("select *, 1 as more from visits order by id desc")) == ROWS
    with pytest.raises(InvalidInputError, match="'place' is missing"):
        read(connection.sql("select id, ts from visits"))
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert read(pandas.DataFrame(ROWS, columns=["id", "ts", "place"])) == ROWS


WRITTEN = {
    "2024-01-31 13:45": None,
    "2024-01-31T13:45:00": None,
    "2024-01-31 01:45 PM": None,
    "2024-01-31 1:45:00 pm": None,
    "2024/01/31 13:45": None,
    "31.01.2024 13:45": None,
    "31.01.2024 01:45:00 PM": None,
    "1706708700": None,
    "1706708700000": None,
    "1706708700000000": None,
    "31/01/2024 13:45": "day-first",
    "01/31/2024 1:45 PM": "month-first",
    "1706708700.0": "epoch-s",
    "31 Jan 2024 13h45": "%d %b %Y %Hh%M",
    "2024-01-31 14:45 +0100": "%Y-%m-%d %H:%M %z",
}


@pytest.mark.parametrize("written", WRITTEN)
def test_every_way_to_write_a_time_is_the_same_step(written: str) -> None:
    rows = {"id": ["u", "v"], "ts": [written, None], "place": ["a", "a"]}
    options = ReadOptions(time_format=WRITTEN[written])
    calendar = Calendar("2024-01-31T13:45", "2024-01-31T13:46", "1s")
    events = read_events(rows, user="id", time="ts", by=["place"], options=options)
    with bound(events, PLACES, calendar, missing_time="drop") as bounded:
        assert open_counts(next(bounded.snapshots())).tolist() == [1, 0]


def test_whole_numbers_of_a_table_are_instants_too() -> None:
    calendar = Calendar("2024-01-31", "2024-02-01", "1h")
    assert calendar.step_of(pl.Series([1706708700, None])).tolist() == [13, -2]
    assert calendar.step_of(pl.Series([1706708700000])).tolist() == [13]


def test_seconds_of_the_last_century_and_months_need_no_option() -> None:
    century = Calendar("2001-09", "2001-10", "1d")
    assert century.step_of(pl.Series(["999999999", "1000000000"])).tolist() == [8, 8]
    assert Calendar("2024-01", "2024-07", "1mo").step_of(pl.Series(["2024-03", "2024-06"])).tolist() == [2, 5]


@pytest.mark.parametrize(
    ("written", "cure"),
    [
        ("01/02/2024", "day-first"),
        ("1/2/24 5:30", "%d/%m/%y"),
        ("86400", "epoch-s"),
        ("20240131", "%Y%m%d"),
        ("20240131134500", "%Y%m%d%H%M%S"),
        ("Thursday", "--time-format"),
    ],
)
def test_times_that_cannot_be_read_name_the_option_that_reads_them(written: str, cure: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        DAY.step_of(pl.Series("ts", [written]))
    assert cure in refused.value.next_step
    assert "2024-01-31 13:45:00" in str(refused.value)
    assert written not in str(refused.value)


def test_a_wrong_format_shows_no_time() -> None:
    with pytest.raises(InvalidInputError, match="cannot be read") as refused:
        DAY.step_of(parse_times(pl.Series("ts", ["31/01/2024"]), "month-first"))
    assert "31/01" not in str(refused.value)
    assert "--time-format" in refused.value.next_step
    assert len(set(RECOGNISED)) == len(RECOGNISED)


def test_decimal_commas_are_numbers_if_the_holder_says_so() -> None:
    speeds = Domain({"speed": Grid(0.0, 2000.0, 4)})
    rows = {"id": ["1,5", "2"], "ts": ["2024-01-01", "2024-01-01"], "speed": ["1.234,5", "0,5"]}
    events = read_events(rows, user="id", time="ts", by=["speed"], options=ReadOptions(decimal=","))
    (frame,) = events.batches()
    assert frame["speed"].to_list() == ["1234.5", "0.5"]
    assert frame["id"].to_list() == ["1,5", "2"]
    with (
        pytest.raises(UnknownValueError, match="'speed'") as refused,
        bound(read_events(rows, user="id", time="ts", by=["speed"]), speeds, DAY),
    ):
        pass
    assert "--decimal" in refused.value.next_step
    assert "0,5" not in str(refused.value)


def test_unknown_values_name_the_column_and_the_way_out_but_not_the_value() -> None:
    rows = {"id": ["u"], "ts": ["2024-01-01"], "place": ["secret"]}
    with (
        pytest.raises(UnknownValueError, match="'place'") as refused,
        bound(read_events(rows, user="id", time="ts", by=["place"]), PLACES, DAY),
    ):
        pass
    assert "--unknown drop" in refused.value.next_step
    assert "secret" not in str(refused.value)


def test_a_row_of_data_where_a_header_should_be_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("4711,2024-01-01,secret\n")
    with pytest.raises(InvalidInputError, match="in the first row") as refused:
        read(tmp_path / "a.csv")
    assert "secret" not in str(refused.value)
    assert "4711" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delimiter", "::"),
        ("delimiter", "\n"),
        ("encoding", "klingon"),
        ("decimal", ";"),
        ("time_format", "dd/mm/yyyy"),
    ],
)
def test_options_that_cannot_be_are_refused(name: str, value: str) -> None:
    with pytest.raises(VeilstreamError) as refused:
        ReadOptions(**{name: value})  # type: ignore[arg-type]
    assert refused.value.value == value
    assert refused.value.name == name.replace("_", " ")


def test_public_counts_take_the_options_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("day;n\n01/02/2024;3\n02/02/2024;4\n")
    options = ReadOptions(time_format="day-first")
    data = read_public_counts(tmp_path / "a.csv", time="day", every="1d", value="n", options=options)
    assert data.counts.tolist() == [[3], [4]]
