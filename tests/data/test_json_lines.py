"""What becomes of a line of JSON depends on that line alone, however the lines around it are read."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from veilstream.data.json_lines import Numbers, read_json_lines

COLUMNS = ("id", "word", "kind", "at")
NUMBERS: Numbers = {"id": "id", "kind": "integer", "at": "number"}
HOSTILE = [
    b"hello", b"[1]", b"7", b"{", b"}", b'{"id":"7",}', b'{"id":NaN}', b'{"x":Infinity,"id":7}', b'{"at":1e999}',
    b'{"id":"\\ud800"}', b'{"x":"\\ud800","id":3}', b'{"id":"\xff"}', b"\xff\xfe{}", b'\xef\xbb\xbf{"id":5,"at":1}',
    b'{"id":"a\x01"}', b'{"id":{"a":1}}', b'{"id":[1]}', b'{"id":true}', b'{"word":["a"],"id":1}', b'{"id":1}{"id":2}',
    b'{"x":' + b"[" * 70 + b"]" * 70 + b',"id":1}', b'{"x":' + b"[" * 5000 + b"]" * 5000 + b',"id":1}',
    b'{"id":1,"id":2}', b'{"x":' + b"9" * 5000 + b',"id":1}', b'{"id":-0,"word":-0,"at":-0}', b'{"id":1}\r', b" {}",
    b'{"id":9007199254740993.0}', b'{"id":9.007199254740993e15}', b'{"id":9007199254740993}', b'{"id":1e400}',
    b'{"word":7}', b'{"word":7.50}', b'{"word":1E2}', b'{"word":true}', b'{"\\u0069d":7}', b'{"id":"a\\u0000"}',
    b'{"id":', b'1}', b'{"x":{}', b'{"at":123456789012345678901234567890}', b"\x00", b'{"id":7}\x00',
]  # fmt: skip
scalars = st.one_of(st.integers(-(1 << 66), 1 << 66), st.floats(), st.text(), st.booleans(), st.none(), st.just([1]))
plain = st.fixed_dictionaries({"id": st.integers(0, 9), "word": st.just("a"), "kind": st.just(1), "at": st.just(1.5)})
objects = st.one_of(plain, plain, st.dictionaries(st.sampled_from([*COLUMNS, "other"]), scalars))
lines = st.one_of(objects.map(lambda row: json.dumps(row).encode()), st.sampled_from(HOSTILE))


def table(body: bytes, numbers: Numbers | None) -> tuple[list[tuple[Any, ...]], int]:
    """The rows as values that can be compared, whether numbers were read at once or not."""
    frame, unreadable = read_json_lines(body, COLUMNS, "id", numbers)
    assert set(frame.dtypes) <= {pl.String, pl.Int64, pl.Float64}
    # Both casts are those of an axis of numbers; text of whole numbers is the same either way.
    at = frame["at"].cast(pl.Float64, strict=False)
    # Zero is the same number with either sign.
    at = at.set(at == 0, 0.0)
    return frame.with_columns(at, pl.col("id", "kind").cast(pl.String)).rows(), unreadable


@settings(deadline=None, max_examples=300)
@given(st.lists(lines, max_size=6))
@example([b'{"id":7,"word":"a","kind":1,"at":1.5}', b'{"id":8,"at":NaN}'])
def test_each_line_is_its_own(parts: list[bytes]) -> None:
    alone = [table(line, None) for line in parts]
    rows = [row for found, _ in alone for row in found]
    for numbers in (None, NUMBERS):
        assert repr(table(b"\n".join(parts), numbers)) == repr((rows, sum(number for _, number in alone)))


def test_ids_are_never_rounded() -> None:
    texts = ["9007199254740993", "9007199254740993.0", "9.007199254740993e15"]
    body = "".join(f'{{"id": {text}}}\n' for text in texts).encode()
    assert read_json_lines(body, ["id"], "id")[0]["id"].to_list() == texts


@pytest.mark.parametrize("line", [b'{"id":true}', b'{"id":false}', b'{"id":[7]}', b'{"id":{"a":7}}'])
def test_what_names_nobody_is_no_row(line: bytes) -> None:
    frame, unreadable = read_json_lines(line + b'\n{"id":7}\n', ["id"], "id", NUMBERS)
    assert (frame["id"].to_list(), unreadable) == (["7"], 1)


def test_plain_lines_are_read_at_once() -> None:
    body = b'{"id":5,"word":"a","kind":7,"at":7.5,"more":{"x":[1]}}\n{"id":6,"word":"b","kind":8,"at":8}'
    frame, unreadable = read_json_lines(body, COLUMNS, "id", NUMBERS)
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "String", "Int64", "Float64"]
    assert (frame.rows(), unreadable) == ([(5, "a", 7, 7.5), (6, "b", 8, 8.0)], 0)
