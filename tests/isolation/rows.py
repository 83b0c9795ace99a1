"""Rows to draw: those of everybody else, in every type that holds them, and those of one hostile person."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

from tests.isolation.harness import Case, Seen
from veilstream.data import Calendar, Categories, Domain, Edges, Grid, read_events
from veilstream.data.bounding import bound
from veilstream.data.measures import ValueMeasures
from veilstream.data.values import ONE
from veilstream.trusted.opening import opened

Row: TypeAlias = dict[str, Any]
ZONE: Final = "Europe/Zurich"
START: Final = datetime(2024, 1, 1, tzinfo=ZoneInfo(ZONE))
CALENDAR: Final = Calendar("2024-01-01", "2024-01-03", "6h", zone=ZONE)
DOMAIN: Final = Domain(
    {
        "place": Categories(["1", "2", "x"]),
        "zone": Categories([7, 8]),
        "age": Grid(0.0, 100.0, 2),
        "size": Edges([0, 0.5, 10]),
        "flag": Categories([True, False]),
    }
)
MEASURES: Final = ValueMeasures.of({"mean": {"fare": (0, 100)}, "median": {"fare": (0, 100)}})
NAMES: Final = ("id", "time", *DOMAIN.names, "fare")
LIMITS: Final[dict[str, Any]] = {
    "counts_per_user": 2,
    "bins_per_user": 2,
    "key": bytes(32),
    "unknown": "drop",
    "missing_time": "drop",
}
LARGE: Final = 1 << 53
EDGES_OF_TYPES: Final = (99, 0, -1, LARGE - 1, LARGE + 1, (1 << 63) - 1, -(1 << 63), 1 << 63, (1 << 64) - 1, 10**40)
"""Who the hostile person may be: no one of everybody else."""


def seen(source: Any, *, measured: bool = False, **options: Any) -> Seen:
    """The exact counts of every step of a source, through ``bound``."""
    return unsealed(
        lambda: bound(
            read_events(source, user="id", time="time", by=(*DOMAIN.names, "fare"), **options),
            DOMAIN,
            CALENDAR,
            measures=MEASURES if measured else None,
            missing_value="drop",
            **LIMITS,
        ).snapshots()
    )


def unsealed(snapshots: Callable[[], Any]) -> Seen:
    """The exact counts of sealed steps; those of measured values are in multiples of 2⁻¹⁶."""
    steps = list(snapshots())
    grid = ONE if steps[0].grid else 1
    public = {"steps": [(str(step), step.origin) for step in steps]}
    return Seen(np.stack([np.asarray(opened(step)) for step in steps]), steps[0].l1 * grid, public)


# Everybody else.

small: Final = st.integers(1, 6)
large: Final = st.integers(LARGE + 3, LARGE + 9)
names: Final = st.sampled_from(["ann", "bob", "é", "5", "7"])


@st.composite
def everybody(draw: st.DrawFn, ids: st.SearchStrategy[Any]) -> list[Row]:
    """Rows of people with ids of one kind; values are whole numbers of every column's domain."""
    row = st.fixed_dictionaries(
        {
            "id": ids,
            "time": st.integers(0, 47).map(lambda hour: START + timedelta(hours=hour)),
            "place": st.sampled_from(["1", "2"]),
            "zone": st.sampled_from([7, 8]),
            "age": st.sampled_from([0, 20, 50, 100]),
            "size": st.sampled_from([0, 1, 9]),
            "flag": st.booleans(),
            "fare": st.sampled_from([0, 3, 50, 100]),
        }
    )
    return draw(st.lists(row, min_size=1, max_size=12))


# One hostile person in Python's own types.


