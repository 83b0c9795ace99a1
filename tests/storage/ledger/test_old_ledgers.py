"""Ledgers of every earlier schema open, export what they did, and every stream in them goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

import veilstream as vs
from veilstream.data import Calendar, Categories, Edges
from veilstream.errors import BudgetExceededError, LedgerMismatchError
from veilstream.mechanisms.histograms import FilterPriority
from veilstream.mechanisms.streams import DSAT, BudgetAbsorption, ModelBased, RetroactiveGrouping, Uniform
from veilstream.metric import MetricGuarantee, SortedPoints, Space, release_points
from veilstream.personalised import (
    LedgerAccounts,
    PersonalisedPublisher,
    Roster,
    Stretching,
    count_levels,
    release_counts,
)
from veilstream.privacy.windows import fullest_window
from veilstream.release.records import release_records
from veilstream.storage.keys import load
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.exporting import export, header
from veilstream.storage.ledger.verifying import verify
from veilstream.storage.migrations import versions
from veilstream.trusted.records import seal_records

FIXTURES = Path(__file__).parents[1] / "fixtures"
EXPORTED: dict[str, list[dict[str, Any]]] = json.loads((FIXTURES / "v1.export.json").read_text())
PLACES = vs.Domain({"place": Categories(["a", "b", "c"]), "age": Edges([0, 18, 65])})
ROSTER = Roster.of_budgets(["1/8"] * 50 + ["1"] * 950)
LEVELS, VALUES = np.repeat([0, 1], [50, 950]), np.arange(1000) % 2
TABLES = ("streams", "counter", "blobs", "steps", "charges", "failures", "states", "state_blobs", "ledger_version")
"""Of schema 0001, in an order in which rows can be written."""


@pytest.fixture
def old(request: pytest.FixtureRequest, new_ledger: Callable[[], str]) -> str:
    """The URL of a fresh copy of the old ledger."""
    url = new_ledger()
    if url.startswith("sqlite"):
        copy = Path(url.removeprefix("sqlite:///"))
        shutil.copy(FIXTURES / "v1.sqlite3", copy)
        copy.chmod(0o600)
        return url
    source = sa.create_engine(f"sqlite:///{FIXTURES / 'v1.sqlite3'}", poolclass=sa.NullPool)
    target = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool)
    with source.connect() as reader, target.begin() as writer:
        _copy(reader, writer)
    return url


def _copy(reader: Connection, writer: Connection) -> None:
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext

    from veilstream.storage.migrations import VERSION_TABLE
    from veilstream.storage.migrations.versions import v0001_first

    context = MigrationContext.configure(writer, opts={"version_table": VERSION_TABLE})
    with Operations.context(context):
        v0001_first.upgrade()
    writer.execute(sa.text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)"))
    writer.execute(sa.text("DELETE FROM counter"))
    for name in TABLES:
        table = sa.Table(name, sa.MetaData(), autoload_with=writer)
        rows = [
            dict(row)
            for row in reader.execute(sa.select(sa.Table(name, sa.MetaData(), autoload_with=reader))).mappings()
        ]
        for row in rows:
            row.update({"fresh": bool(row["fresh"])} if "fresh" in row else {})
        if rows:
            writer.execute(sa.insert(table), rows)
    for name in ("streams", "blobs", "charges", "failures"):
        writer.execute(
            sa.text(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), (SELECT coalesce(max(id), 1) FROM {name}))")
        )


def test_it_exports_what_it_did(old: str) -> None:
    with Ledger.open(old) as ledger:
        assert [spec.name for spec in ledger.streams()] == list(EXPORTED)
        for name, rows in EXPORTED.items():
            told = exported_before(ledger, name)
            assert len(told) == len(rows) > 0
            for now, then in zip(told, rows, strict=True):
                assert now == _renamed(then) if "low_corners" not in now else _packed(now) == then["values"]


def exported_before(ledger: Ledger, name: str) -> list[dict[str, Any]]:
    """An export as JSON, without what exports did not say when the old ones were written."""
    rows: list[dict[str, Any]] = json.loads(json.dumps(export(ledger, name)))
    return [{field: value for field, value in row.items() if field != "as_of"} for row in rows]


def _renamed(row: dict[str, Any]) -> dict[str, Any]:
    return {{"since": "starts"}.get(name, name): value for name, value in row.items()}


def _packed(row: dict[str, Any]) -> list[float]:
    """Boxes as schema 0001 kept them: corners and value of each in one vector."""
    parts = zip(row["low_corners"], row["high_corners"], row["values"], strict=True)
    return [float(number) for low, high, value in parts for number in (*low, *high, value)]


STREAMS: dict[str, tuple[Any, vs.Guarantee, Any, list[int], int]] = {
    "uniform": (PLACES, vs.Guarantee(1, w=4), Uniform(), [40, 7, 0, 12, 90, 3], 2),
    "dsat": (3, vs.Guarantee(2, w=7), DSAT(releases=None), [10, 220, 30], 1),
    "absorption": (3, vs.Guarantee(1, w=5), BudgetAbsorption(), [10, 220, 30], 1),
    "grouping": (3, vs.Guarantee(1, w=1), RetroactiveGrouping(window=4), [40, 7, 0], 1),
    "grouping-window": (3, vs.Guarantee(1, w=5), RetroactiveGrouping(window=4), [40, 7, 0], 1),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_goes_on(name: str, old: str) -> None:
    bins, guarantee, mechanism, counts, bound = STREAMS[name]
    released = [row["t"] for row in EXPORTED[name] if row["kind"] == "release"]
    for _ in range(2):
        with vs.Publisher(bins, guarantee, mechanism, old, stream=name, max_contribution=bound) as publisher:
            for _ in range(8):
                released.append(publisher.feed(np.array(counts)).t)
            assert released == list(range(len(released)))
            charges = [row.charge for row in publisher.ledger.charges(name)]
            each = publisher.ledger.spec(name).per_timestamp
            assert fullest_window(charges, guarantee.w, publisher.bins, per_timestamp=each)[0] <= guarantee.pure
            assert each == (name == "grouping-window")


def test_other_mechanisms_and_domains_are_refused(old: str) -> None:
    guarantee = vs.Guarantee(1, w=4)
    other = vs.Domain({"place": Categories(["a", "b", "x"]), "age": Edges([0, 18, 65])})
    for bins, mechanism, wrong in ((PLACES, Uniform(horizon=9), "mechanism"), (other, Uniform(), "domain")):
        with pytest.raises(LedgerMismatchError) as caught:
            vs.Publisher(bins, guarantee, mechanism, old, stream="uniform", max_contribution=2)
        assert caught.value.name == wrong
    with vs.Publisher(PLACES, guarantee, Uniform(), old, stream="uniform", max_contribution=2) as publisher:
        assert publisher.ledger.spec("uniform").recorded_domain() == PLACES


def test_people_with_budgets_of_their_own_are_answered_from_it(old: str) -> None:
    x = count_levels(ROSTER, LEVELS, VALUES, bins=2)
    (release,) = [row for row in EXPORTED["accounts"] if row["kind"] == "release"]
    with LedgerAccounts(ROSTER, old, stream="accounts") as accounts:
        again = release_counts(x, Stretching(), accounts)
        assert again.values.numbers.tolist() == release["values"]
        assert accounts.left() == [0, 0]
    with PersonalisedPublisher(ROSTER, 2, 10, Uniform(), old, stream="people") as people:
        later = people.feed(count_levels(ROSTER, LEVELS, VALUES, bins=2, t=2))
        assert [one.t for one in later.releases] == [2, 2]


def test_what_was_released_once_comes_back(old: str) -> None:
    with Ledger.open(old) as ledger:
        records = seal_records(np.tile([[3, 5, 7]], (500, 1)), (100,) * 3, t=0)
        before = len(list(ledger.releases()))
        boxes = release_records(records, "1/2", FilterPriority(), ledger, name="records").boxes
        assert abs(boxes.count([3, 5, 7], [4, 6, 8]) - 500) < 100
        points = release_points(
            [0.2, 0.9, 0.4], SortedPoints(), MetricGuarantee("1/2", "0.01", Space(0, 1)), ledger, "points"
        )
        assert points.values.tolist() == EXPORTED["points"][-1]["values"]
        assert len(list(ledger.releases())) == before


def test_the_calendar_and_the_key_of_a_key_file_move_into_the_ledger(old: str, tmp_path: Path) -> None:
    key_file = tmp_path / "visits.key"
    shutil.copy(FIXTURES / "v1.visits-key.json", key_file)
    key_file.chmod(0o600)
    key = load(key_file, "visits")
    assert key is not None
    domain, days = vs.Domain({"place": Categories(["a", "b"])}), Calendar("2024-01-01", "2024-01-09", "1d")
    with pytest.raises(LedgerMismatchError):
        key.check(Calendar("2024-01-02", "2024-01-09", "1d"), key_file)
    key.check(days, key_file)

    def publisher(calendar: Calendar, secret: bytes) -> vs.Publisher[Any]:
        guarantee = vs.Guarantee(1, w=2)
        return vs.Publisher(domain, guarantee, Uniform(), old, stream="visits", calendar=calendar, key=secret)

    with publisher(days, key.secret) as opened:
        assert opened.feed(np.array([5, 5])).t == 3
        assert [row["time"] for row in export(opened.ledger, "visits") if row["kind"] == "release"][-1][
            :10
        ] == "2024-01-04"
    for calendar, secret in ((Calendar("2024-01-02", "2024-01-09", "1d"), key.secret), (days, bytes(32))):
        with pytest.raises(LedgerMismatchError):
            publisher(calendar, secret)


def copied(name: str, folder: Path) -> Path:
    copy = folder / name
    shutil.copy(FIXTURES / name, copy)
    copy.chmod(0o600)
    return copy


def test_every_earlier_schema_has_a_fixture() -> None:
    schemas = {int(path.name[1:5]) for path in (Path(versions.__file__).parent).glob("v0*.py")}
    kept = {int(path.stem.removeprefix("v")) for path in FIXTURES.glob("v?.sqlite3")}
    assert schemas - {max(schemas)} <= kept


def test_a_ledger_of_the_second_schema_exports_and_goes_on(tmp_path: Path) -> None:
    """It had no chain yet: that begins when the ledger is brought forward."""
    second = copied("v2.sqlite3", tmp_path)
    exported: dict[str, list[dict[str, Any]]] = json.loads((FIXTURES / "v2.export.json").read_text())
    with Ledger.open(second) as ledger:
        assert [spec.name for spec in ledger.streams()] == list(exported)
        for name, (told, *rows) in exported.items():
            assert told.items() <= header(ledger, ledger.spec(name)).items()
            assert exported_before(ledger, name) == rows
    for name, (bins, guarantee, mechanism, counts, bound) in STREAMS.items():
        released = sum(row["kind"] == "release" for row in exported[name])
        with vs.Publisher(bins, guarantee, mechanism, second, stream=name, max_contribution=bound) as publisher:
            assert [publisher.feed(np.array(counts)).t for _ in range(9)] == list(range(released, released + 9))
    with LedgerAccounts(ROSTER, second, stream="accounts") as accounts:
        answer = release_counts(count_levels(ROSTER, LEVELS, VALUES, bins=2), Stretching(), accounts)
        assert answer.values.numbers.tolist() == exported["accounts"][-1]["values"]
    with Ledger.open(second) as ledger:
        assert verify(ledger) == []


def test_a_ledger_of_the_third_schema_verifies_exports_and_goes_on(tmp_path: Path) -> None:
    """It had a chain and no snapshots."""
    third = copied("v3.sqlite3", tmp_path)
    exported: dict[str, list[dict[str, Any]]] = json.loads((FIXTURES / "v3.export.json").read_text())
    with Ledger.open(third) as ledger:
        assert verify(ledger) == []
        assert [spec.name for spec in ledger.streams()] == list(exported)
        for name, (told, *rows) in exported.items():
            now = header(ledger, ledger.spec(name))
            assert {**now, "mark": None} == {**told, "mark": None}
            assert now["mark"]["digest"] == told["mark"]["digest"]
            assert exported_before(ledger, name) == rows
    going_on = {name: STREAMS[name] for name in ("uniform", "dsat", "grouping", "grouping-window")}
    for name, (bins, guarantee, mechanism, counts, bound) in going_on.items():
        released = sum(row["kind"] == "release" for row in exported[name])
        with vs.Publisher(bins, guarantee, mechanism, third, stream=name, max_contribution=bound) as publisher:
            assert [publisher.feed(np.array(counts)).t for _ in range(9)] == list(range(released, released + 9))
    with LedgerAccounts(ROSTER, third, stream="accounts") as accounts:
        answer = release_counts(count_levels(ROSTER, LEVELS, VALUES, bins=2), Stretching(), accounts)
        assert answer.values.numbers.tolist() == exported["accounts"][-1]["values"]
    with Ledger.open(third) as ledger:
        assert verify(ledger) == []


def assert_exported(ledger: Ledger, exported: dict[str, list[dict[str, Any]]]) -> None:
    """It verifies, and says of each stream what was said then."""
    assert verify(ledger) == []
    assert [spec.name for spec in ledger.streams()] == list(exported)
    for name, (told, *rows) in exported.items():
        assert header(ledger, ledger.spec(name)) == told
        assert exported_before(ledger, name) == rows


def test_a_ledger_of_the_fourth_schema_verifies_exports_and_goes_on(tmp_path: Path) -> None:
    """Of its streams one was compacted, and of another steps are lost."""
    fourth = copied("v4.sqlite3", tmp_path)
    with Ledger.open(fourth) as ledger:
        assert_exported(ledger, json.loads((FIXTURES / "v4.export.json").read_text()))
    days = Calendar("2024-01-01", "2024-03-01", "1d")
    single = (1, vs.Guarantee(1, w=4), Uniform(), [7], 1)
    for name, first in {
        "uniform": 5,
        "dsat": 9,
        "absorption": 9,
        "grouping-window": 40,
        "long": 601,
        "lost": 9,
    }.items():
        bins, guarantee, mechanism, counts, bound = STREAMS.get(name, single)
        dated = days if name == "uniform" else None
        with vs.Publisher(
            bins, guarantee, mechanism, fourth, stream=name, max_contribution=bound, calendar=dated
        ) as publisher:
            assert [publisher.feed(np.array(counts)).t for _ in range(3)] == [first, first + 1, first + 2]
    with Ledger.open(fourth) as ledger:
        assert verify(ledger) == []


def test_a_population_of_the_fifth_schema_has_what_it_had_left(tmp_path: Path) -> None:
    fifth = copied("v5.sqlite3", tmp_path)
    told = json.loads((FIXTURES / "v5.export.json").read_text())
    hours = Calendar("2024-01-01", "2025-01-01", "1h")
    with Ledger.open(fifth) as ledger:
        assert_exported(ledger, told["streams"])
        account = ledger.populations.account("residents")
        assert str(account.profile().peak().pure) == told["fullest"]
        assert account.pool.pure == 2 - Fraction(1, 4)
        hourly = vs.Publisher(
            3, vs.Guarantee("1/2", w=24), Uniform(), ledger, stream="hourly", calendar=hours, population="residents"
        )
        assert hourly.feed(np.array([1, 2, 3])).t == 9
        wide = vs.Guarantee(account.pool.pure, w=1)
        late = vs.Publisher(3, wide, Uniform(), ledger, stream="late", calendar=hours, population="residents")
        with pytest.raises(BudgetExceededError, match="'hourly'"):
            late.feed(np.array([1, 2, 3]))
        assert verify(ledger) == []


def test_a_ledger_of_the_sixth_schema_keeps_revisions_from_now_on(tmp_path: Path) -> None:
    sixth = copied("v6.sqlite3", tmp_path)
    told: dict[str, list[dict[str, Any]]] = json.loads((FIXTURES / "v6.export.json").read_text())
    with Ledger.open(sixth) as ledger:
        assert verify(ledger) == []
        for name, (described, *rows) in told.items():
            assert header(ledger, ledger.spec(name)) == described
            assert exported_before(ledger, name)[-len(rows) :] == rows
        assert list(ledger.revisions("revised")) == []
    with vs.Publisher(3, vs.Guarantee(1, w=7), ModelBased(revise=3), sixth, stream="revised") as publisher:
        assert publisher.feed(np.array([10, 220, 30])).t == 9
        kept = [(revision.step, revision.version) for revision in publisher.ledger.revisions("revised")]
        assert kept == [(6, 3), (7, 2), (8, 1)]
        assert verify(publisher.ledger) == []
