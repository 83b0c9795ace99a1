"""JSON objects, one a line, as a table: the one reader of such lines, whether they come over HTTP or from a broker.

What becomes of a row depends on its own line. Each line is read alone, and a number keeps the text that was sent: read
as a double, 9007199254740993 would be another person's id. Reading all lines at once is several times as fast, so
that is tried first, in the cases in which both ways agree about every line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.documents import read_json

Numbers: TypeAlias = Mapping[str, Literal["id", "integer", "number"]]
"""Columns that may be read as numbers: ids and integer categories by whole numbers, numeric bins by any."""
NEWLINE, OPEN, BRACKET = b"\n{["
MOST_BRACKETS: Final = 64
"""A line with more objects and arrays is read alone: readers differ in how deep they go."""
NO_NUMBERS: Final = (b"NaN", b"Inf")
"""What PyArrow takes for numbers, and JSON does not know."""


def read_json_lines(
    body: bytes, columns: Sequence[str], user: str, numbers: Numbers | None = None
) -> tuple[pl.DataFrame, int]:
    """The named columns of JSON objects, one a line, and how many lines are no row; blank lines are none of either.

    A line is no row if it is no JSON object in UTF-8, or if its ``user`` is a truth value, an array or an object.
    Elsewhere an array or an object is a missing value.

    >>> body = b'{"id": 7, "place": "a"}\\n{"id": 9007199254740993.0}\\n{"id": true}\\nwhat?\\n'
    >>> frame, unreadable = read_json_lines(body, ["id", "place"], "id")
    >>> frame.rows(), unreadable
    ([('7', 'a'), ('9007199254740993.0', None)], 2)
    """
    whole = _read_whole(body, columns, user, numbers or {})
    return (whole, 0) if whole is not None else _read_each(body, columns, user)


def is_row(line: bytes, columns: Sequence[str], user: str) -> bool:
    """Whether ``read_json_lines`` takes a line for a row."""
    return _row(line, columns, user) is not None


def _read_each(body: bytes, columns: Sequence[str], user: str) -> tuple[pl.DataFrame, int]:
    found: dict[str, list[str | None]] = {name: [] for name in columns}
    lines = [line for line in body.split(b"\n") if line.strip()]
    unreadable = 0
    for line in lines:
        row = _row(line, columns, user)
        if row is None:
            unreadable += 1
            continue
        for values, value in zip(found.values(), row, strict=True):
            values.append(value)
    return pl.DataFrame(found, schema=dict.fromkeys(columns, pl.String)), unreadable


def _row(line: bytes, columns: Sequence[str], user: str) -> list[str | None] | None:
    """The values of a line as text, None where there is none; None for a line that is no row."""
    try:
        # Not the reader of documents, which takes UTF-16 as well; a mark of UTF-8 says nothing and is left out.
        value: object = _DECODER.decode(line.decode("utf-8-sig"))
        if not isinstance(value, dict):
            return None
        items = cast("dict[str, object]", value)
        if isinstance(items.get(user), bool | list | dict):
            return None
        row = [_text(items.get(name)) for name in columns]
        for text in row:
            if text is not None and not text.isascii():
                text.encode()
    except (ValueError, RecursionError):
        return None
    return row


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else None


def _whole_number(text: str) -> str:
    return "0" if text == "-0" else text


def _no_number(name: str) -> None:
    raise ValueError(name)


_DECODER: Final = json.JSONDecoder(parse_float=str, parse_int=_whole_number, parse_constant=_no_number)


def _read_whole(body: bytes, columns: Sequence[str], user: str, numbers: Numbers) -> pl.DataFrame | None:
    """What reading each line alone gives, or None where that cannot be promised."""
    arrow: Any = import_module("pyarrow")
    types = _types(arrow, body, columns, user, numbers)
    lines = _plain_lines(body)
    if types is None or lines == 0 or any(word in body for word in NO_NUMBERS) or not _is_utf8(body):
        return None
    reader: Any = import_module("pyarrow.json")
    try:
        # A type that is stated is kept to: text is no number, and a number is read from the text that was sent.
        table = reader.read_json(
            arrow.BufferReader(body),
            reader.ReadOptions(use_threads=False, block_size=len(body) + 1),
            reader.ParseOptions(explicit_schema=arrow.schema(types), unexpected_field_behavior="ignore"),
        )
    except (arrow.ArrowException, UnicodeDecodeError, OverflowError):
        return None
    if table.num_rows != lines:
        return None
    frame: pl.DataFrame = getattr(pl, "from_arrow")(table)  # noqa: B009
    texts = [name for name in columns if name not in numbers]
    return frame.with_columns(pl.col(texts).cast(pl.String)) if texts else frame


def _types(
    arrow: Any, body: bytes, columns: Sequence[str], user: str, numbers: Numbers
) -> list[tuple[str, Any]] | None:
    """The types to try, told by the first line: it only saves a try that must fail."""
    try:
        found: object = read_json(body.partition(b"\n")[0])
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    first, types = cast("dict[str, object]", found), list[tuple[str, Any]]()
    for name in columns:
        value = first.get(name)
        if isinstance(value, bool):
            if name == user or name in numbers:
                return None
            types.append((name, arrow.bool_()))
        elif isinstance(value, int | float) and numbers.get(name) == "number":
            types.append((name, arrow.float64()))
        elif isinstance(value, int):
            types.append((name, arrow.int64()))
        elif isinstance(value, float):
            return None
        else:
            types.append((name, arrow.string()))
    return types


def _plain_lines(body: bytes) -> int:
    """How many lines there are if each begins with ``{``, ends with ``}`` and is not deep; otherwise 0.

    A line break between ``}`` and ``{`` cannot lie within an object, so as many objects as lines are one to a line.
    """
    ends = body.count(b"\n") - body.endswith(b"\n")
    whole = body.startswith(b"{") and body.endswith((b"}", b"}\n")) and body.count(b"}\n{") == ends
    return ends + 1 if whole and not _is_deep(body, ends + 1) else 0


def _is_deep(body: bytes, lines: int) -> bool:
    """Whether a line holds many objects and arrays; the shallow ones that everybody sends are known by a count."""
    if body.count(b"{") + body.count(b"[") == lines:
        return False
    data: NDArray[np.uint8] = np.frombuffer(body, np.uint8)
    opened = np.flatnonzero((data == OPEN) | (data == BRACKET))
    before = np.searchsorted(opened, np.flatnonzero(data == NEWLINE))
    return bool(np.diff(before, prepend=0, append=len(opened)).max() > MOST_BRACKETS)


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
