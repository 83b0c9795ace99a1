"""Steps of time: zones, offsets, months, gaps, and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.data import MISSING, OUTSIDE, Calendar
from veilstream.errors import InvalidInputError

DAY = Calendar("2024-03-01", "2024-03-02", "1h")


@pytest.mark.parametrize(
    ("every", "steps"),
    [("1h", 744), ("15m", 2976), ("1d", 31), ("1w", 5), ("1mo", 1), ("30s", 89280), ("7h", 107)],
)
def test_how_many_steps_a_month_has(every: str, steps: int) -> None:
    assert Calendar("2024-03-01", "2024-04-01", every).steps == steps


@given(st.integers(0, 10**9), st.integers(1, 10**4), st.integers(1, 500))
@settings(deadline=None)
def test_every_step_begins_in_itself(start: int, length: int, every: int) -> None:
    calendar = Calendar(start, start + length, every)
    begins = [calendar.begins(t) for t in range(calendar.steps)]
    assert calendar.step_of(begins).tolist() == list(range(calendar.steps))
    assert calendar.step_of([start - 1, start + length]).tolist() == [OUTSIDE, OUTSIDE]
    assert calendar.step_of([start + length - 1]).tolist() == [calendar.steps - 1]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu"])
@pytest.mark.parametrize("every", ["6h", "1d", "2d", "1w", "1mo", "1q", "1y"])
def test_calendar_steps_cover_time_without_gap(zone: str, every: str) -> None:
    calendar = Calendar("2023-01-31", "2025-02-10", every, zone)
    begins: list[Any] = [calendar.begins(t) for t in range(calendar.steps)]
    assert begins == sorted(set(begins))
    just_before = [begin.astimezone(UTC) - timedelta(microseconds=1) for begin in begins]
    assert calendar.step_of(pl.Series(begins)).tolist() == list(range(calendar.steps))
    assert calendar.step_of(pl.Series(just_before)).tolist() == [OUTSIDE, *range(calendar.steps - 1)]


def test_days_follow_the_local_clock() -> None:
    paris = Calendar("2024-03-30", "2024-04-02", "1d", "Europe/Paris")
    lengths = [
        pl.Series([paris.begins(t), paris.begins(t + 1)]).dt.convert_time_zone("UTC").diff()[1] for t in range(2)
    ]
    assert lengths == [timedelta(hours=24), timedelta(hours=23)]
    assert paris.label(2) == "2024-04-01T00:00:00+02:00"
    assert paris.step_of(["2024-03-31T23:59:59", "2024-04-01"]).tolist() == [1, 2]


def test_months_end_on_their_own_last_day() -> None:
    calendar = Calendar("2024-01-31", "2024-06-01", "1mo")
    assert [calendar.label(t)[:10] for t in range(calendar.steps)] == [
        "2024-01-31",
        "2024-02-29",
        "2024-03-31",
        "2024-04-30",
        "2024-05-31",
    ]


@pytest.mark.parametrize(
    "column",
    [
        ["2024-03-01T05:30:00", "2024-03-01 05:30"],
        ["2024-03-01T05:30:00Z", "2024-03-01T06:30:00+01:00"],
        ["2024-03-01T05:30:00.123456Z", "2024-03-01T00:30:00-0500"],
        ["2024-03-01 05:30:00 +00:00", "2024-02-29T23:45:00-05:45"],
        [datetime(2024, 3, 1, 5, 30), datetime(2024, 3, 1, 5, 59)],
        [datetime(2024, 3, 1, 5, 30, tzinfo=UTC), datetime(2024, 3, 1, 5, 59, 59, tzinfo=UTC)],
        pl.Series([datetime(2024, 3, 1, 5, 30)] * 2).dt.cast_time_unit("ns"),
        pl.Series([datetime(2024, 3, 1, 5, 30)] * 2).dt.cast_time_unit("ms"),
        pl.Series([datetime(2024, 3, 1, 6, 30)] * 2).dt.replace_time_zone("Europe/Paris"),
    ],
)
def test_however_a_time_is_written_it_is_the_same_step(column: Any) -> None:
    assert DAY.step_of(column).tolist() == [5, 5]


def test_two_offsets_in_one_column_are_one_line_of_time() -> None:
    plus = [(datetime(2024, 3, 1, h, 10, tzinfo=UTC).astimezone(timezone(timedelta(hours=h - 12)))) for h in range(24)]
    assert DAY.step_of([moment.isoformat() for moment in plus]).tolist() == list(range(24))


def test_naive_times_are_taken_in_the_zone() -> None:
    paris = Calendar("2024-03-01", "2024-03-02", "1h", "Europe/Paris")
    assert paris.step_of(["2024-03-01T00:10:00"]).tolist() == [0]
    assert paris.step_of(["2024-03-01T00:10:00+01:00"]).tolist() == [0]
    assert paris.step_of(["2024-03-01T00:10:00Z"]).tolist() == [1]
    assert paris.step_of([date(2024, 3, 1)]).tolist() == [0]


def test_every_time_of_a_column_is_read_by_itself() -> None:
    """With an offset, without one, and as a number: one column of one row each gives the same steps."""
    paris = Calendar("2024-03-01", "2024-03-02", "1h", "Europe/Paris")
    times = ["2024-03-01T05:30:00Z", "2024-03-01T05:30:00", "1709271000", "1709271000000", "1709271000.0", None]
    assert paris.step_of(times).tolist() == [paris.step_of([time])[0] for time in times] == [6, 5, 6, 6, 6, MISSING]


@pytest.mark.parametrize("bad", ["yesterday", "2024-13-01", "2024-03-01T25:00:00", "05:30:00", "2024-03-01T05:30:00+1"])
def test_unreadable_times_are_refused_without_being_shown(bad: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be read") as caught:
        DAY.step_of(["2024-03-01T05:30:00", bad])
    assert bad not in str(caught.value)


def test_a_time_that_the_clocks_skipped_is_refused() -> None:
    paris = Calendar("2024-03-31", "2024-04-01", "1h", "Europe/Paris")
    assert paris.steps == 23
    with pytest.raises(InvalidInputError, match="does not exist"):
        paris.step_of(["2024-03-31T02:30:00"])
    back = Calendar("2024-10-27", "2024-10-28", "1h", "Europe/Paris")
    assert back.step_of(["2024-10-27T02:30:00", "2024-10-27T03:30:00"]).tolist() == [2, 4]


def test_missing_and_outside_are_told_apart() -> None:
    assert DAY.step_of([None, "2024-02-29", "2024-03-02"]).tolist() == [MISSING, OUTSIDE, OUTSIDE]
    assert DAY.step_of([None, None]).tolist() == [MISSING, MISSING]
    assert Calendar(0, 4, 1).step_of([None, None]).tolist() == [MISSING, MISSING]
    assert Calendar(0, 4, 1).step_of(["3", None, "-1"]).tolist() == [3, MISSING, OUTSIDE]
    assert Calendar(0, 4, 1).step_of([3.0, float("nan"), None]).tolist() == [3, MISSING, MISSING]


def test_a_time_of_the_wrong_kind_is_refused() -> None:
    for calendar, column in (
        (DAY, [1, 2]),
        (Calendar(0, 4, 1), [date(2024, 1, 1)]),
        (Calendar(0, 4, 1), [1.5]),
    ):
        with pytest.raises(InvalidInputError, match="time column 'time'"):
            calendar.step_of(column)


@pytest.mark.parametrize(
    "arguments",
    [
        ("2024-01-02", "2024-01-01", "1h"),
        ("2024-01-01", "2024-01-01", "1h"),
        ("2024-01-01", "2024-01-02", "1"),
        ("2024-01-01", "2024-01-02", "0h"),
        ("2024-01-01", "2024-01-02", "-1h"),
        ("2024-01-01", "2024-01-02", "fortnight"),
        ("2024-01-01", "2024-01-02", 3),
        ("2024-01-01", 7, "1h"),
        ("noon", "2024-01-02", "1h"),
        (0, 10, 0),
        (0, 10, "1h"),
        (0, 10**9, 1),
        ("2024-01-01", "2024-01-02", "1us"),
        ("2024-01-01", "2024-01-02", "1h", "Mars/Base"),
        ("2024-01-01", "2024-01-02", "1h", "../etc"),
    ],
)
def test_bad_calendars_are_refused(arguments: Any) -> None:
    with pytest.raises(InvalidInputError, match="nothing was released"):
        Calendar(*arguments)


def test_labels_stop_at_the_end() -> None:
    assert DAY.label(23) == "2024-03-01T23:00:00+00:00"
    assert Calendar(5, 10, 2).label(2) == "9"
    with pytest.raises(InvalidInputError, match="0 to 23"):
        DAY.label(24)


def test_learning_the_range_from_public_times() -> None:
    times = ["2024-03-01T05:30:00", "2024-03-01T07:00:00"]
    calendar = Calendar.from_public_data(times, "1h")
    assert (calendar.label(0), calendar.steps) == ("2024-03-01T05:00:00+00:00", 3)
    assert calendar.step_of(times).tolist() == [0, 2]
    monthly = Calendar.from_public_data([date(2024, 1, 15), date(2024, 3, 1)], "1mo", "Europe/Paris")
    assert (monthly.label(0), monthly.steps) == ("2024-01-01T00:00:00+01:00", 3)
    assert Calendar.from_public_data([7, 12], 5).step_of([7, 12]).tolist() == [0, 1]
    with pytest.raises(InvalidInputError, match="0 times"):
        Calendar.from_public_data([None], "1h")
