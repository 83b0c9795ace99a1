"""Ten million bins at a step, and domains that nobody can list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.spark.conftest import Cluster
from tests.spark.support import KEY, alone, opened
from veilstream.data import Calendar, Domain, Dropped, Grid
from veilstream.data.bounding.keyed import Key
from veilstream.errors import InvalidDomainError, UnknownValueError
from veilstream.mechanisms.histograms import FilterPriority
from veilstream.release.records import release_records
from veilstream.spark import records, snapshots
from veilstream.synthesis import read_rows
from veilstream.synthesis.domain import TableDomain
from veilstream.trusted.opening import open_records


def test_ten_million_bins(spark: Cluster) -> None:
    bins = 10**7
    draw = np.random.default_rng(4)  # noqa: TID251
    table = pl.DataFrame({"user": np.arange(20_000), "time": 0, "bin": draw.integers(0, bins, 20_000) + 0.5})
    domain, calendar = Domain({"bin": Grid(0, bins, bins)}), Calendar(0, 1, 1)
    df = spark.session.createDataFrame(table.to_arrow())
    found = opened(snapshots(df, domain=domain, calendar=calendar, user="user", time="time", key=KEY))
    assert found.shape == (1, bins)
    assert (found == alone(table, domain, calendar)).all()


WIDE = TableDomain({f"x{axis}": Grid(0, 1000, 1000) for axis in range(8)})


def wide_table(rows: int = 4000) -> pl.DataFrame:
    draw = np.random.default_rng(6)  # noqa: TID251
    values = {name: draw.integers(0, 3, rows) * 250.0 for name in WIDE.names}
    people = [None if one == 0 else f"p{one}" for one in draw.integers(0, 1500, rows).tolist()]
    return pl.DataFrame({"user": people, **values})


@pytest.mark.parametrize("per_user", [1, 3])
def test_records_are_those_of_one_machine(spark: Cluster, per_user: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table = wide_table()
    table[7, "x3"] = -1.0
    df = spark.session.createDataFrame(table.to_arrow()).repartition(3)
    monkeypatch.setattr("veilstream.spark.record_worker.PIECE_CELLS", 50)
    left_out = Dropped()
    there = records(
        df, domain=WIDE, user="user", key=KEY, rows_per_user=per_user, unknown="drop", dropped=left_out, buckets=2
    )
    here = read_rows(table, WIDE, user="user", rows_per_user=per_user, unknown="drop", key=Key(KEY)).records()
    assert there.shape == here.shape
    assert there.l1 == here.l1 == per_user
    assert all((a == b).all() for a, b in zip(open_records(there), open_records(here), strict=True))
    assert (left_out.unknown, left_out.no_user) == (1, table["user"].null_count())


def test_records_are_released_without_listing_the_domain(spark: Cluster, tmp_path: Path) -> None:
    df = spark.session.createDataFrame(wide_table().to_arrow())
    sealed = records(df, domain=WIDE, user="user")
    release = release_records(sealed, 1, FilterPriority(), tmp_path / "ledger.db", domain=WIDE)
    assert release.boxes.size > 0


def test_unknown_values_and_empty_domains_are_refused(spark: Cluster) -> None:
    df = spark.session.createDataFrame([(1, -1.0)], "user long, x0 double")
    with pytest.raises(UnknownValueError, match="'x0'"):
        records(df, domain=Domain({"x0": Grid(0, 1, 2)}), user="user")
    with pytest.raises(InvalidDomainError):
        records(df, domain=Domain({}), user="user")
