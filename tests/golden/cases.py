"""Every release that the project makes, small and with fixed noise: what it published, what it charged."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

import veilstream as vs
from tests.golden.recording import charges, fractions
from veilstream.data import Calendar, Categories, Domain, Edges, Grid, read_events
from veilstream.data.bounding import bound
from veilstream.errors import VeilstreamError
from veilstream.metric import (
    ChosenMedian,
    HatGrid,
    MetricGuarantee,
    SmoothMedian,
    SortedPoints,
    Space,
    release_points,
)
from veilstream.noise import ExactSampler
from veilstream.personalised import (
    ExponentialCount,
    ExponentialMedian,
    LedgerAccounts,
    Minimum,
    Partitioned,
    PersonalisedPublisher,
    PrivateLogisticRegression,
    PrivateSVM,
    Roster,
    Sampling,
    Stretching,
    Threshold,
    count_levels,
    release_counts,
)
from veilstream.privacy.accountant import Accountant
from veilstream.series import ClippedValues, FourierSeries
from veilstream.synthesis import BlockMLE, Choice, DPCopula, MarginalGraph, TableDomain, fit, fit_over_time
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.trusted.opening import open_counts

Case: TypeAlias = Callable[[Path], Any]
STEPS: Final = 24
BINS: Final = 12
KEY: Final = b"sixteen bytes or more"
GUARANTEES: Final = {
    "event": vs.Guarantee(1, w=1),
    "window": vs.Guarantee("1/2", w=6),
    "user": vs.Guarantee(1, w=None),
    "delta": vs.Guarantee(1, w=6, delta="1e-6"),
    "steps": vs.Guarantee(1, w=6, presence=2),
    "blocks": vs.Guarantee(1, per=8, presence=2),
}
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "dsat": {"": {}, " c3": {"releases": 3}},
    "fast": {"": {}, " particle": {"filter": "particle"}},
    "scheduled": {"": {"weights": "1 1 8"}, " online": {"weights": "1 1 8", "online": True, "bounds": "1 8"}},
}


def counts(steps: int = STEPS, bins: int = BINS) -> NDArray[np.int64]:
    """Unequal bins with a season, a jump and a quiet stretch."""
    t, b = np.mgrid[0:steps, 0:bins]
    season = 40 + 30 * np.sin(t / 3 + b) + 90 * (b % 4 == 1) + 300 * ((t >= 15) & (b == 2))
    return np.where((t >= 8) & (t < 11), 0, season).astype(np.int64)


def tried(call: Callable[[], Any]) -> Any:
    """What a call gives, or the type of its refusal."""
    try:
        return call()
    except VeilstreamError as error:
        return {"refused": type(error).__name__}


# Streams and histograms


def stream(name: str, settings: dict[str, Any], guarantee: vs.Guarantee, _folder: Path) -> Any:
    def run() -> Any:
        horizon = {} if guarantee.w is not None or name not in _with_horizon() else {"horizon": STEPS}
        ledger = vs.Ledger.open(None)
        made: Any = vs.STREAMS[name](**settings, **horizon)
        publisher = vs.Publisher(BINS, guarantee, made, ledger, stream="s")
        released = [publisher.feed(row, t) for t, row in enumerate(counts())]
        return {
            "values": np.array([release.values for release in released]),
            "std": np.array([np.mean(release.std) for release in released]),
            "fresh": [release.fresh for release in released],
            "charges": charges(ledger, "s"),
        }

    return tried(run)


def _with_horizon() -> set[str]:
    return {name for name, kind in vs.STREAMS.items() if "horizon" in getattr(kind, "__dataclass_fields__", {})}


def histogram(name: str, guarantee: vs.Guarantee, shape: tuple[int, ...], _folder: Path) -> Any:
    def run() -> Any:
        bins = int(np.prod(shape))
        data = (50 * np.exp(-((np.arange(bins) - bins / 3) ** 2) / bins)).astype(np.int64)
        sampler = ExactSampler(SeededSource(5))
        accountant = Accountant(guarantee, bins)
        made: Any = vs.HISTOGRAMS[name]()
        values = made.estimate(seal(data, 0, 1, shape), guarantee.pure, Meter(accountant, sampler, 0))
        return {"values": values.numbers, "std": np.mean(values.std)}

    return tried(run)


# Tables


def _people(rows: int = 1200) -> dict[str, Any]:
    i = np.arange(rows)
    age = 20 + (i * 7) % 60
    return {
        "age": age,
        "income": (age * 3 + (i * 31) % 50) % 200,
        "member": (age > 45) ^ (i % 5 == 0),
        "region": np.array(["n", "s", "w"])[(age // 20 + i % 2) % 3],
    }


TABLE: Final = TableDomain(
    {
        "age": Grid(0, 100, 100),
        "income": Grid(0, 200, 40),
        "member": Categories([False, True]),
        "region": Categories(["n", "s", "w"]),
    }
)
SYNTHESIZERS: Final[dict[str, Any]] = {
    "kendall": DPCopula(),
    "mle": DPCopula(dependence=BlockMLE(blocks=20)),
    "choice": DPCopula(copula=Choice()),
    "hybrid": DPCopula(split_below=4),
    "graph": MarginalGraph(),
    "graph gaussian": MarginalGraph(noise="gaussian"),
    "graph target": MarginalGraph(target="member"),
    "automatic": None,
}


def table(name: str, folder: Path) -> Any:
    with vs.Ledger.open(folder / "budget.db") as ledger:
        delta = "1e-6" if "gaussian" in name else 0
        model = fit(_people(), TABLE, 1, SYNTHESIZERS[name], ledger, delta=delta)
        drawn = model.sample(40, seed=3)
        return {"spent": model.spent, "rows": pl.DataFrame(drawn), "charges": charges(ledger, "table")}


def tables_over_time(folder: Path) -> Any:
    people = _people()
    people["week"] = np.arange(len(people["age"])) % 4
    with vs.Ledger.open(folder / "budget.db") as ledger:
        models = fit_over_time(people, TABLE, vs.Guarantee(1, w=2), Calendar(0, 4, 1), "week", ledger=ledger)
        return {
            "spent": fractions([model.spent for model in models]),
            "rows": [pl.DataFrame(model.sample(8, seed=3)).rows() for model in models],
            "charges": charges(ledger, "table"),
        }


# Budgets of each person's own


PERSONAL: Final[dict[str, Any]] = {
    "minimum": Minimum(),
    "threshold": Threshold("1/2"),
    "sampling": Sampling(),
    "stretching": Stretching(),
    "partitioned by waste": Partitioned(by="waste", k=2),
    "partitioned by utility": Partitioned(),
    "partitioned in rounds": Partitioned(by="waste", k=1, number=2),
    "exponential count": ExponentialCount(),
    "exponential median": ExponentialMedian(),
}


def _roster() -> Roster:
    return Roster.of_budgets(np.repeat(["1/8", "1/4", "1/2", "1"], 100).tolist())


def personal(name: str, folder: Path) -> Any:
    def run() -> Any:
        roster = _roster()
        who = np.arange(400)
        bins = 1 if "exponential count" in name else 3
        x = count_levels(roster, who // 100, who % bins, bins=bins)
        with LedgerAccounts(roster, folder / "budget.db") as accounts:
            released = release_counts(x, PERSONAL[name], accounts)
            return {"values": released.values.numbers, "charged": fractions(released.charged)}

    return tried(run)


def personal_stream(folder: Path) -> Any:
    roster = _roster()
    who = np.arange(400)
    mechanism: Any = vs.STREAMS["budget-absorption"]()
    with PersonalisedPublisher(roster, 3, 4, mechanism, folder / "budget.db") as publisher:
        released = [publisher.feed(count_levels(roster, who // 100, (who + t) % 3, bins=3, t=t)) for t in range(6)]
        values = np.array([release.values.numbers for release in released])
        return {"values": values, "spent": fractions(publisher.spent())}


def classifier(kind: Any, _folder: Path) -> Any:
    i = np.arange(400)
    x = np.stack([np.sin(i), np.cos(3 * i)], axis=1) / 2
    y = np.where(x[:, 0] + x[:, 1] / 3 > 0, 1, -1)
    budgets = np.repeat(["1/2", "1", "2", "4"], 100).tolist()
    model = kind().fit_simulated(x, y, budgets, seed=2)
    return {"coefficients": np.asarray(model.coef_), "intercept": np.asarray(model.intercept_)}


# Points and series


POINTS: Final[dict[str, Any]] = {
    "sorted": SortedPoints(),
    "median": SmoothMedian(),
    "chosen median": ChosenMedian(),
    "grid": HatGrid(),
}


def points(name: str, _folder: Path) -> Any:
    def run() -> Any:
        ledger = vs.Ledger.open(None)
        guarantee = MetricGuarantee("1/2", "0.05", Space(0, 1))
        data = (np.arange(200) * 0.618) % 1
        released = release_points(data, POINTS[name], guarantee, ledger)
        return {"values": released.values, "charges": charges(ledger, "points")}

    return tried(run)


def series(_folder: Path) -> Any:
    sampler = ExactSampler(SeededSource(5))
    guarantee = vs.Guarantee(1, w=None)
    meter = Meter(Accountant(guarantee, BINS), sampler, STEPS - 1)
    snapshots = [seal(row, t, 1) for t, row in enumerate(counts())]
    return {"values": FourierSeries(coefficients=5).estimate(snapshots, guarantee.pure, meter).numbers}


def clipped(_folder: Path) -> Any:
    return {"encoded": ClippedValues(-10, 40).encode(np.linspace(-20, 50, 30))}


# Rows: the same counts wherever the rows are


DOMAIN: Final = Domain({"place": Categories(["a", "b", "c"]), "age": Edges([0, 18, 65, 120])})
CALENDAR: Final = Calendar("2024-03-30", "2024-04-03", "1d", zone="Europe/Paris")


def events(rows: int = 3000) -> pl.DataFrame:
    """Rows of 200 people over a change of clocks; some lie outside of everything."""
    i = np.arange(rows)
    start = datetime.fromisoformat("2024-03-29T12:00:00+00:00")
    return pl.DataFrame(
        {
            "user": (i * i * 7 + i) % 200,
            "time": [start + timedelta(minutes=int(m)) for m in (i * 37) % 7200],
            "place": np.array(["a", "b", "c", "x"])[(i * 5 + i // 7) % 4],
            "age": (i * 13) % 130,
            "fare": (i * 11) % 90,
        }
    )


LIMITS: Final[dict[str, dict[str, Any]]] = {
    "once": {},
    "several": {"bins_per_user": 2, "counts_per_user": 3},
    "steps": {"presence": vs.Guarantee(1, w=3, presence=1)},
    "blocks": {"presence": vs.Guarantee(1, w=None, presence=2)},
    "people": {"distinct": 1},
    "people of three days": {"distinct": 3},
}


def bounded(source: Callable[[Path], Any], limits: dict[str, Any], folder: Path) -> Any:
    opened = read_events(source(folder), user="user", time="time", by=DOMAIN.names)
    with bound(opened, DOMAIN, CALENDAR, unknown="drop", missing_time="drop", key=KEY, **limits) as held:
        snapshots = list(held.snapshots())
        return {
            "counts": np.array([open_counts(step) for step in snapshots]),
            "l1": fractions([step.l1 for step in snapshots]),
        }


def in_duckdb(limits: dict[str, Any], _folder: Path) -> Any:
    import duckdb

    from veilstream.data.engines.duckdb import snapshots

    connection = duckdb.connect()
    connection.register("events", events().to_arrow())
    steps = snapshots(
        connection.sql("select * from events"),
        domain=DOMAIN,
        calendar=CALENDAR,
        user="user",
        time="time",
        key=KEY,
        unknown="drop",
        missing_time="drop",
        **limits,
    )
    return {"counts": np.array([open_counts(step) for step in steps])}


def _csv(folder: Path) -> Path:
    path = folder / "events.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        table = events()
        writer.writerow(table.columns)
        writer.writerows(table.with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S%z")).rows())
    return path


def _parquet(folder: Path) -> Path:
    path = folder / "events.parquet"
    events().write_parquet(path)
    return path


SOURCES: Final[dict[str, Callable[[Path], Any]]] = {
    "frame": lambda _folder: events(),
    "pandas": lambda _folder: events().to_pandas(),
    "arrow": lambda _folder: events().to_arrow(),
    "csv": _csv,
    "parquet": _parquet,
}


# Whole calls


MEASURES: Final[dict[str, dict[str, Any]]] = {
    "counts": {},
    "uniform": {"mechanism": "uniform"},
    "sums": {"sum": {"fare": (0, 90)}, "by": []},
    "means": {"mean": {"fare": (0, 90)}, "by": []},
    "quantiles": {"quantiles": {"fare": (0, 90)}, "by": []},
    "people": {"distinct": "step"},
    "people so far": {"distinct": "so-far", "window": "user", "by": ["place"], "mechanism": "auto"},
}


def published(settings: dict[str, Any], folder: Path) -> Any:
    def run() -> Any:
        chosen = {"window": "2d", "by": ["place", "age"], "unknown": "drop"} | settings
        domain = {name: axis for name, axis in DOMAIN.to_json().items() if name in chosen["by"]}
        ledger = folder / "budget.db"
        job = vs.publish(
            events(), user="user", time="time", domain=domain, every="1d", start="2024-03-30", end="2024-04-03",
            zone="Europe/Paris", epsilon=1, ledger=ledger, **chosen,
        )  # fmt: skip
        with vs.Ledger.open(ledger) as book:
            return {"table": job.to_polars(), "charges": charges(book, "default")}

    return tried(run)


LIVE: Final[dict[str, dict[str, Any]]] = {
    "counts": {},
    "several": {"counts_per_user": 3},
    "people": {"distinct": "step"},
}


def live(settings: dict[str, Any], folder: Path) -> Any:
    definition: dict[str, Any] = {
        "user": "user", "time": "time", "domain": DOMAIN.to_json(), "start": "2024-03-30", "every": "1d", "epsilon": 1,
        "window": 2, "zone": "Europe/Paris", "clock": "manual", "mechanism": "uniform", **settings,
    }  # fmt: skip
    with vs.open_stream(folder / "budget.db", "visits", definition) as stream:
        rows = events()
        stream.add(rows.head(1700))
        stream.add(rows.tail(1300))
        released = stream.close_until("2024-04-03")
        return {"values": np.array([release.values for release in released])}


def mechanisms() -> Iterator[tuple[str, Case]]:
    for name in vs.STREAMS:
        for label, settings in SETTINGS.get(name, {"": {}}).items():
            for promise, guarantee in GUARANTEES.items():
                yield f"stream {name}{label} {promise}", partial(stream, name, settings, guarantee)
    for name in vs.HISTOGRAMS:
        for promise in ("event", "delta"):
            for shape in ((64,), (8, 8)):
                label = "x".join(map(str, shape))
                yield f"histogram {name} {promise} {label}", partial(histogram, name, GUARANTEES[promise], shape)


def one_time_releases() -> Iterator[tuple[str, Case]]:
    yield from ((f"table {name}", partial(table, name)) for name in SYNTHESIZERS)
    yield "tables over time", tables_over_time
    yield from ((f"personal {name}", partial(personal, name)) for name in PERSONAL)
    yield "personal stream", personal_stream
    yield "logistic regression", partial(classifier, PrivateLogisticRegression)
    yield "support vectors", partial(classifier, PrivateSVM)
    yield from ((f"points {name}", partial(points, name)) for name in POINTS)
    yield "series fourier", series
    yield "series clipped", clipped


def from_rows() -> Iterator[tuple[str, Case]]:
    for label, limits in LIMITS.items():
        for name, source in SOURCES.items():
            yield f"rows {name} {label}", partial(bounded, source, limits)
        if label != "people of three days":
            yield f"rows duckdb {label}", partial(in_duckdb, limits)
    yield from ((f"publish {name}", partial(published, settings)) for name, settings in MEASURES.items())
    yield from ((f"live {name}", partial(live, settings)) for name, settings in LIVE.items())


CASES: Final = dict((*mechanisms(), *one_time_releases(), *from_rows()))
