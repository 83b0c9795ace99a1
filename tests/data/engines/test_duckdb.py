"""A relation of DuckDB gives the counts of every other source, for every type of id and time."""

from __future__ import annotations

import sys
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from tests.data.bounding.support import BINS, CALENDAR, DOMAIN, KEY, STEPS, counts
from veilstream.data import Calendar, Domain, Dropped
from veilstream.data.engines.duckdb import snapshots
from veilstream.errors import EngineError, InvalidInputError, MissingExtraError, UnknownValueError
from veilstream.trusted.opening import open_counts


def in_duckdb(relation: Any, **options: Any) -> NDArray[np.int64]:
    steps = snapshots(relation, domain=DOMAIN, calendar=CALENDAR, user="user", time="time", **{"key": KEY, **options})
    return np.array([open_counts(step) for step in steps])


def frame(rows: int = 5000) -> pl.DataFrame:
    draw = np.random.default_rng(2)  # noqa: TID251
    users, times = draw.integers(0, 300, rows), draw.integers(0, STEPS, rows)
    return pl.DataFrame({"user": users, "time": times, "bin": draw.integers(0, BINS, rows)})


@pytest.mark.parametrize(
    "kind", ["bigint", "ubigint", "hugeint", "uhugeint", "double", "decimal(38, 2)", "varchar", "blob", "integer"]
)
def test_ids_of_every_type_are_the_same_people(kind: str) -> None:
    table = frame()
    connection = duckdb.connect()
    connection.register("events", table.to_arrow())
    cast = "user::varchar::blob" if kind == "blob" else f"user::{kind}"
    relation = connection.sql(f"select {cast} as user, time, bin from events")
    expected = counts(table, bins_per_user=2, counts_per_user=3)
    assert (in_duckdb(relation, bins_per_user=2, counts_per_user=3) == expected).all()
    assert expected.sum() > 0


def test_wide_integers_are_exact() -> None:
    wide = 2**126
    relation = duckdb.sql(
        f"select unnest([{wide}::hugeint, {wide + 1}::hugeint, {wide}::hugeint]) as user, 0 as time, 0 as bin"
    )
    assert in_duckdb(relation).sum() == 2


def test_uuids_enums_and_nulls() -> None:
    relation = duckdb.sql(
        "select unnest(['a', 'b', 'a', null]::enum('a', 'b')[]) as user, 0 as time, 0 as bin "
        "union all select null, 1, 1"
    )
    left_out = Dropped()
    assert in_duckdb(relation, dropped=left_out).sum() == 2
    assert left_out.no_user == 2
    one: Any = duckdb.sql("select '6ccd780c-baba-1026-9564-5b8c656024db'::uuid as user, 0 as time, 0 as bin")
    assert in_duckdb(one.union(one)).sum() == 1


def test_times_with_and_without_zone() -> None:
    days = Calendar("2024-03-30", "2024-04-02", "1d", zone="Europe/Paris")
    for moment in ("timestamp '2024-03-31 23:30:00'", "timestamptz '2024-03-31 21:30:00+00'", "date '2024-03-31'"):
        relation = duckdb.sql(f"select 1 as user, {moment} as time")
        steps = list(snapshots(relation, domain=Domain({}), calendar=days, user="user", time="time", first_t=5))
        assert [int(open_counts(step)[0]) for step in steps] == [0, 1, 0]
        assert [step.span.first for step in steps] == [5, 6, 7]


def test_refusals_show_no_row() -> None:
    with pytest.raises(UnknownValueError):
        in_duckdb(duckdb.sql("select 1 as user, 0 as time, 99 as bin"))
    with pytest.raises(InvalidInputError, match="'bin' is missing"):
        in_duckdb(duckdb.sql("select 1 as user, 0 as time"))
    broken = duckdb.sql("select unnest(['1', 'secret'])::int as user, 0 as time, 0 as bin")
    with pytest.raises(EngineError) as caught:
        in_duckdb(broken)
    assert "secret" not in str(caught.value)


def test_a_missing_duckdb_is_said_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    relation = duckdb.sql("select 1 as user, 0 as time, 0 as bin")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtraError, match=r"veilstream\[duckdb\]"):
        in_duckdb(relation)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "GMT+5", "PST"])
def test_instants_in_any_zone_of_the_session(zone: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"set TimeZone='{zone}'")
    relation = connection.sql("select 1 as user, timestamptz '2024-03-31 12:00:00+00' as time, 0 as bin")
    calendar = Calendar("2024-03-31", "2024-04-01", "1d")
    (step,) = snapshots(relation, domain=DOMAIN, calendar=calendar, user="user", time="time", key=KEY)
    assert open_counts(step).sum() == 1


def test_a_query_that_fails_on_a_late_row_does_not_quote_it() -> None:
    late = duckdb.sql(
        "select case when i = 2000000 then error('a secret') else i end as user, 0 as time, 0 as bin "
        "from range(2000001) as numbers(i)"
    )
    with pytest.raises(EngineError) as caught:
        in_duckdb(late)
    assert "secret" not in str(caught.value)


def test_names_that_differ_in_case_alone_and_what_is_no_relation_are_refused() -> None:
    alike = duckdb.sql('select 1 as "user", 0 as time, 0 as bin, 2 as "User" ')
    for relation, told in ((alike, "occurs 2 times"), (None, "NoneType"), (frame(5), "DataFrame")):
        with pytest.raises(InvalidInputError, match=told):
            in_duckdb(relation)
