"""Random tables of events, and what bounding them on one machine gives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from veilstream.data import Calendar, Categories, Domain, Dropped, Edges, read_events
from veilstream.data.bounding import bound
from veilstream.trusted.counts import Sealed
from veilstream.trusted.opening import open_counts

KEY: Final = b"sixteen bytes or more"
DOMAIN: Final = Domain({"place": Categories(["a", "b", "ç"]), "age": Edges([0, 18, 65, 120])})
CALENDAR: Final = Calendar("2024-03-30", "2024-04-03", "1d", zone="Europe/Paris")
START: Final = datetime.fromisoformat("2024-03-29T12:00:00+00:00")
OPTIONS: Final[dict[str, Any]] = {"unknown": "drop", "missing_time": "drop"}


def opened(steps: Iterable[Sealed]) -> NDArray[np.int64]:
    return np.array([open_counts(step) for step in steps])


def alone(source: Any, domain: Domain = DOMAIN, calendar: Calendar = CALENDAR, **options: Any) -> NDArray[np.int64]:
    """The counts that one machine finds."""
    dropped: Dropped | None = options.pop("dropped", None)
    events = read_events(source, user="user", time="time", by=domain.names)
    with bound(events, domain, calendar, key=KEY, **options) as bounded:
        if dropped is not None:
            dropped.add(bounded.dropped)
        return opened(bounded.snapshots())


def holders(needles: Mapping[str, bytes], places: Iterable[tuple[str, bytes]]) -> dict[str, list[str]]:
    """Which places hold which of the needles, by name; those that are nowhere are left out."""
    found: dict[str, list[str]] = {}
    known = list(places)
    for what, needle in needles.items():
        # A few digits by chance stand within longer numbers, such as times.
        alone = re.compile(rb"(?<!\d)" + re.escape(needle) + rb"(?!\d)" if needle.isdigit() else re.escape(needle))
        names = [name for name, data in known if alone.search(data)]
        if names:
            found[what] = names
    return found


def written(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file under a folder, with its content."""
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()


def random_table(ids: pa.Array, seed: int) -> pa.Table:
    """Events of the given people with nulls, unknown values, times outside and duplicates."""
    draw = np.random.default_rng(seed)  # noqa: TID251
    rows = len(ids)
    times = [START + timedelta(minutes=int(minute)) for minute in draw.integers(0, 6 * 24 * 60, rows)]
    places = np.array(["a", "b", "ç", "elsewhere", None], dtype=object)[draw.integers(0, 5, rows)]
    ages = draw.integers(-5, 130, rows).astype(float)
    absent = draw.random(rows) < 0.05
    return pa.table(
        {
            "user": ids,
            "time": pa.array(
                [None if gone else time for gone, time in zip(absent, times, strict=True)],
                type=pa.timestamp("us", "UTC"),
            ),
            "place": pa.array(places.tolist(), type=pa.string()),
            "age": pa.array(ages, mask=draw.random(rows) < 0.05),
        }
    )


def repeated(values: list[Any], rows: int, seed: int, kind: pa.DataType) -> pa.Array:
    """Some of the values, each often, and nulls."""
    draw = np.random.default_rng(seed)  # noqa: TID251
    picked = draw.integers(0, len(values) + 1, rows)
    return pa.array([None if place == len(values) else values[place] for place in picked.tolist()], type=kind)
