"""A small domain and calendar, and events bounded in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.data import Calendar, Categories, Domain, read_events
from veilstream.data.bounding import Bounded, bound
from veilstream.trusted.opening import open_counts

KEY = b"sixteen bytes or more"
STEPS, BINS = 4, 5
DOMAIN = Domain({"bin": Categories(range(BINS))})
CALENDAR = Calendar(0, STEPS, 1)
Row = tuple[Any, int, int]


def table(rows: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(("user", "time", "bin"))}


def bounded(source: Any, **options: Any) -> Bounded:
    options = {"key": KEY} | options
    return bound(read_events(source, user="user", time="time", by=["bin"]), DOMAIN, CALENDAR, **options)


def counts(source: Any, **options: Any) -> NDArray[np.int64]:
    with bounded(source, **options) as held:
        return np.array([open_counts(step) for step in held.snapshots()])
