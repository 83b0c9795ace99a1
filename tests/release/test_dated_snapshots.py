"""Snapshots from bounded events carry their time, and a stream keeps to the times of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import veilstream as vs
from veilstream.data import read_events
from veilstream.data.bounding import bound
from veilstream.mechanisms.streams.uniform import Uniform
from veilstream.storage.ledger import Ledger
from veilstream.trusted.counts import Sealed

DOMAIN = vs.Domain({"place": vs.Categories(["a", "b"])})
GUARANTEE = vs.Guarantee(1, w=7)


def day_counts(start: str, end: str, every: str = "1d", first_t: int = 0) -> Iterator[Sealed]:
    times = pl.Series([start]).str.to_datetime()
    events = read_events(pl.DataFrame({"id": [1], "time": times, "place": ["a"]}), user="id", time="time", by=["place"])
    with bound(events, DOMAIN, vs.Calendar(start, end, every), key=bytes(32)) as bounded:
        yield from bounded.snapshots(first_t)


def publisher(ledger: Path) -> vs.Publisher[Any]:
    return vs.Publisher(DOMAIN, GUARANTEE, Uniform(), ledger, stream="visits")


def test_the_first_snapshot_records_the_calendar_and_another_start_is_refused(tmp_path: Path) -> None:
    ledger = tmp_path / "budget.db"
    with publisher(ledger) as stream:
        for snapshot in day_counts("2024-01-01", "2024-01-04"):
            stream.feed(snapshot)
    with Ledger.open(ledger) as book:
        anchor = book.spec("visits").anchor
    assert anchor is not None
    assert anchor.start == "2024-01-01T00:00:00+00:00"
    with publisher(ledger) as stream:
        with pytest.raises(vs.LedgerMismatchError) as caught:
            stream.feed(next(day_counts("2024-01-02", "2024-01-05", first_t=3)))
        assert caught.value.name == "snapshot"
        assert stream.feed(next(day_counts("2024-01-04", "2024-01-05", first_t=3))).t == 3


@pytest.mark.parametrize(("start", "every"), [("2023-12-31", "1d"), ("2024-01-01", "1h")])
def test_a_step_fed_again_must_be_of_its_time(tmp_path: Path, start: str, every: str) -> None:
    with publisher(tmp_path / "budget.db") as stream:
        stream.feed(next(day_counts("2024-01-01", "2024-01-04")))
        with pytest.raises(vs.LedgerMismatchError):
            stream.feed(next(day_counts(start, "2024-01-04", every)))


def test_plain_counts_go_on_where_dated_ones_ended(tmp_path: Path) -> None:
    with publisher(tmp_path / "budget.db") as stream:
        stream.feed(next(day_counts("2024-01-01", "2024-01-04")))
        assert stream.feed(np.array([3, 4])).t == 1


def test_counts_without_times_leave_no_room_for_a_calendar_afterwards(tmp_path: Path) -> None:
    ledger = tmp_path / "budget.db"
    with publisher(ledger) as stream:
        stream.feed(np.array([3, 4]))
        stream.feed(next(day_counts("2024-01-02", "2024-01-04", first_t=1)))
    with Ledger.open(ledger) as book:
        assert book.spec("visits").anchor is None