def spellings(person: int) -> st.SearchStrategy[Any]:
    """Ways to write the id of one person, and ids that are nobody's."""
    ways: list[Any] = [person, str(person), f" {person} ", f"{person:+d}", Decimal(person), Fraction(person)]
    ways.append(str(person).encode())
    if abs(person) < LARGE:
        ways += [float(person), f"{person}.0", np.float64(person)]
    nobody = [None, math.nan, pd.NA, pd.NaT, "", " \t", "\0"]
    broken = [True, math.inf, -math.inf, 1.5, 2.0**60, 1e300, "9007199254740993.0", b"\xff", "\ud800", np.True_]
    broken += [Decimal("1e999"), Decimal("inf"), object, [person], {"id": person}, (1, 2), date(2024, 1, 1)]
    return st.sampled_from(ways) | st.sampled_from(nobody + broken)


strange: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [
        None, math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-300, 10**400, -(10**400), 1 << 62, 1 << 63, LARGE + 1,
        True, False, 0, 1, 2, 7, 8, 1.0, 7.0, 7.5, -0.0, "", " ", "1", "1.0", "01", "+1", "7", "7.0", "8e0", "x", "X",
        "true", "False", "nan", "NaN", "inf", "1e999", "1,5", "\0", "\ud800", "é", "x" * 5000, b"1", b"\xff", b"x",
        Decimal(7), Decimal("1e400"), Decimal("nan"), Fraction(1, 3), date(2024, 1, 1), timedelta(1), [], [7], {}, {1},
        object, pd.NA, pd.NaT, np.int8(7), np.float32(1.5), np.str_("x"), np.True_, np.datetime64("2024-01-01"), 3j,
    ]
)  # fmt: skip
times: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [
        *(START + timedelta(hours=hour) for hour in (0, 1, 47, 48, -1)),
        START.replace(tzinfo=None), START.astimezone(UTC), START.astimezone(timezone(timedelta(hours=5, minutes=30))),
        datetime.min, datetime.max, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC),
        date(2024, 1, 1), date.min, date.max, pd.Timestamp("2024-01-01"), pd.Timestamp.max, pd.Timestamp.min,
        np.datetime64("2024-01-01T05"), np.datetime64("NaT"), np.datetime64(2**62, "s"),
        "2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01T01:00:00+01:00", "2024-01-01 03:00", "01.01.2024 05:00",
        "2024-03-31T02:30:00", "2024-01-01T00:00:00.123456789Z", "0001-01-01", "9999-12-31T23:59:59", "10000-01-01",
        "20240101", "soon", "1704067200", "1704067200000", "1704067200000000", "1704067200.0", "99999999999999999999",
        1704067200, 1704067200.0, 1704067200000, 1704067200000000, 1704067200.5, -1, 0, 1 << 62, 1e300,
    ]
)  # fmt: skip


@st.composite
def hostile(draw: st.DrawFn) -> list[Row]:
    """Rows of one person, whole ones and broken ones."""
    person = draw(st.sampled_from(EDGES_OF_TYPES))
    sound = {"place": "1", "zone": 7, "age": 20, "size": 1, "flag": True, "fare": 3}
    cells = {name: st.just(value) | strange for name, value in sound.items()}
    row = st.fixed_dictionaries({"id": spellings(person), "time": st.just(START) | times | strange, **cells})
    many = draw(st.sampled_from([1, 1, 1, 3, 60]))
    return draw(st.lists(row, min_size=1, max_size=4)) * many


def mixed(draw: st.DrawFn, others: Sequence[Any], mine: Sequence[Any]) -> list[Any]:
    """Both, the hostile rows in front, behind, or somewhere among the others."""
    at = draw(st.integers(0, len(others)))
    return [*others[:at], *mine, *others[at:]]


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in NAMES}


@st.composite
def objects(draw: st.DrawFn) -> Case[list[Row]]:
    """Rows of Python values."""
    others = draw(everybody(draw(st.sampled_from([small, large, names]))))
    mine = draw(hostile())
    return Case(others, mixed(draw, others, mine), mine)


