"""A replay of three seasons of influenza, a week every two seconds, through the same door that every client uses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from veilstream.client import Client, ServerRefusedError
from veilstream.live.clock import Clock, ScaledClock, SettableClock, moment, tick_of
from veilstream.live.definition import StreamDefinition
from veilstream.live.stream import open_stream

START: Final = "2021-10-03"
WEEK: Final = 7 * 86_400_000_000
SECONDS_PER_WEEK: Final = 2.0
STARTING_SECONDS: Final = 4.0
WEEKS_BEFORE: Final = 60
WEEKS_AHEAD: Final = 3
"""Rows are sent so long before their week, so that a busy machine is not late."""
REGIONS: Final = [f"Region {number}" for number in range(1, 11)]
AGES: Final = ["0-4", "5-24", "25-49", "50-64", "65+"]
AGE_EDGES: Final = [0, 5, 25, 50, 65, 95]
YEARS: Final = "years of age"
SOURCE: Final = "Weekly visits for influenza-like illness (CDC ILINet), replayed: a week every two seconds."


def definitions() -> tuple[StreamDefinition, ...]:
    """Streams over the same rows: many bins, few bins with a mechanism that repeats, quantiles, a total so far."""
    common: dict[str, Any] = {
        "user": "visitor",
        "time": "week",
        "start": START,
        "every": "1w",
        "window": 52,
        "delay": "2w",
        "ahead": "12w",
        "public": True,
        "unit": "visits",
    }
    return tuple(
        StreamDefinition.from_json({**common, **own})
        for own in (
            {
                "name": "influenza",
                "title": "Influenza by region and age",
                "description": SOURCE,
                "domain": {"region": REGIONS, "age": AGES},
                "epsilon": "1",
            },
            {
                "name": "influenza-ages",
                "title": "Influenza by age",
                "description": "The same visits by age. This mechanism looks at the data only when they have changed.",
                "domain": {"age": AGES},
                "epsilon": "1/8",
                "mechanism": "budget-absorption",
            },
            {
                "name": "influenza-regions",
                "title": "Influenza by region",
                "description": "The same visits in the ten regions of the US health administration.",
                "domain": {"region": REGIONS},
                "epsilon": "1/2",
            },
            {
                "name": "influenza-years",
                "title": "How old patients are",
                "description": "Quantiles of age by region; the replay spreads the source's groups of ages evenly.",
                "domain": {"region": REGIONS},
                "epsilon": "1",
                "quantiles": YEARS,
                "count": YEARS,
                "between": [AGE_EDGES[0], AGE_EDGES[-1]],
                "cells": 19,
            },
            {
                "name": "influenza-total",
                "title": "Visits so far",
                "description": "All visits since the replay began: the noise does not add up week by week.",
                "epsilon": "1",
                "delta": "1e-6",
                "mechanism": "running-total",
            },
        )
    )


class Replay:
    """The rows of every week, made from the bundled counts: visitors of their own, in an order of no meaning."""

    def __init__(self) -> None:
        source = files("veilstream") / "cli" / "bundled" / "ilinet_regions.csv.gz"
        with source.open("rb") as file:
            counts = pl.read_csv(file)
        self._weeks = counts["week_start"].unique().sort().to_list()
        self._counts = {key[0]: rows for key, rows in counts.partition_by("week_start", as_dict=True).items()}

    def week(self, number: int) -> pl.DataFrame:
        """The rows of a week; after three seasons they begin again."""
        counts = self._counts[self._weeks[number % len(self._weeks)]]
        repeats = counts["visits"].to_numpy()
        place = np.repeat(np.arange(len(counts)), repeats)
        within = np.arange(len(place)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        edges = np.array(AGE_EDGES, dtype=np.float64)
        group = np.array([AGES.index(age) for age in counts["age"]])[place]
        years = edges[group] + (edges[group + 1] - edges[group]) * (within + 0.5) / repeats[place]
        begins = tick_of(START) + number * WEEK
        moments = begins + (np.arange(len(place)) * 7919) % (WEEK // 1_000_000) * 1_000_000
        return pl.DataFrame(
            {
                "visitor": np.arange(len(place), dtype=np.int64) + number * 1_000_000,
                "week": pl.Series(moments).cast(pl.Datetime("us", "UTC")),
                "region": counts["region"].gather(place),
                "age": counts["age"].gather(place),
                YEARS: years,
            }
        )


def fill(ledger: Path, replay: Replay, weeks: int = WEEKS_BEFORE) -> Clock:
    """Publish the first weeks at once, so that there is something to see; the clock that goes on from there."""
    clock = SettableClock(tick_of(START))
    streams = [open_stream(ledger, one.name, one, clock=clock) for one in definitions()]
    try:
        for number in range(weeks + WEEKS_AHEAD):
            rows = replay.week(number)
            for stream in streams:
                stream.add(rows)
            clock.tick = min(clock.tick + WEEK, tick_of(START) + (weeks + 1) * WEEK)
        for stream in streams:
            stream.close_until(moment(clock.tick))
    finally:
        for stream in streams:
            stream.close()
    # The clock stands still until the server has had time to start.
    return ScaledClock(clock.tick, WEEK / 1e6 / SECONDS_PER_WEEK, time.monotonic() + STARTING_SECONDS)


def feed(url: str, token: str, clock: Clock, replay: Replay, stop: threading.Event, first: int = WEEKS_BEFORE) -> None:
    """Send each week's rows before it begins, in two batches a stream, until told to stop."""
    number = first + WEEKS_AHEAD
    with Client(url, token) as client:
        while not stop.is_set():
            rows = replay.week(number)
            half = len(rows) // 2
            for part, frame in enumerate((rows[:half], rows[half:])):
                _wait(clock, tick_of(START) + (number - WEEKS_AHEAD) * WEEK + part * WEEK // 2, stop)
                for one in definitions():
                    if stop.is_set():
                        return
                    with suppress(ServerRefusedError):
                        client.send(frame, one.name, batch_id=f"{number}-{part}")
            number += 1


def _wait(clock: Clock, tick: int, stop: threading.Event) -> None:
    while not stop.is_set() and (left := clock.seconds_until(tick)) > 0:
        stop.wait(min(left, 0.5))


def in_background(work: Callable[[], None]) -> threading.Thread:
    """Run the feeder beside the server; when the server has gone, it has nothing left to say."""
    thread = threading.Thread(target=work, name="replay", daemon=True)
    thread.start()
    return thread
