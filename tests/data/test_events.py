"""Inputs of every kind, and what happens when they are broken."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from veilstream.data import Calendar, Categories, Domain, csv_files, read_events
from veilstream.data.bounding import Bounded, bound
from veilstream.errors import InvalidInputError, UnknownValueError, UnreadableFileError
from veilstream.trusted.opening import open_counts

DOMAIN = Domain({"place": Categories(["a", "b"])})
CALENDAR = Calendar("2024-01-01", "2024-01-02", "1h")
HEADER = "id,ts,place,secret\n"
GOOD = "u1,2024-01-01T00:10:00,a,s\nu2,2024-01-01T01:10:00,b,s\n"


def load(source: Any, **options: Any) -> Bounded:
    return bound(read_events(source, user="id", time="ts", by=["place"]), DOMAIN, CALENDAR, **options)


def counts(source: Any, **options: Any) -> list[list[int]]:
    with load(source, **options) as held:
        return [open_counts(step).tolist() for step in held.snapshots()]


EXPECTED = [[1, 0], [0, 1]] + [[0, 0]] * 22


def frame() -> pl.DataFrame:
    return pl.DataFrame({"id": ["u1", "u2"], "ts": ["2024-01-01T00:10:00", "2024-01-01T01:10:00"], "place": ["a", "b"]})


def write_csv(path: Path, text: str) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["events.csv", "events.csv.gz"])
def test_csv(tmp_path: Path, name: str) -> None:
    path = write_csv(tmp_path / name, HEADER + GOOD)
    assert counts(path) == counts(str(path)) == EXPECTED


def test_csv_with_quotes_a_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    text = '\ufeffid,ts,place,secret\r\n"u1",2024-01-01T00:10:00,a,"two words, here"\r\nu2,2024-01-01 01:10,"b",\r\n'
    path = tmp_path / "events.csv"
    path.write_text(text, newline="")
    assert counts(path) == EXPECTED


def test_folders_lists_and_globs(tmp_path: Path) -> None:
    first, second = frame()[:1], frame()[1:]
    (tmp_path / "deep").mkdir()
    first.write_parquet(tmp_path / "one.parquet")
    second.write_parquet(tmp_path / "deep" / "two.parquet")
    (tmp_path / "README.md").write_text("not data")
    assert counts(tmp_path) == EXPECTED
    assert counts(str(tmp_path / "**" / "*.parquet")) == EXPECTED
    assert counts([tmp_path / "one.parquet", tmp_path / "deep" / "two.parquet"]) == EXPECTED
    with pytest.raises(InvalidInputError, match="0 CSV or Parquet files"):
        counts(str(tmp_path / "*.feather"))
    with pytest.raises(InvalidInputError, match="no such file"):
        counts(tmp_path / "absent.csv")
    with pytest.raises(InvalidInputError, match="must end in"):
        counts(tmp_path / "README.md")


def test_frames_and_batches() -> None:
    data = frame()
    sources: list[Any] = [
        data,
        data.lazy(),
        data.to_pandas(),
        data.to_arrow(),
        data.to_arrow().to_reader(),
        data.to_arrow().to_batches(),
        data.to_dict(as_series=False),
        {name: data[name].to_numpy() for name in data.columns},
        (part for part in [data[:1].to_pandas(), data[1:].lazy()]),
    ]
    assert len(sources) > 0
    for source in sources:
        assert counts(source) == EXPECTED


@pytest.mark.parametrize("source", [3, None, [3], ["x", 4]])
def test_what_is_no_table_is_refused(source: Any) -> None:
    with pytest.raises(InvalidInputError, match="nothing was released"):
        counts(source)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: write_csv(path / "e.csv", "id,when,place\n1,2,a\n"),
        lambda path: frame().rename({"ts": "when"}),
        lambda path: frame().rename({"ts": "when"}).lazy(),
        lambda path: frame().rename({"ts": "when"}).to_arrow(),
        lambda path: frame().rename({"ts": "when"}).to_pandas(),
    ],
)
def test_a_missing_column_names_those_present(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    with pytest.raises(InvalidInputError, match="column 'ts' is missing") as refused:
        counts(make(tmp_path))
    # The first row of a text file may be data, so it is for the operator.
    assert "the columns are id, when, place" in f"{refused.value} {refused.value.operator_note}"


def test_a_doubled_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="occurs 2 times"):
        counts(write_csv(tmp_path / "e.csv", "id,ts,place,id\nu1,2024-01-01,a,u2\n"))


@pytest.mark.parametrize("name", ["events.csv", "events.csv.gz"])
@pytest.mark.parametrize("row", ["u3,2024-01-01T02:00:00\n", "u3,2024-01-01T02:00:00,a,secret-7,more\n", "u3\n"])
def test_a_broken_row_in_the_middle_is_named_and_not_shown(tmp_path: Path, name: str, row: str) -> None:
    path = write_csv(tmp_path / name, HEADER + GOOD * 50 + row + GOOD * 50)
    with pytest.raises(UnreadableFileError) as caught:
        counts(path)
    assert caught.value.operator_note == "row 102 (the header is row 1)"
    assert "102" not in str(caught.value).replace(str(path), "")
    assert "u3" not in str(caught.value)
    assert "secret-7" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes((HEADER + GOOD).encode() + b"\xff\xfe,2024-01-01T00:10:00,a,s\n")
    with pytest.raises(UnreadableFileError, match="nothing was released"):
        counts(path)


@pytest.mark.parametrize("name", ["events.csv", "events.csv.gz", "events.parquet"])
def test_no_bytes_are_a_broken_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    with pytest.raises(UnreadableFileError, match="0 bytes"):
        counts(path)


def test_a_file_without_header_is_broken(tmp_path: Path) -> None:
    for name, text in (("blank.csv", "\n\n"), ("packed.csv.gz", "")):
        with pytest.raises(UnreadableFileError, match="no header"):
            counts(write_csv(tmp_path / name, text))


@pytest.mark.parametrize("name", ["events.csv", "events.csv.gz"])
@pytest.mark.parametrize("tail", ["", "\n"])
def test_a_header_alone_is_no_events(tmp_path: Path, name: str, tail: str) -> None:
    assert counts(write_csv(tmp_path / name, HEADER.strip() + tail)) == [[0, 0]] * 24


def test_an_empty_parquet_file_is_no_events(tmp_path: Path) -> None:
    frame().clear().write_parquet(tmp_path / "e.parquet")
    assert counts(tmp_path / "e.parquet") == [[0, 0]] * 24


def test_a_truncated_file_is_broken(tmp_path: Path) -> None:
    rng = np.arange(200_000)
    rows = "".join(f"u{i * 7919 % 100_003},2024-01-01T00:{i % 60:02}:00,a,s{i * i}\n" for i in rng)
    packed = gzip.compress((HEADER + rows).encode())
    (tmp_path / "e.csv.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "flipped.csv.gz").write_bytes(packed[:2000] + bytes([packed[2000] ^ 255]) * 50 + packed[2050:])
    pl.concat([frame()] * 1000).write_parquet(tmp_path / "e.parquet")
    whole = (tmp_path / "e.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "spoilt.parquet").write_bytes(whole[:4] + bytes(400) + whole[404:])
    for name in ("e.csv.gz", "flipped.csv.gz", "cut.parquet", "spoilt.parquet"):
        with pytest.raises(UnreadableFileError, match="nothing was released"):
            counts(tmp_path / name)


def test_a_lazy_frame_that_fails_is_broken() -> None:
    with pytest.raises(UnreadableFileError, match="lazy frame") as caught:
        counts(frame().lazy().with_columns(pl.col("id").cast(pl.Int64)))
    assert "u1" not in str(caught.value)


@pytest.mark.parametrize("row", ['"u3,2024-01-01T02:00:00,a,s\n', 'u3,2024-01-01T02:00:00,a,"s\n'])
def test_a_quote_that_never_closes_is_broken(tmp_path: Path, row: str) -> None:
    with pytest.raises(UnreadableFileError, match="nothing was released"):
        counts(write_csv(tmp_path / "e.csv", HEADER + GOOD + row + GOOD))


def test_unknown_values_are_named_by_attribute_and_not_shown() -> None:
    rows = frame().with_columns(place=pl.Series(["a", "hideout"]))
    with pytest.raises(UnknownValueError, match="attribute 'place'") as caught:
        counts(rows)
    assert "hideout" not in str(caught.value)
    assert "u2" not in str(caught.value)
    with load(rows, unknown="drop") as held:
        assert held.dropped.unknown == 1
        assert sum(int(open_counts(step).sum()) for step in held.snapshots()) == 1


def test_times_outside_and_missing_follow_their_policies() -> None:
    rows = pl.concat([frame(), frame().with_columns(ts=pl.lit("2025-01-01")), frame().with_columns(ts=pl.lit(None))])
    with pytest.raises(InvalidInputError, match="has no time"):
        counts(rows)
    with pytest.raises(UnknownValueError, match="outside the public range"):
        counts(rows, missing_time="drop")
    with load(rows, missing_time="drop", unknown="drop") as held:
        assert (held.dropped.missing_time, held.dropped.outside_time) == (2, 2)
        assert [open_counts(step).tolist() for step in held.snapshots()] == EXPECTED


def test_times_and_values_of_several_types_are_read_each_by_itself() -> None:
    offset = frame().with_columns(ts=pl.col("ts") + "Z")
    assert counts([frame()[:1], offset[1:]]) == EXPECTED
    rows = frame().to_dict(as_series=False)
    mixed = {"id": ["u1", "u2", 7, [7]], "ts": [*rows["ts"], 1704067200.0, object()], "place": ["a", b"b", 1, {}]}
    assert counts(mixed, unknown="drop") == EXPECTED


@pytest.mark.parametrize("line", ['u1,"2024-01-01T00:10:00,a,s', 'u1,2024-01-01T00:10:00,a","s', 'u1,2,5" pipe,s'])
def test_a_quote_that_could_take_other_lines_refuses_the_file(tmp_path: Path, line: str) -> None:
    """With another stray quote further down the rows between would be one field, and nobody would know."""
    text = HEADER + line + "\n" + GOOD + line + "\n"
    with pytest.raises(UnreadableFileError, match="quote"):
        counts(write_csv(tmp_path / "events.csv", text), unknown="drop")


def test_lines_that_are_no_rows_are_left_out_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 150)
    torn = b"u3\nu3,2024-01-01T00:10:00,a,s,more\n,,,\n\xff,2024-01-01T00:10:00,a,s\nu3,\xff,a,s\n" + b"x" * 400 + b"\n"
    path = tmp_path / "events.csv"
    path.write_bytes(HEADER.encode() + torn + GOOD.encode() + torn)
    with load(path, unknown="drop", missing_time="drop") as held:
        assert [open_counts(step).tolist() for step in held.snapshots()] == EXPECTED
        assert held.dropped.unreadable == 6
    with pytest.raises(UnreadableFileError):
        counts(path)


def test_the_user_cannot_be_an_attribute() -> None:
    with pytest.raises(InvalidInputError, match="person's id"):
        read_events(frame(), user="id", time="ts", by=["id"])


def test_events_do_not_print_their_rows() -> None:
    assert "u1" not in repr(read_events(frame().to_dict(as_series=False), user="id", time="ts", by=["place"]))