def inferred(rows: Sequence[Row]) -> pd.DataFrame:
    """As pandas takes rows: it makes up the types of columns from what it finds, and cannot take half characters."""
    halved = any(value == "\ud800" for row in rows for value in row.values() if isinstance(value, str))
    return pd.DataFrame(columns(rows), dtype=object if halved else None)


def rounding(case: Case[Any], frame: Callable[[Any], pd.DataFrame], *, alone: bool) -> Case[Any]:
    """The same for pandas, which may have made floating-point numbers of all ids: rounded ones refuse the table."""
    ids = frame(case.both)["id"]
    whole = bool(ids.dtype.kind == "f" and (ids.abs() >= LARGE).any())
    return Case(case.others, case.both, case.alone if alone else None, whole)


# Tables whose columns have types.


@dataclass(frozen=True, slots=True)
class Typed:
    """A type of a column: everybody's values in it, and what else it can hold."""

    kind: Any
    cell: Callable[[Any], Any]
    hostile: st.SearchStrategy[Any]


def _integers(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return st.sampled_from([low, low + 1, high, high - 1]) | st.integers(low, high)


def _same(value: Any) -> Any:
    return value


texts: Final = st.sampled_from(["", " ", "\0", "x", "nan", "inf", "1e999", "7.5", "-0", "é", "1704067200", "soon"])
floats: Final = st.floats(width=64) | st.sampled_from([7.0, 1.0, math.nan, math.inf, -0.0, 1e300])
decimals: Final = st.sampled_from([Decimal("7.00"), Decimal("1.5"), Decimal(0), Decimal("-99999999999.99")])
DECIMAL: Final = pa.decimal128(30, 2)
TEXTS: Final = (
    Typed(pa.string(), str, texts),
    Typed(pa.large_string(), str, texts),
    Typed(pa.dictionary(pa.int32(), pa.string()), str, texts),
    Typed(pa.binary(), lambda value: str(value).encode(), st.sampled_from([b"", b"\xff", b"x", b"7"])),
)
NUMBERS: Final = (
    Typed(pa.int64(), int, _integers(64)),
    Typed(pa.float64(), float, floats),
    Typed(pa.float32(), float, st.floats(width=32)),
    Typed(DECIMAL, Decimal, decimals),
    Typed(pa.string(), str, texts),
)
BYTES: Final = (Typed(pa.int8(), int, _integers(8)), Typed(pa.uint8(), int, _integers(8, signed=False)))


def _ticks(unit: str, zone: str | None) -> Typed:
    """Instants of a unit as whole numbers, so that those that no calendar has can be written too."""
    size = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]

    def cell(moment: datetime) -> int:
        wall = moment if zone is not None else moment.replace(tzinfo=UTC)
        return int(wall.timestamp()) * size

    # Writers and engines turn seconds into finer units, and refuse what does not fit these.
    far = _integers(64).map(lambda tick: (abs(tick) // max(1, 10**6 // size)) * (-1 if tick < 0 else 1))
    return Typed(pa.timestamp(unit, zone), cell, far | st.sampled_from([0, cell(START), -62135596800 * size]))


TIMES: Final = (
    *(_ticks(unit, zone) for unit in ("s", "ms", "us") for zone in (None, "UTC", "Asia/Kolkata")),
    _ticks("ns", "UTC"),
    Typed(pa.string(), lambda moment: moment.isoformat(), texts),
    Typed(pa.string(), lambda moment: moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), texts),
    Typed(pa.string(), lambda moment: moment.strftime("%d.%m.%Y %H:%M"), texts),
    Typed(pa.int64(), lambda moment: int(moment.timestamp()), _integers(64)),
    Typed(pa.int64(), lambda moment: int(moment.timestamp()) * 1000, _integers(64)),
    Typed(pa.float64(), lambda moment: moment.timestamp(), floats),
    Typed(pa.string(), lambda moment: str(int(moment.timestamp())), texts),
)
FLAGS: Final = (
    Typed(pa.bool_(), _same, st.booleans()),
    Typed(pa.string(), str, texts),
    Typed(pa.string(), lambda value: str(value).lower(), texts),
)


def kinds_of(rows: Sequence[Row]) -> dict[str, tuple[Typed, ...]]:
    """The types that hold everybody's values of each column exactly."""
    ids: tuple[Typed, ...] = TEXTS
    if all(isinstance(row["id"], int) for row in rows):
        whole = (Typed(pa.int64(), _same, _integers(64)), Typed(pa.uint64(), _same, _integers(64, signed=False)))
        ids = (*TEXTS, *whole, Typed(DECIMAL, Decimal, decimals))
        if all(row["id"] < LARGE for row in rows):
            ids = (*ids, Typed(pa.float64(), float, st.floats(-(2.0**52), 2.0**52)))
    numbers = (*NUMBERS, *BYTES)
    return {
        "id": ids,
        "time": TIMES,
        "place": (*TEXTS, *numbers),
        "zone": numbers,
        "age": numbers,
        "size": numbers,
        "flag": FLAGS,
        "fare": numbers,
    }


def table(rows: Sequence[Row], kinds: dict[str, Typed], mine: Sequence[Row] = (), at: int = 0) -> pa.Table:
    """Everybody's rows in these types, with rows of values of these types among them."""
    arrays: list[Any] = []
    for name in NAMES:
        kind = kinds[name]
        cells: list[Any] = [kind.cell(row[name]) for row in rows]
        cells[at:at] = [row[name] for row in mine]
        ticks = pa.types.is_timestamp(kind.kind)
        array = pa.array(cells, pa.int64() if ticks else kind.kind)
        arrays.append(array.view(kind.kind) if ticks else array)
    return pa.table(arrays, names=list(NAMES))


def storable(kind: Typed) -> bool:
    """Whether Spark and the tables of a lake have the type."""
    types = pa.types
    instant = types.is_timestamp(kind.kind) and kind.kind.unit == "us" and kind.kind.tz in (None, "UTC")
    others = (types.is_string, types.is_int64, types.is_int8, types.is_floating, types.is_decimal, types.is_boolean)
    return instant or any(is_kind(kind.kind) for is_kind in others)


@st.composite
def tables(draw: st.DrawFn, *, stored: bool = False) -> Case[pa.Table]:
    """Typed tables; with the hostile rows columns may have other types than without."""
    others = draw(everybody(draw(st.sampled_from([small, large, names]))))
    known = kinds_of(others)
    if stored:
        known = {name: tuple(filter(storable, kinds)) for name, kinds in known.items()}
    first, second = (draw(st.fixed_dictionaries({n: st.sampled_from(k) for n, k in known.items()})) for _ in range(2))
    person = {name: second[name].cell(value) for name, value in zip(NAMES, _sound(others), strict=True)}
    row = st.fixed_dictionaries(
        {name: st.just(person[name]) | (st.none() | kind.hostile if name != "id" else _mine(kind, person[name]))
         for name, kind in second.items()}
    )  # fmt: skip
    mine = draw(st.lists(row, min_size=1, max_size=3)) * draw(st.sampled_from([1, 1, 20]))
    at = draw(st.integers(0, len(others)))
    return Case(table(others, first), table(others, second, mine, at), table([], second, mine))


def _sound(others: Sequence[Row]) -> list[Any]:
    person = 99 if isinstance(others[0]["id"], int) else "99"
    return [person, START, "1", 7, 20, 1, True, 3]


def _mine(kind: Typed, person: Any) -> st.SearchStrategy[Any]:
    """The person, or nobody: text and bytes that are no id."""
    nobody: dict[Any, list[Any]] = {
        pa.binary(): [b"\xff", b" "],
        pa.float64(): [math.nan, math.inf, 0.5],
        pa.string(): ["", " \t", "9007199254740993.0"],
    }
    return st.sampled_from([None, person, *nobody.get(kind.kind, [])])
