"""Real tables that change, step by step, from VEILSTREAM_DATA."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.table_sources import DATA, NUMBERS, RealTable

Codes = NDArray[np.int64]
ROWS_OF_STEP: Final = 5000
PEOPLE: Final = ("SEX", "AGE", "MARST", "RACE", "HISPAN", "CITIZEN", "HCOVANY", "EDUC", "EMPSTAT", "LABFORCE")
INCOMES: Final = (
    *("SPEAKENG", "HINSEMP", "HINSCAID", "EMPSTATD", "WORKEDYR", "INCTOT", "INCWAGE", "POVERTY", "DEPARTS"),
)
HOUSEHOLDS: Final = ("HHWT", "GQ", "AGE", "MARST", "HCOVPRIV", "HINSCARE", "WRKLSTWK", "ABSENT", "LOOKING", "INCINVST")


@dataclass(frozen=True, slots=True)
class TableStream:
    """Tables of successive steps, and what they were to the work on models of changing tables."""

    use: str
    steps: Sequence[RealTable]


def table_streams() -> dict[str, TableStream]:
    """The streams whose files are there, by name."""
    found = {name: (use, make()) for name, (use, make) in _MAKERS.items()}
    return {name: TableStream(use, steps) for name, (use, steps) in found.items() if steps}


def survey(names: Sequence[str], rows: int = ROWS_OF_STEP) -> list[RealTable]:
    """Seven years of some attributes of IPUMS."""
    path = DATA / "ipums_acs_temporal_nist.parquet"
    if not path.exists():
        return []
    frame = pl.read_parquet(path, columns=["YEAR", *names])
    sizes: dict[str, int] = json.loads((DATA / "ipums_acs_temporal_nist-domain.json").read_text())
    codes = _columns([frame[name].to_numpy() for name in names])
    shape, ordered = tuple(sizes[name] for name in names), tuple(name in NUMBERS for name in names)
    return _split(frame["YEAR"].to_numpy(), range(7), codes, shape, ordered, rows)


def _purchases() -> list[RealTable]:
    path = DATA / "cdnow_purchases.csv.gz"
    if not path.exists():
        return []
    frame = pl.read_csv(path, try_parse_dates=True)
    date = frame["date"]
    month = (date.dt.year().cast(pl.Int64) - 1997) * 12 + date.dt.month().cast(pl.Int64) - 1
    dollars = np.minimum(frame["dollar_value"].to_numpy() // 2, 63)
    number = np.minimum(frame["number_of_cds"].to_numpy(), 11)
    codes = _columns([date.dt.weekday().to_numpy() - 1, date.dt.day().to_numpy() - 1, dollars, number])
    return _split(month.to_numpy(), range(12), codes, (7, 31, 64, 12), (False, True, True, True))


def _bicycles() -> list[RealTable]:
    path = DATA / "seattle_fremont_bridge_bikes_hourly.csv.gz"
    if not path.exists():
        return []
    frame = pl.read_csv(path, try_parse_dates=True).drop_nulls()
    time = frame["time"].cast(pl.Datetime)
    quarter = (time.dt.year() - 2013) * 4 + (time.dt.month().cast(pl.Int32) - 1) // 3
    counts = [np.minimum(frame[side].to_numpy() // 10, 39) for side in ("west_sidewalk", "east_sidewalk")]
    codes = _columns([time.dt.weekday().to_numpy() - 1, time.dt.hour().to_numpy(), *counts])
    return _split(quarter.to_numpy(), range(12), codes, (7, 24, 40, 40), (False, True, True, True))


def _messages() -> list[RealTable]:
    path = DATA / "collegemsg_messages.csv.gz"
    if not path.exists():
        return []
    frame = pl.read_csv(path)
    time, sender, receiver = (frame[name].to_numpy() for name in ("unixts", "src", "dst"))
    sent, received = (_level(np.bincount(people)) for people in (sender, receiver))
    own = np.pad(received, (0, max(len(sent) - len(received), 0)))[sender]
    codes = _columns([time // 3600 % 24, time // 86400 % 7, sent[sender], received[receiver], own])
    week = (time - time.min()) // (7 * 86400)
    return _split(week, range(1, 13), codes, (24, 7, 10, 10, 10), (True, False, True, True, True))


def _taxis() -> list[RealTable]:
    path = DATA / "tdrive_beijing_2008-02-02_16h.parquet"
    if not path.exists():
        return []
    inside = pl.col("lon").is_between(116.2, 116.6) & pl.col("lat").is_between(39.75, 40.07)
    frame = pl.read_parquet(path).filter(inside & (pl.col("time").dt.hour() == 16))
    places = [(frame["lon"].to_numpy() - 116.2) / 0.01, (frame["lat"].to_numpy() - 39.75) / 0.01]
    parts = [np.minimum(place, size - 1) for place, size in zip(places, (40, 32), strict=True)]
    codes = _columns([*parts, frame["time"].dt.second().to_numpy() // 5, frame["taxi_id"].to_numpy() % 8])
    step = frame["time"].dt.minute().to_numpy() // 5
    return _split(step, range(12), codes, (40, 32, 12, 8), (True, True, True, False))


def _walks() -> list[RealTable]:
    path = DATA / "geolife_1min_182users.parquet"
    if not path.exists():
        return []
    inside = pl.col("lon").is_between(116.1, 116.7) & pl.col("lat").is_between(39.7, 40.15)
    frame = pl.read_parquet(path).filter(inside).sample(fraction=1.0, shuffle=True, seed=0)
    time = frame["time"]
    month = (time.dt.year() - 2008) * 12 + time.dt.month().cast(pl.Int32) - 5
    places = [(frame["lon"].to_numpy() - 116.1) / 0.6, (frame["lat"].to_numpy() - 39.7) / 0.45]
    parts = [np.minimum(place * 40, 39) for place in places]
    codes = _columns(
        [time.dt.weekday().to_numpy() - 1, time.dt.hour().to_numpy(), *parts, frame["user_id"].to_numpy() % 10]
    )
    return _split(
        month.to_numpy(), range(12), codes, (7, 24, 40, 40, 10), (False, True, True, True, False), ROWS_OF_STEP
    )


def _level(counts: Codes) -> Codes:
    """Powers of two, ten of them."""
    return np.minimum(np.log2(np.maximum(counts, 1)).astype(np.int64), 9)


def _columns(columns: Sequence[Any]) -> Codes:
    return np.stack([np.asarray(column).astype(np.int64) for column in columns], axis=1)


def _split(
    step: Any, steps: range, codes: Codes, shape: tuple[int, ...], ordered: tuple[bool, ...], most: int | None = None
) -> list[RealTable]:
    return [RealTable(codes[np.asarray(step) == at][:most], shape, ordered) for at in steps]


_MAKERS: Final[dict[str, tuple[str, Callable[[], list[RealTable]]]]] = {
    "IPUMS by year, people": ("tuned on", lambda: survey(PEOPLE)),
    "CDNOW by month": ("tuned on", _purchases),
    "Bicycles by quarter": ("tuned on", _bicycles),
    "T-Drive by 5 minutes": ("looked at", _taxis),
    "Geolife by month": ("looked at", _walks),
    "CollegeMsg by week": ("looked at", _messages),
    "IPUMS by year, incomes": ("held back", lambda: survey(INCOMES)),
    "IPUMS by year, households": ("held back", lambda: survey(HOUSEHOLDS)),
}
