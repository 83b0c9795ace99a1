"""Publishing with people who count in few steps: options, history between runs, the picture of cost."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

import veilstream as vs

from .support import City, Outcome, veilstream


def visits(days: int) -> list[str]:
    """Three people who come every day, and one who comes once."""
    daily = [f"2024-01-{day:02d}T10:00:00,{who},market,30" for day in range(1, days + 1) for who in range(3)]
    return [*daily, "2024-01-02T11:00:00,9,market,30"]


def publish(city: City, end: str, *more: object) -> Outcome:
    options = city.options(every="1d", start="2024-01-01", end=end, window=None, epsilon=1)
    return veilstream("publish", city.events, *options, *more)


def test_a_run_that_goes_on_remembers_who_was_present(tmp_path: Path) -> None:
    city = City.make(tmp_path, visits(3))
    first = publish(city, "2024-01-04", "--window", 7, "--presence", 2)
    assert first.code == 0, first.err
    assert "3 of people who counted in enough steps" in first.err
    history = next(tmp_path.glob("*.presence"))
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    # The next file holds the new days alone: without its history everybody would count anew.
    city.write([line for line in visits(5) if line[8:10] in ("04", "05")])
    second = publish(city, "2024-01-06", "--window", 7, "--presence", 2)
    assert second.code == 0, second.err
    assert "6 of people who counted in enough steps" in second.err


def test_a_lost_history_is_refused_unless_all_rows_are_given(tmp_path: Path) -> None:
    city = City.make(tmp_path, visits(3))
    promise = ("--window", 7, "--presence", 2)
    assert publish(city, "2024-01-04", *promise).code == 0
    next(tmp_path.glob("*.presence")).unlink()
    city.write(visits(5))
    refused = publish(city, "2024-01-06", *promise, "--json")
    assert refused.code == 4
    assert refused.json["error"]["name"] == "presence history"
    assert "--all-rows" in refused.json["error"]["next_step"]
    done = publish(city, "2024-01-06", *promise, "--all-rows")
    assert done.code == 0, done.err
    assert "9 of people who counted in enough steps" in done.err


def test_blocks_follow_the_calendar_and_the_dry_run_says_what_is_charged(tmp_path: Path) -> None:
    city = City.make(tmp_path, visits(14))
    seen = publish(city, "2024-01-15", "--per", "1w", "--presence", 2, "--dry-run", "--json")
    assert seen.code == 0, seen.err
    assert seen.json["epsilon_per_release"] == "1/2"
    assert seen.json["epsilon_per_window"] == "1"
    done = publish(city, "2024-01-15", "--per", "1w", "--presence", 2)
    assert done.code == 0, done.err
    assert "one block of 1w" in done.out


@pytest.mark.parametrize(
    "more",
    [("--per", "1w"), ("--per", "1w", "--window", 7, "--presence", 2), ("--window", 4, "--presence", 2)],
    ids=["no presence", "block and window", "dearer than none"],
)
def test_promises_that_make_no_sense_are_refused(tmp_path: Path, more: tuple[object, ...]) -> None:
    refused = publish(City.make(tmp_path, visits(3)), "2024-01-04", *more)
    assert refused.code != 0
    assert re.search("^error: (per|presence)", refused.err)
    assert not list(tmp_path.glob("*.db"))


def test_a_table_is_published_in_one_call(tmp_path: Path) -> None:
    table = {"id": [1, 1, 1, 2], "day": [0, 1, 2, 2]}
    done = vs.publish(
        table, user="id", time="day", every=1, start=0, end=3, epsilon=1, per=3, presence=1, ledger=tmp_path / "a.db"
    )
    assert [release.spent for release in done.releases] == [1, 1, 1]
