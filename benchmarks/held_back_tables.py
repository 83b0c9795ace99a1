"""Tables that were held back at first: real ones from VEILSTREAM_DATA and scikit-learn, and two generated networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.table_sources import DATA, RealTable, bundled, coded, cut

Codes = NDArray[np.int64]
OTHER_COLUMNS: Final = (
    *("GQ", "SPEAKENG", "HINSEMP", "HINSCARE", "EMPSTATD", "WRKLSTWK", "ABSENT", "LOOKING", "AVAILBLE"),
    *("WRKRECAL", "INCWELFR", "INCINVST", "INCEARN", "DEPARTS", "ARRIVES", "WORKEDYR"),
)
"""Attributes of IPUMS that no table looked at before has."""


def held_back_tables() -> dict[str, RealTable]:
    """The tables whose files are there, by name; the last attribute is what classifiers predict."""
    made = {name: make() for name, make in _MAKERS.items()}
    return {name: table for name, table in made.items() if table is not None}


def _taxis() -> RealTable | None:
    """Minute, longitude and latitude of taxis, and whether a fix lies in the inner city."""
    path = DATA / "tdrive_beijing_2008-02-02_16h.parquet"
    if not path.exists():
        return None
    frame = pl.read_parquet(path)
    time, east, north = frame[:, 1].cast(pl.Datetime), frame[:, 2].to_numpy(), frame[:, 3].to_numpy()
    inside = (east >= 116) & (east < 116.8) & (north >= 39.6) & (north < 40.2)
    minute = time.dt.minute().to_numpy().astype(np.int64)
    cells = [((east - 116) / 0.8 * 40), ((north - 39.6) / 0.6 * 40)]
    centre = (np.abs(east - 116.4) < 0.1) & (np.abs(north - 39.92) < 0.08)
    columns = [minute // 5, *(cell.astype(np.int64) for cell in cells), centre.astype(np.int64)]
    codes = np.stack(columns, axis=1)[inside]
    return cut(codes, (12, 40, 40, 2), (True, True, True, False))


def _messages() -> RealTable | None:
    """Month, weekday and hour of messages among students, how busy both sides are, and whether they were new to it."""
    path = DATA / "collegemsg_messages.csv.gz"
    if not path.exists():
        return None
    frame = pl.read_csv(path).sort("unixts")
    time = pl.from_epoch(frame["unixts"])
    sides = [frame[side] for side in ("src", "dst")]
    sent = [np.bincount(side.to_numpy())[side.to_numpy()] for side in sides]
    busy = [np.minimum(np.log2(count).astype(np.int64), 9) for count in sent]
    new = ~frame.select("src", "dst").is_duplicated().to_numpy()
    columns = [time.dt.month().to_numpy() - 4, time.dt.weekday().to_numpy() - 1, time.dt.hour().to_numpy(), *busy, new]
    codes = np.stack([np.asarray(column, dtype=np.int64) for column in columns], axis=1)
    return cut(codes, (7, 7, 24, 10, 10, 2), (True, False, False, True, True, False))


def _requests() -> RealTable | None:
    """A thousand requests to a web server: size, object, kind, status, server, and whether the client came back."""
    path = DATA / "worldcup98_sample_requests.csv.gz"
    if not path.exists():
        return None
    frame = pl.read_csv(path)
    columns: list[Codes] = [np.minimum(np.log2(np.maximum(frame["bytes"].to_numpy(), 1)), 19).astype(np.int64)]
    for name in ("object_id", "status_code", "file_type", "server"):
        _, codes = np.unique(frame[name].to_numpy(), return_inverse=True)
        columns.append(codes.astype(np.int64) % 32)
    client = frame["client_id"].to_numpy()
    columns.append((np.bincount(client)[client] > 10).astype(np.int64))
    shape = (20, *(1 + int(column.max()) for column in columns[1:]))
    return cut(np.stack(columns, axis=1), shape, (True, *(False,) * 5))


def _diabetes() -> RealTable:
    """Ten numbers of patients, and in which quarter the disease's progression lies."""
    datasets: Any = import_module("sklearn.datasets")
    found = datasets.load_diabetes(scaled=False)
    numbers, target = np.asarray(found.data), np.asarray(found.target)
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    codes = np.minimum((numbers - low) / (high - low) * 12, 11).astype(np.int64)
    quarter = np.searchsorted(np.quantile(target, [0.25, 0.5, 0.75]), target)
    return cut(np.column_stack([codes, quarter]), (*(12,) * 10, 4), (*(True,) * 10, False))


def network(seed: int, rows: int, sizes: Sequence[int]) -> RealTable:
    """Categories of a random network: each attribute has up to two parents before it, and random chances given them."""
    rng = np.random.default_rng(seed)  # noqa: TID251 (a public table is made)
    columns: list[Codes] = []
    for axis, size in enumerate(sizes):
        parents = rng.permutation(axis)[: min(axis, int(rng.integers(1, 3)))]
        given = np.zeros(rows, dtype=np.int64)
        for parent in parents:
            given = given * sizes[parent] + columns[parent]
        chances = rng.dirichlet(np.full(size, 0.5), int(np.prod([sizes[p] for p in parents], dtype=np.int64)))
        below = rng.random(rows)[:, None] > np.cumsum(chances[given], axis=1)
        columns.append(np.minimum(below.sum(axis=1), size - 1).astype(np.int64))
    return cut(np.stack(columns, axis=1), tuple(sizes), (False,) * len(sizes))


_MAKERS: Final[dict[str, Callable[[], RealTable | None]]] = {
    "ACS": lambda: coded("acs_privbayes"),
    "IPUMS, other columns": lambda: coded("ipums_acs_temporal_nist", OTHER_COLUMNS),
    "Taxis": _taxis,
    "Messages": _messages,
    "Requests": _requests,
    "Wine": lambda: bundled("load_wine", range(13), 8, 3),
    "Iris": lambda: bundled("load_iris", range(4), 12, 3),
    "Diabetes": _diabetes,
    "Breast cancer, worst": lambda: bundled("load_breast_cancer", range(20, 30), 16, 2),
    "Digits, other pixels": lambda: bundled("load_digits", range(19, 47, 3), 8, 10),
    "Network of 12": lambda: network(1, 8000, (3, 2, 4, 5, 2, 3, 6, 2, 4, 3, 8, 2)),
    "Network of 8": lambda: network(2, 2000, (4, 6, 3, 10, 2, 5, 12, 3)),
}
