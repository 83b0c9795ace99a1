"""Real streams for experiments by name: one comes with the package, the others lie in a directory that you name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError, UnreadableFileError

Counts = NDArray[np.int64]

FLU_WEEKS: Final = 209
AGES: Final = ("age_0_4", "age_5_24", "age_25_49", "age_50_64", "age_65")
PRICES: Final = (10, 15, 20, 25, 30, 40, 60, 90, 150)
QUARTER_DAY: Final = 21_600


@dataclass(frozen=True, slots=True)
class Dataset:
    """Where a stream comes from: ``file`` of the directory of data sets, or None where it comes with the package."""

    about: str
    file: str | None
    counts: Callable[[pl.DataFrame], Counts]


def dataset(name: str, directory: str | Path | None = None) -> Counts:
    """The counts of a data set, steps × bins.

    >>> dataset("ilinet-regions").shape
    (156, 50)
    """
    if name not in DATASETS:
        raise InvalidInputError(
            name="data set", value=name, limit=f"choose from {', '.join(DATASETS)}", outcome="nothing was read"
        )
    chosen = DATASETS[name]
    try:
        return chosen.counts(_table(name, chosen.file, directory))
    except (pl.exceptions.PolarsError, OSError):
        raise UnreadableFileError(f"{chosen.file}: not the table that data set {name!r} is made of") from None


def _table(name: str, file: str | None, directory: str | Path | None) -> pl.DataFrame:
    if file is None:
        return pl.read_csv((files("veilstream") / "cli" / "bundled" / "ilinet_regions.csv.gz").read_bytes())
    if directory is None:
        raise InvalidInputError(
            name="data set",
            value=name,
            limit="it is not part of the package, name its directory",
            outcome="nothing was read",
        )
    path = Path(directory) / file
    if not path.is_file():
        raise UnreadableFileError(
            f"{file}: there is no such file in the directory of data sets", outcome="nothing was read"
        )
    return pl.read_csv(path, infer_schema_length=None, null_values=["NA", "X"])


def _bundled(table: pl.DataFrame) -> Counts:
    wide = table.pivot(on=["region", "age"], index="week_start", values="visits", sort_columns=False)
    return wide.sort("week_start").drop("week_start").to_numpy().astype(np.int64)


def _flu_5_24(table: pl.DataFrame) -> Counts:
    rows = table.filter((pl.col("year") > 2006) | ((pl.col("year") == 2006) & (pl.col("week") >= 40)))
    return _one_bin(rows.sort("year", "week")["age_5_24"].head(FLU_WEEKS), FLU_WEEKS)


def _influenza(table: pl.DataFrame) -> Counts:
    ages = [pl.col(age).cast(pl.Float64, strict=False).fill_null(0) for age in AGES if age in table.columns]
    weeks = table.filter(pl.col("year") >= 2010).select("year", "week", "region", *ages)
    names = [age for age in AGES if age in table.columns]
    wide = weeks.pivot(on="region", index=["year", "week"], values=names, aggregate_function="sum")
    return wide.sort("year", "week").drop("year", "week").fill_null(0).to_numpy().astype(np.int64)


def _unemployment(level: str) -> Callable[[pl.DataFrame], Counts]:
    def counts(table: pl.DataFrame) -> Counts:
        known = table[level].drop_nulls()
        return _one_bin(known, len(known))

    return counts


def _bicycles(table: pl.DataFrame) -> Counts:
    return table.select(pl.exclude(table.columns[0]).cast(pl.Float64).fill_nan(0).fill_null(0)).to_numpy().astype(int)


def _bicycles_daily(table: pl.DataFrame) -> Counts:
    day = table[table.columns[0]].cast(pl.String).str.slice(0, 10).rank("dense").to_numpy().astype(np.int64) - 1
    days = np.zeros((int(day.max()) + 1, 1), dtype=np.int64)
    np.add.at(days[:, 0], day, _bicycles(table).sum(axis=1))
    return days


def _second_column(table: pl.DataFrame) -> Counts:
    return _one_bin(table[table.columns[1]], len(table))


def _purchases(table: pl.DataFrame) -> Counts:
    first = table.unique(subset=["customer_id", "date"], keep="first", maintain_order=True)
    day = first["date"].str.to_date()
    step = (day - day.min()).dt.total_days().to_numpy()
    series = np.zeros((int(step.max()) + 1, len(PRICES) + 1), dtype=np.int64)
    np.add.at(series, (step, np.searchsorted(PRICES, first["dollar_value"].to_numpy())), 1)
    return series


def _messages(table: pl.DataFrame) -> Counts:
    sender, _, when = (table[name].to_numpy() for name in table.columns[:3])
    pairs = np.unique(np.stack([(when - when.min()) // QUARTER_DAY, sender], axis=1), axis=0)
    series = np.zeros((int(pairs[:, 0].max()) + 1, 20), dtype=np.int64)
    np.add.at(series, (pairs[:, 0], pairs[:, 1] // 100), 1)
    return series


def _one_bin(column: pl.Series, length: int) -> Counts:
    numbers: NDArray[np.float64] = column.cast(pl.Float64).to_numpy()
    if numbers.size != length or not np.isfinite(numbers).all():
        raise UnreadableFileError(f"series '{column.name}': {numbers.size} values, {length} numbers are needed")
    rounded: Counts = np.rint(numbers).astype(np.int64)
    return rounded[:, None]


_FRED: Final = "fred_unemployment_levels_monthly.csv.gz"
_BIKES: Final = "seattle_fremont_bridge_bikes_hourly.csv.gz"

DATASETS: Final[dict[str, Dataset]] = {
    "ilinet-regions": Dataset(
        "visits for influenza-like illness in ten regions by five ages, 156 weeks (CDC, public domain)", None, _bundled
    ),
    "ilinet-regions-long": Dataset("the same from 2010 on", "ilinet_hhs_regions_weekly.csv.gz", _influenza),
    "flu-5-24": Dataset(
        "outpatients with influenza-like illness aged 5 to 24, 209 weeks from 2006 week 40 (CDC, public domain)",
        "ilinet_national_weekly.csv.gz",
        _flu_5_24,
    ),
    "unemployment": Dataset("unemployed in the United States, thousands, monthly", _FRED, _unemployment("UNEMPLOY")),
    "unemployment-women": Dataset("unemployed women, thousands, monthly", _FRED, _unemployment("LNS13000002")),
    "unemployment-women-16-19": Dataset(
        "unemployed women aged 16 to 19, thousands, 408 months from 1948",
        "us_unemployment_teen_sex_1948_1981.csv.gz",
        _unemployment("F_TEEN"),
    ),
    "bicycles-hourly": Dataset("bicycles over Fremont Bridge in Seattle by direction", _BIKES, _bicycles),
    "bicycles-daily": Dataset("the same per day; hours without a count add nothing", _BIKES, _bicycles_daily),
    "vehicles": Dataset(
        "vehicles on one lane of a freeway, every 5 minutes", "pems_single_station_flow_5min.csv.gz", _second_column
    ),
    "web-requests": Dataset(
        "requests to the World Cup 98 site per minute", "worldcup98_requests_per_minute.csv.gz", _second_column
    ),
    "purchases": Dataset(
        "purchases at CDNOW per day by price, each customer once a day", "cdnow_purchases.csv.gz", _purchases
    ),
    "messages": Dataset(
        "senders of messages among students per quarter of a day, by hundreds of senders",
        "collegemsg_messages.csv.gz",
        _messages,
    ),
}
