"""Rows that come as text: CSV.

What becomes of a row must not depend on the rows around it, so a reader may not guess types from what it sees: every
value is read as text, and read on from there. Where the whole of a column is plainly numbers, reading numbers at once
gives the same rows in half the time. So that is tried first, in the cases in which both ways agree about every value,
and given up for text where a single value is anything else.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import polars as pl

from veilstream.data import csv_files
from veilstream.data.csv_files import BLOCK_BYTES, QUOTE
from veilstream.data.encoding import Dropped
from veilstream.data.json_lines import Numbers
from veilstream.data.read_options import ReadOptions
from veilstream.errors import InvalidInputError

NOTHING: Final = "nothing was stored"
MOST_COLUMNS: Final = 4096


def lines(body: bytes) -> int:
    """How many lines end in a body."""
    return body.count(b"\n")


def check_columns(count: int) -> None:
    """Refuse tables that are wider than any that people make: each column costs memory, however empty it is."""
    if count > MOST_COLUMNS:
        raise InvalidInputError(
            name="columns",
            value=count,
            limit=f"at most {MOST_COLUMNS}; send those that the stream reads",
            outcome=NOTHING,
        )


def read_csv(body: bytes, columns: Sequence[str], names: Sequence[str], numbers: Numbers) -> tuple[pl.DataFrame, int]:
    """The columns of a CSV body whose header holds ``names``, and how many rows have more or fewer fields."""
    arrow: Any = import_module("pyarrow")
    types = _csv_types(arrow, body, names, numbers)
    if types and len(body) <= BLOCK_BYTES and QUOTE not in body:
        try:
            return _read_numbers(body, columns, types), 0
        except arrow.ArrowInvalid:
            pass
    dropped = Dropped()
    found = list(csv_files.read_csv(io.BytesIO(body), "body", columns, ReadOptions(delimiter=","), dropped))
    # Text that is none in UTF-8 comes as bytes, of all rows of its block.
    kind = pl.Binary if any(pl.Binary in frame.dtypes for frame in found) else pl.String
    nothing = pl.DataFrame(schema=dict.fromkeys(columns, kind))
    return pl.concat([nothing, *[frame.cast(kind) for frame in found]]), dropped.unreadable


def _read_numbers(body: bytes, columns: Sequence[str], types: Mapping[str, Any]) -> pl.DataFrame:
    arrow, csv = import_module("pyarrow"), import_module("pyarrow.csv")
    table = csv.read_csv(
        arrow.BufferReader(body),
        csv.ReadOptions(use_threads=False),
        csv.ParseOptions(),
        csv.ConvertOptions(
            include_columns=list(columns),
            column_types={**dict.fromkeys(columns, arrow.string()), **types},
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    frame: pl.DataFrame = getattr(pl, "from_arrow")(table)  # noqa: B009
    return frame


def _csv_types(arrow: Any, body: bytes, names: Sequence[str], numbers: Numbers) -> dict[str, Any]:
    """The types to try. PyArrow cuts off blanks and reads hexadecimal digits in numbers, which text does not mean."""
    header, _, rest = body.partition(b"\n")
    first = rest[: 1 << 12].partition(b"\n")[0].decode(errors="replace").split(",")
    start = len(header)
    if len(first) != len(names) or any(body.find(mark, start) >= 0 for mark in (b"0x", b"0X") if _letter(body, mark)):
        return {}
    blanks = any(body.find(mark, start) >= 0 for mark in (b" ", b"\t"))
    types: dict[str, Any] = {}
    for name, kind in numbers.items():
        value = first[list(names).index(name)].strip().strip('"')
        # Ids mean the same with blanks around them, numbers of an attribute do not.
        if (not blanks or kind == "id") and _reads(float if kind == "number" else int, value):
            types[name] = arrow.float64() if kind == "number" else arrow.int64()
    return types


def _letter(body: bytes, mark: bytes) -> bool:
    # One letter is found far sooner than two.
    return mark[1:] in body


def _reads(kind: Callable[[str], object], value: str) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True


def header(body: bytes) -> list[str]:
    """The names of the columns of a CSV body."""
    if body.count(b'"') % 2:
        raise InvalidInputError("body: a quote is opened and never closed; correct the rows", outcome=NOTHING)
    end = body.find(b"\n")
    end = len(body) if end < 0 else end
    check_columns(body.count(b",", 0, end) + 1)
    first = body[:end].decode("utf-8-sig").rstrip("\r")
    return [name.strip().strip('"') for name in first.split(",")]
