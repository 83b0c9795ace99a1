"""Times as people write them: ISO 8601, dates with dots, AM and PM, seconds since 1970, or a format that is told."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import polars as pl

from veilstream.data.columns import as_text
from veilstream.errors import InvalidInputError

EPOCHS: Final = {"epoch-s": 1_000_000, "epoch-ms": 1_000, "epoch-us": 1}
"""Microseconds of one unit."""
DIGITS: Final = {9: "epoch-s", 10: "epoch-s", 13: "epoch-ms", 16: "epoch-us"}
"""Whole numbers of so many digits are instants after 2001 (of 9 digits, after 1973) and before 2286 in one unit alone.
Numbers of 8, 12 or 14 digits may be dates without signs between them, as 20240131."""
SIGNLESS: Final = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""What numbers of so many digits are if they begin with a year."""
CLOCKS: Final = ("%H:%M:%S%.f", "%H:%M", "%I:%M:%S %p", "%I:%M %p")
RECOGNISED: Final = (
    *(f"%Y-%m-%d {clock}" for clock in CLOCKS),
    "%Y-%m-%d",
    *(f"%Y/%m/%d {clock}" for clock in CLOCKS),
    "%Y/%m/%d",
    *(f"%d.%m.%Y {clock}" for clock in CLOCKS),
    "%d.%m.%Y",
    "%Y-%m",
)
"""What needs no option: the year first, or days and months with dots, which are always in this order."""
SLASHED: Final = {
    "day-first": tuple(f"%d/%m/%Y{clock}" for clock in (*(f" {c}" for c in CLOCKS), "")),
    "month-first": tuple(f"%m/%d/%Y{clock}" for clock in (*(f" {c}" for c in CLOCKS), "")),
}
"""01/02/2024 is a day in February or in January: no row can say which."""
NAMES: Final = ("iso", *SLASHED, *EPOCHS)
NAIVE: Final = pl.Datetime("us")
NO_TIME: Final = -(1 << 62)
"""Microseconds since 1970 of a time that no calendar has."""
LAST_MICROSECOND: Final = 62_135_510_400_000_000
"""Instants farther from 1970 than the year 1 are refused: multiplied they would overflow and be others."""
FIRST_YEAR: Final = datetime(1000, 1, 1)
EXPECTED: Final = "2024-01-31 13:45:00 (ISO 8601), 2024/01/31, 31.01.2024, with AM or PM, or seconds since 1970"


def check_time_format(text: str) -> str:
    """Refuse a format that cannot be one.

    >>> check_time_format("day-first"), check_time_format("%d %b %Y %H:%M")
    ('day-first', '%d %b %Y %H:%M')
    >>> check_time_format("dd/mm/yyyy")
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: time format 'dd/mm/yyyy': choose iso, day-first, month-first, epoch-s,
    epoch-ms, epoch-us, or write it with codes such as %d/%m/%Y %H:%M; nothing was read
    """
    if text in NAMES or ("%" in text and any(code in text for code in ("%Y", "%y", "%F", "%D", "%s", "%c", "%x"))):
        return text
    raise InvalidInputError(
        name="time format",
        value=text,
        limit=f"choose {', '.join(NAMES)}, or write it with codes such as %d/%m/%Y %H:%M",
        outcome="nothing was read",
    )


def parse_times(column: pl.Series, form: str) -> pl.Series:
    """A column of text or numbers as datetimes: without a zone, or of UTC if the format tells instants.

    >>> parse_times(pl.Series("t", ["31/01/2024 1:45 PM", None]), "day-first").to_list()
    [datetime.datetime(2024, 1, 31, 13, 45), None]
    >>> parse_times(pl.Series("t", [1704067200]), "epoch-s").dtype
    Datetime(time_unit='us', time_zone='UTC')
    """
    check_time_format(form)
    if form == "iso" or column.dtype.is_temporal() or column.dtype == pl.Null:
        return column
    if not column.dtype.is_numeric():
        column = as_text(column).str.strip_chars()
    if form in EPOCHS:
        return _checked(column, from_epoch(column, form))
    return _checked(column, first_fit(as_text(column), SLASHED.get(form, (form,))))


