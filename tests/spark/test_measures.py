"""Sums, means, quantiles and distinct people on a cluster are what one machine finds with the same key."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.spark.conftest import Cluster
from tests.spark.support import KEY
from veilstream import STREAMS, Guarantee, Publisher
from veilstream.data import Calendar, Categories, Domain, Dropped, read_events
from veilstream.data.bounding import bound
from veilstream.data.engines import duckdb as duckdb_engine
from veilstream.data.measures import QuantileOptions, ValueMeasures
from veilstream.errors import InvalidInputError
from veilstream.spark import ClosedSteps, publish_closed, snapshots
from veilstream.trusted.counts import Sealed
from veilstream.trusted.opening import open_counts

ROWS, STEPS = 20_000, 6
PLACES = Domain({"place": Categories(range(5))})
DAYS = Calendar(0, STEPS, 1)
FARE = {"fare": (0, 100)}
CELLS = QuantileOptions(cells=64)
KINDS: dict[str, dict[str, Any]] = {
    "mean and variance": {"measures": ValueMeasures.of({"mean": FARE, "variance": {"tip": (-5, 20)}})},
    "sum with a bound": {"measures": ValueMeasures.of({"sum": FARE}), "most": Fraction(130), "counts_per_user": 4},
    "quantiles": {"measures": ValueMeasures.of({"quantiles": FARE, "mean": FARE}, CELLS), "bins_per_user": 2},
    "present in two steps": {"measures": ValueMeasures.of({"mean": FARE}), "presence": Guarantee(1, None, presence=2)},
    "people of a step": {"distinct": 1, "bins_per_user": 2},
    "people of three steps": {"distinct": 3, "bins_per_user": 2},
    "people of all steps": {"distinct": 40},
}


def table() -> pl.DataFrame:
    """Half of all rows are of one person, many of them equal, and some values are missing."""
    draw = np.random.default_rng(5)  # noqa: TID251
    return pl.DataFrame(
        {
            "user": np.where(draw.random(ROWS) < 0.5, 1, draw.integers(0, 3000, ROWS)),
            "time": draw.integers(0, STEPS, ROWS),
            "place": draw.integers(0, 5, ROWS),
            "fare": np.where(draw.random(ROWS) < 0.5, 12.5, draw.normal(40, 30, ROWS)),
            "tip": pl.Series(draw.normal(3, 4, ROWS)).set(pl.Series(draw.random(ROWS) < 0.1), None),
        }
    ).with_columns(fare=pl.when(pl.int_range(pl.len()) % 50 == 7).then(float("inf")).otherwise("fare"))


def alone(source: pl.DataFrame, **options: Any) -> list[Sealed]:
    measures: ValueMeasures | None = options.get("measures")
    names = () if measures is None else measures.names
    events = read_events(source, user="user", time="time", by=("place", *names))
    with bound(events, PLACES, DAYS, key=KEY, **options) as bounded:
        return list(bounded.snapshots())


def same(one: Sealed, other: Sealed) -> bool:
    facts = [(sealed.l1, sealed.l2, sealed.grid, sealed.shape, sealed.span, sealed.origin) for sealed in (one, other)]
    return facts[0] == facts[1] and bool((open_counts(one) == open_counts(other)).all())


@pytest.mark.parametrize("kind", KINDS)
def test_every_measure_is_sealed_as_on_one_machine(
    spark: Cluster, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    options = {"missing_value": "drop", **KINDS[kind]}
    source = table()
    expected = alone(source, **options)
    assert all(open_counts(sealed).any() for sealed in expected)
    common: dict[str, Any] = {"domain": PLACES, "calendar": DAYS, "user": "user", "time": "time", "key": KEY, **options}
    source.write_parquet(tmp_path / "rows.parquet", row_group_size=3000)
    in_duckdb = duckdb_engine.snapshots(duckdb.sql(f"from '{tmp_path}/rows.parquet'"), **common)
    assert all(same(one, other) for one, other in zip(in_duckdb, expected, strict=True))
    # Two ranges of steps reach the driver one after the other, and a heavy person is in every partition.
    monkeypatch.setattr("veilstream.spark.counting.ANSWER_CELLS", open_counts(expected[0]).size * STEPS // 2)
    df = spark.session.read.parquet(str(tmp_path)).repartition(3)
    found = snapshots(df, buckets=2, **common)
    assert all(same(one, other) for one, other in zip(found, expected, strict=True))


def test_missing_values_are_refused_or_counted_as_everywhere(spark: Cluster) -> None:
    df = spark.session.createDataFrame(table().head(300).to_arrow())
    common: dict[str, Any] = {"domain": PLACES, "calendar": DAYS, "user": "user", "time": "time", "key": KEY}
    asked = ValueMeasures.of({"mean": {"tip": (-5, 20)}})
    with pytest.raises(InvalidInputError, match="column 'tip': a row has no value"):
        list(snapshots(df, measures=asked, **common))
    dropped = Dropped()
    list(snapshots(df, measures=asked, missing_value="drop", dropped=dropped, **common))
    assert dropped.missing_value == table().head(300)["tip"].null_count() > 0


@pytest.mark.parametrize("kind", ["quantiles", "people of three steps"])
def test_closed_steps_publish_measures_job_by_job(
    spark: Cluster, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**KINDS[kind]}
    measures: ValueMeasures | None = options.get("measures")
    moved = 4 if measures is None else 1
    publisher = Publisher(
        PLACES,
        Guarantee(1, w=5),
        STREAMS["uniform"](),
        tmp_path / "ledger.db",
        calendar=DAYS,
        key=KEY,
        max_contribution=moved,
        measures=measures,
        distinct=options.get("distinct"),
    )
    fed: list[Sealed] = []
    feed = publisher.feed

    def record(snapshot: Any, t: int | None = None) -> Any:
        fed.append(snapshot)
        return feed(snapshot, t)

    monkeypatch.setattr(publisher, "feed", record)
    stream = ClosedSteps(publisher, DAYS, user="user", arrival="time", key=KEY, bins_per_user=2, steps_at_once=2)

    class Late:
        def now(self) -> int:
            return STEPS

    df = spark.session.createDataFrame(table().to_arrow())
    assert len(publish_closed(df, stream, Late())) == STEPS
    assert all(same(one, other) for one, other in zip(fed, alone(table(), **options), strict=True))


def test_promises_that_do_not_fit_people_are_refused(tmp_path: Path) -> None:
    def stream(distinct: int, moved: int, w: int) -> ClosedSteps:
        publisher = Publisher(
            PLACES, Guarantee(1, w=w), STREAMS["uniform"](), tmp_path / f"{moved}-{w}.db",
            calendar=DAYS, key=KEY, max_contribution=moved, distinct=distinct,
        )  # fmt: skip
        return ClosedSteps(publisher, DAYS, user="user", arrival="time", key=KEY)

    with pytest.raises(InvalidInputError, match="max_contribution 1: one person moves"):
        stream(3, 1, 5)
    with pytest.raises(InvalidInputError, match="a visit is seen in 3 steps"):
        stream(3, 2, 2)
    assert stream(3, 2, 3).publisher.distinct == 3
