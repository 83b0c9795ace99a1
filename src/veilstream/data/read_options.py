"""How a source is written, where its own bytes do not say it."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from veilstream.data.columns import as_text
from veilstream.data.time_formats import check_time_format, parse_times
from veilstream.errors import InvalidInputError

DELIMITERS: Final = (",", ";", "\t", "|")
"""Tried in this order against the names of the columns that are needed."""
NAMED_DELIMITERS: Final = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "\\t": "\t"}
DECIMAL_COMMA: Final = r"^\s*[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+\s*$"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of reading; by default all is recognised.

    ``delimiter`` and ``encoding`` concern CSV files: by default the delimiter is the first of comma, semicolon, tab and
    bar whose header has the columns that are needed, and the encoding is UTF-8 unless a byte order mark says UTF-16.
    ``decimal`` "," reads 1.234,5 as a number in attributes and values, not in ids and times. ``time_format`` is iso,
    day-first, month-first, epoch-s, epoch-ms, epoch-us or codes such as ``%d %b %Y %H:%M``.

    >>> ReadOptions(delimiter="tab").delimiter == chr(9)
    True
    >>> ReadOptions(encoding="klingon")
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: encoding 'klingon': no such encoding, write e.g. utf-8, latin-1, cp1252 or
    utf-16; nothing was read
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: Literal[".", ","] = "."
    time_format: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            given = NAMED_DELIMITERS.get(self.delimiter, self.delimiter)
            if len(given) != 1 or not given.isascii() or given in '"\r\n':
                raise _refused("delimiter", self.delimiter, "one character is needed, e.g. ';', or the word tab")
            object.__setattr__(self, "delimiter", given)
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except (LookupError, ValueError):
                known = "utf-8, latin-1, cp1252 or utf-16"
                raise _refused("encoding", self.encoding, f"no such encoding, write e.g. {known}") from None
        if self.decimal not in (".", ","):
            raise _refused("decimal", self.decimal, "it is '.' or ','")
        if self.time_format is not None:
            check_time_format(self.time_format)

    def normal(self, frame: pl.DataFrame, *, time: str | None, numbers: tuple[str, ...]) -> pl.DataFrame:
        """The frame with times as datetimes, and decimal points in the columns that may hold numbers."""
        changed: list[pl.Series] = []
        if time is not None and self.time_format is not None:
            changed.append(parse_times(frame[time], self.time_format).alias(time))
        if self.decimal == ",":
            textual = (name for name in numbers if isinstance(frame[name].dtype, pl.String | pl.Binary | pl.Object))
            changed.extend(_pointed(as_text(frame[name])) for name in textual)
        return frame.with_columns(changed) if changed else frame


def _pointed(column: pl.Series) -> pl.Series:
    """Text that is a number with a decimal comma, written with a point; other text as it is."""
    comma = column.str.contains(DECIMAL_COMMA)
    plain = column.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return plain.zip_with(comma.fill_null(value=False), column)


def has_decimal_comma(column: pl.Series) -> bool:
    """Whether some text of the column is a number with a decimal comma."""
    return isinstance(column.dtype, pl.String) and bool(column.str.contains(DECIMAL_COMMA).any())


def _refused(name: str, value: str, limit: str) -> InvalidInputError:
    return InvalidInputError(name=name, value=value, limit=limit, outcome="nothing was read")
