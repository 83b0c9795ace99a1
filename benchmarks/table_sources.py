"""Real tables of codes that were looked at while models of tables were made, from VEILSTREAM_DATA and scikit-learn.

``held_back_tables`` has those that were held back at first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from research.tables.sources import CodedTable

ROOT: Final = Path(__file__).resolve().parent.parent
DATA: Final = Path(os.environ.get("VEILSTREAM_DATA", ROOT.parent / "shared" / "data"))
ROWS: Final = 10_000
"""Rows that larger tables are cut to, because a fit of AIM takes minutes."""
NUMBERS: Final = frozenset(
    [
        *("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
        *("YEAR", "AGE", "INCTOT", "INCWAGE", "POVERTY", "INCWELFR", "INCINVST", "INCEARN", "DEPARTS", "ARRIVES"),
    ]
)
"""Attributes of coded files whose values have an order."""


@dataclass(frozen=True, slots=True, eq=False)
class RealTable(CodedTable):
    """Codes, and of which attributes neighbouring codes are alike."""

    ordered: tuple[bool, ...]


def real_tables() -> dict[str, RealTable]:
    """The tables whose files are there, by name; the last attribute is what classifiers predict."""
    made = {name: make() for name, make in _MAKERS.items()}
    return {name: table for name, table in made.items() if table is not None}


def coded(file: str, names: Sequence[str] | None = None) -> RealTable | None:
    """A table of codes with a file of its sizes: all attributes, or those of ``names`` that it has."""
    parquet, packed = DATA / f"{file}.parquet", DATA / f"{file}.csv.gz"
    if not parquet.exists() and not packed.exists():
        return None
    frame = pl.read_parquet(parquet) if parquet.exists() else pl.read_csv(packed)
    sizes: dict[str, int] = json.loads((DATA / f"{file}-domain.json").read_text())
    chosen = [name for name in names or sizes if name in frame.columns]
    codes = np.stack([frame[name].to_numpy().astype(np.int64) for name in chosen], axis=1)
    return cut(codes, tuple(int(sizes[name]) for name in chosen), [name in NUMBERS for name in chosen])


def cut(codes: NDArray[np.int64], shape: tuple[int, ...], ordered: Sequence[bool]) -> RealTable:
    """At most ``ROWS`` rows, always the same ones."""
    rng = np.random.default_rng(0)  # noqa: TID251 (a public table is cut)
    return RealTable(codes[rng.permutation(len(codes))[:ROWS]], shape, tuple(ordered))


def _ipums() -> RealTable | None:
    names = ("YEAR", "SEX", "AGE", "MARST", "RACE", "HISPAN", "CITIZEN", "HCOVANY", "HCOVPRIV", "HINSCAID", "EDUC")
    return coded("ipums_acs_temporal_nist", (*names, "EMPSTAT", "INCTOT", "INCWAGE", "POVERTY", "LABFORCE"))


def _purchases() -> RealTable | None:
    path = DATA / "cdnow_purchases.csv.gz"
    if not path.exists():
        return None
    frame = pl.read_csv(path, try_parse_dates=True)
    date = frame["date"]
    month = (date.dt.year().cast(pl.Int64) - 1997) * 12 + date.dt.month().cast(pl.Int64) - 1
    dollars = np.minimum(frame["dollar_value"].to_numpy() // 2, 63).astype(np.int64)
    number = np.minimum(frame["number_of_cds"].to_numpy(), 11).astype(np.int64)
    codes = np.stack([month.to_numpy(), date.dt.weekday().to_numpy() - 1, dollars, number], axis=1)
    return cut(codes.astype(np.int64), (18, 7, 64, 12), (True, False, True, True))


def _bikes() -> RealTable | None:
    path = DATA / "seattle_fremont_bridge_bikes_hourly.csv.gz"
    if not path.exists():
        return None
    frame = pl.read_csv(path, try_parse_dates=True).drop_nulls()
    time = frame["time"].cast(pl.Datetime)
    counts = [np.minimum(frame[side].to_numpy() // 10, 39) for side in ("west_sidewalk", "east_sidewalk")]
    parts = [time.dt.month().to_numpy() - 1, time.dt.weekday().to_numpy() - 1, time.dt.hour().to_numpy(), *counts]
    return cut(np.stack(parts, axis=1).astype(np.int64), (12, 7, 24, 40, 40), (False, False, False, True, True))


def bundled(loader: str, columns: Sequence[int], bins: int, classes: int) -> RealTable:
    """A table that scikit-learn brings along: numbers in equal ranges, then the class."""
    datasets: Any = import_module("sklearn.datasets")
    found = getattr(datasets, loader)()
    numbers = np.asarray(found.data, dtype=np.float64)[:, list(columns)]
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    codes = np.minimum((numbers - low) / np.maximum(high - low, 1e-9) * bins, bins - 1).astype(np.int64)
    labels = np.asarray(found.target, dtype=np.int64)
    ordered = [*[True] * len(columns), False]
    return cut(np.column_stack([codes, labels]), (*(bins,) * len(columns), classes), ordered)


_MAKERS: Final[dict[str, Callable[[], RealTable | None]]] = {
    "Adult": lambda: coded("adult_pgm_discretized"),
    "NLTCS": lambda: coded("nltcs_hd"),
    "IPUMS": _ipums,
    "CDNOW": _purchases,
    "Bicycles": _bikes,
    "Breast cancer": lambda: bundled("load_breast_cancer", range(10), 16, 2),
    "Digits": lambda: bundled("load_digits", range(18, 46, 2), 8, 10),
}
