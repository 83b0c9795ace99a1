"""Reading numbers at once gives the rows that reading text gives, whatever the values: no row decides about another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.data.bounding.keyed import Key
from veilstream.data.csv_files import HEADER_BYTES
from veilstream.errors import InvalidInputError
from veilstream.live import StreamDefinition
from veilstream.live.rows import EncodedBatch, encode_batch
from veilstream.server.bodies import CSV, NDJSON, read_body

STREAM = StreamDefinition(
    "s", user="id", domain={"at": {"edges": [0, 1.5, 8, 100]}, "kind": [1, 7, 31], "word": ["7", "a"]},
    start="2024-01-01", every="1h", epsilon="1", window=1,
)  # fmt: skip
COLUMNS = ("id", "at", "kind", "word")
ODD = [
    "7", "007", "+7", "-0", " 7", "7 ", "\t7", "0x1F", "0X7", "7.0", "7.5", "1e3", "1e400", "nan", "inf", ".5", "1_0",
    "9223372036854775808", "18446744073709551616", "-9223372036854775808", "", "a", "7e0", "٣", "true",
]  # fmt: skip
plain = st.integers(-3, 120).map(str)
cells = st.one_of(plain, plain, st.sampled_from(ODD))


def outcome(body: bytes, kind: str, numbers: Any) -> tuple[Any, ...]:
    """Who counts in which bin, and what became of the others."""
    try:
        frame, unreadable = read_body(body, kind, COLUMNS, 1000, numbers)
    except InvalidInputError as error:
        return (str(error),)
    encoded: EncodedBatch = encode_batch(frame, STREAM, Key(bytes(32)))
    rows = [
        (step, part.low.tolist(), None if part.high is None else part.high.tolist(), part.cell.tolist())
        for step, part in encoded.parts.items()
    ]
    return rows, unreadable, [getattr(encoded.fates, name) for name in encoded.fates.__slots__]


def csv_body(rows: Sequence[tuple[str, ...]]) -> bytes:
    return "\n".join([",".join(COLUMNS), *(",".join(row) for row in rows), ""]).encode()


@settings(deadline=None)
@given(st.lists(st.tuples(cells, cells, cells, cells), min_size=1, max_size=6))
def test_csv(rows: list[tuple[str, ...]]) -> None:
    body = csv_body(rows)
    assert outcome(body, CSV, STREAM.number_columns) == outcome(body, CSV, None)


values = st.one_of(
    st.integers(-3, 120), st.integers(-3, 120), st.sampled_from(ODD), st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(), st.none(), st.integers(-(1 << 70), 1 << 70),
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(COLUMNS, values)), min_size=1, max_size=6))
def test_ndjson(rows: list[dict[str, Any]]) -> None:
    body = "".join(json.dumps(row) + "\n" for row in rows).encode()
    assert outcome(body, NDJSON, STREAM.number_columns) == outcome(body, NDJSON, None)


@pytest.mark.parametrize("kind", [CSV, NDJSON])
def test_plain_numbers_are_read_as_numbers(kind: str) -> None:
    """The quick way is taken where it can be."""
    rows = [("5", "7.5", "31", "a"), ("6", "8", "7", "7")]
    body = csv_body(rows)
    if kind == NDJSON:
        body = b'{"id":5,"at":7.5,"kind":31,"word":"a"}\n{"id":6,"at":8,"kind":7,"word":"7"}\n'
    frame, _ = read_body(body, kind, COLUMNS, 1000, STREAM.number_columns)
    assert [str(frame[name].dtype) for name in COLUMNS] == ["Int64", "Float64", "Int64", "String"]
    assert np.allclose(frame["at"].to_numpy(), [7.5, 8])


@pytest.mark.parametrize("word", ["long" * 5, '"long word of a place"'])
def test_bodies_longer_than_what_is_looked_at_first(word: str) -> None:
    rows = [("p", "7.5", "31", word)] * 60_000
    body = csv_body(rows)
    assert len(body) > HEADER_BYTES
    frame, unreadable = read_body(body, CSV, COLUMNS, 100_000, STREAM.number_columns)
    assert (len(frame), unreadable) == (60_000, 0)