def from_epoch(column: pl.Series, unit: str) -> pl.Series:
    """Seconds (whole or not), milliseconds or microseconds since 1970 as instants; null where there is no number."""
    if unit == "epoch-s" and not column.dtype.is_integer():
        seconds = column.cast(pl.Float64, strict=False)
        finite = seconds.set(~seconds.is_finite().fill_null(value=False), None)
        finite = finite.set(finite.abs() > LAST_MICROSECOND / 1_000_000, None)
        return (finite * 1_000_000).round().cast(pl.Int64, strict=False).cast(pl.Datetime("us", "UTC"))
    given = column.cast(pl.Int64, strict=False)
    ticks = given.set(given.abs() > LAST_MICROSECOND // EPOCHS[unit], None) * EPOCHS[unit]
    return ticks.cast(pl.Datetime("us", "UTC"))


def from_epoch_of_our_time(whole: pl.Series) -> pl.Series:
    """Whole numbers as instants, each in the unit in which it has as many digits as instants of our time; else null.

    >>> from_epoch_of_our_time(pl.Series([1704067200, 1704067200000, 20240101])).dt.year().to_list()
    [2024, 2024, None]
    """
    ticks = whole.set(whole.is_not_null(), None)
    for digits, unit in DIGITS.items():
        fits = whole.is_between(10 ** (digits - 1), 10**digits - 1)
        ticks = ticks.fill_null(whole.set(fits.fill_null(False).not_(), None) * EPOCHS[unit])
    return ticks.cast(pl.Datetime("us", "UTC"))


def first_fit(text: pl.Series, forms: tuple[str, ...]) -> pl.Series:
    """Each text by the first of the formats that reads it, else null."""
    parsed: pl.Series | None = None
    missing = text.null_count()
    for form in forms:
        more = text.str.to_datetime(form, time_unit="us", strict=False)
        if more.dtype == NAIVE and (more < FIRST_YEAR).any():
            # "%Y" reads 24 as the year 24; nobody means that.
            more = more.set(more < FIRST_YEAR, None)
        parsed = more if parsed is None else parsed.fill_null(more)
        if parsed.null_count() == missing:
            break
    assert parsed is not None
    return parsed


def _checked(column: pl.Series, parsed: pl.Series) -> pl.Series:
    """What is not written as the format says becomes a time that no calendar has: it is not missing."""
    return parsed.set(parsed.is_null() & column.is_not_null(), None).fill_null(
        pl.Series([NO_TIME]).cast(parsed.dtype).new_from_index(0, len(parsed)).set(column.is_null(), None)
    )


def _hint_on_numbers(text: pl.Series) -> str:
    """Dates without signs between them, or instants in a unit."""
    for digits, form in SIGNLESS.items():
        if text.drop_nulls().str.contains(rf"^(19|20)\d{{{digits - 2}}}$").any():
            return f"if times are dates written without signs, give --time-format {form}"
    return "give --time-format epoch-s, epoch-ms or epoch-us; if times are numbers of steps, a whole number for --every"


def unreadable_times(column: pl.Series, unreadable: int) -> InvalidInputError:
    """Say what was expected, and which option reads what seems to be there; never a time itself."""
    hint = "tell with --time-format how times are written, e.g. '%d %b %Y %H:%M'"
    if column.dtype.is_numeric():
        hint = _hint_on_numbers(column.cast(pl.String))
    elif isinstance(column.dtype, pl.String):
        text = column.str.strip_chars()
        if text.str.contains(r"^\d{1,2}/\d{1,2}/\d{4}").any():
            hint = "say which comes first: --time-format day-first (31/01/2024) or month-first (01/31/2024)"
        elif text.str.contains(r"^\d{1,2}/\d{1,2}/\d{2}\b").any():
            hint = "say how years of two digits are written: --time-format '%d/%m/%y' or '%m/%d/%y'"
        elif text.str.contains(r"^-?\d+(\.\d+)?$").any():
            hint = _hint_on_numbers(text)
    return InvalidInputError(
        f"time column '{column.name}': a time cannot be read or does not exist in the zone, expected is {EXPECTED}",
        next_step=hint,
        name=column.name,
        operator_note=f"{unreadable} of {len(column)} times in this batch",
    )
