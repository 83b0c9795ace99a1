"""A reader of ledgers that shares no code with them: plain SQL and fractions, written from docs/ledger.md alone.

It imports nothing of the library and nothing of this package, so that a mistake there cannot hide itself here.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from struct import pack, unpack
from typing import Any, Final, TypeAlias

Row: TypeAlias = dict[str, Any]
TABLES: Final = ("streams", "counter", "arrays", "steps", "charges", "blocks", "failures", "chain", "secret_states")
ROUNDING: Final = Fraction(1, 1 << 30)
"""What discrete Gaussian noise costs beyond its μ²."""
RECOVERY: Final = 60.0
"""Seconds that a server may take to recover."""


@dataclass(frozen=True, slots=True)
class Step:
    """A release as recorded; ``print`` tells it from every other."""

    t: int
    seq: int
    spent: Fraction
    left: Fraction
    values: list[float]
    print: str


@dataclass(frozen=True, slots=True)
class Paid:
    """A charge: ``first`` by bin where it names bins, else under None."""

    t: int
    epsilon: Fraction
    mu_squared: Fraction
    first: dict[int | None, int]
    last: int
    block: int | None
    outcome: str
    has_profile: bool


@dataclass(slots=True)
class Stream:
    """A stream as its rows tell it."""

    name: str
    guarantee: Row
    bins: int
    per_timestamp: bool
    steps: dict[int, Step] = field(default_factory=dict[int, Step])
    charges: list[Paid] = field(default_factory=list[Paid])
    problems: list[str] = field(default_factory=list[str])


def read(place: str) -> dict[str, list[Row]]:
    """All rows of the tables of a ledger: a path, or the URL of a PostgreSQL database."""
    if place.startswith("postgres"):
        return _read_server(import_module("psycopg"), place)
    # A ledger that was lost is not made anew.
    connection = sqlite3.connect(f"{Path(place).absolute().as_uri()}?mode=rw", isolation_level=None, uri=True)
    with closing(connection):
        connection.execute("BEGIN")
        return _tables(connection)


def _read_server(driver: Any, place: str) -> dict[str, list[Row]]:
    """All tables as soon as the server gives them: while it recovers from a crash it ends or takes no connection."""
    deadline = time.monotonic() + RECOVERY
    while True:
        try:
            with closing(driver.connect(place)) as connection:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                return _tables(connection)
        except driver.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _tables(connection: Any) -> dict[str, list[Row]]:
    return {name: _rows(connection.execute(f"SELECT * FROM {name}")) for name in TABLES}


def _rows(cursor: Any) -> list[Row]:
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def examine(tables: dict[str, list[Row]], budgets: Sequence[Fraction] | None = None) -> dict[str, Stream]:
    """The streams of a ledger, each with what is wrong with it; ``budgets`` are those of bins that are people's levels.

    What is wrong with the numbers of all commits is told of every stream.
    """
    numbers = sorted(row["seq"] for row in tables["steps"])
    shared: list[str] = []
    if numbers != list(range(1, len(numbers) + 1)):
        shared.append(f"numbers of commits are not 1..{len(numbers)}")
    if [row["seq"] for row in tables["counter"]] != [len(numbers)]:
        shared.append("the counter is not at the last commit")
    return {row["name"]: _stream(row, tables, shared, budgets) for row in tables["streams"]}


def _stream(row: Row, tables: dict[str, list[Row]], shared: list[str], budgets: Sequence[Fraction] | None) -> Stream:
    mine = {name: [one for one in tables[name] if one["stream_id"] == row["id"]] for name in TABLES[2:]}
    stream = Stream(row["name"], json.loads(row["guarantee"]), row["bins"], bool(row["per_timestamp"]))
    stream.problems += shared
    try:
        arrays = {one["id"]: one for one in mine["arrays"]}
        for one in sorted(mine["steps"], key=lambda one: int(one["seq"])):
            if one["t"] in stream.steps:
                stream.problems.append(f"step {one['t']} is there twice")
            stream.steps[one["t"]] = _step(one, arrays)
        stream.charges = [_paid(one, arrays) for one in sorted(mine["charges"], key=lambda one: int(one["id"]))]
        stream.problems += [*_order(stream, mine), *_blocks(stream, mine["blocks"])]
        stream.problems += [*_spending(stream, budgets is None), *_windows(stream, budgets)]
    except (ValueError, KeyError, TypeError, ArithmeticError, zlib.error) as error:
        stream.problems.append(f"a row cannot be read ({error!r})")
    return stream


def _step(row: Row, arrays: dict[int, Row]) -> Step:
    dtype, content = _content(arrays[row["values_array"]])
    if row["std_array"] is not None:
        std = _content(arrays[row["std_array"]])[1]
    else:
        std = pack("<d", math.nan if row["std"] is None else row["std"])
    values = unpack(f"<{len(content) // 8}{'q' if dtype == '<i8' else 'd'}", content)
    numbers = fingerprint(row["seq"], row["spent"], row["left"], dtype, content, std)
    return Step(
        row["t"], row["seq"], Fraction(row["spent"]), Fraction(row["left"]), [float(x) for x in values], numbers
    )


def fingerprint(seq: int, spent: str, left: str, dtype: str, values: bytes, std: bytes) -> str:
    """A short text that is the same for the same release alone."""
    return f"{seq} {spent} {left} {sha256(dtype.encode() + values + std).hexdigest()[:24]}"


def _paid(row: Row, arrays: dict[int, Row]) -> Paid:
    first: dict[int | None, int] = {None: row["first"]}
    if row["bins_array"] is not None:
        dtype, content = _content(arrays[row["bins_array"]])
        flags = dtype == "|b1"
        bins = [i for i, on in enumerate(content) if on] if flags else list(unpack(f"<{len(content) // 8}q", content))
        starts = [row["first"]] * len(bins)
        if row["starts_array"] is not None:
            kind, given = _content(arrays[row["starts_array"]])
            size = 4 if kind == "<i4" else 8
            starts = list(unpack(f"<{len(given) // size}{'i' if size == 4 else 'q'}", given))
        first = dict(zip(bins, starts, strict=True))
    has_profile = row["bins_array"] is None and row["starts_array"] is not None
    epsilon, squared = Fraction(row["epsilon"]), Fraction(row["mu_squared"])
    if epsilon < 0 or squared < 0 or row["first"] > row["last"]:
        raise ValueError(f"charge {row['id']}")
    return Paid(row["t"], epsilon, squared, first, row["last"], row["block"], row["outcome"], has_profile)


def _content(row: Row) -> tuple[str, bytes]:
    """An array's type and plain bytes, restored from its planes and compared with its digest."""
    content = bytes(row["bytes"])
    if row["packing"] == "varying planes+zlib":
        content = zlib.decompress(content)
    elif row["packing"] != "varying planes":
        raise ValueError(row["packing"])
    if sha256(f"{row['dtype']} {row['shape']}\n".encode() + content).hexdigest()[:40] != row["digest"]:
        raise ValueError(f"array {row['id']} is not what its digest names")
    size = math.prod(json.loads(row["shape"]))
    width = int(row["dtype"][2:])
    if content[0] == 0:
        return row["dtype"], _planes(content[1:], width, size)
    items = [*unpack("<q", content[1:9]), *unpack(f"<{size - 1}q", _planes(content[9:], 8, size - 1))]
    total, restored = 0, list[int]()
    for item in items:
        total = (total + item + (1 << 63)) % (1 << 64) - (1 << 63)
        restored.append(total)
    return row["dtype"], pack(f"<{size}q", *restored)


def _planes(content: bytes, width: int, size: int) -> bytes:
    if size == 0:
        return b""
    varying, planes = content[width : 2 * width], content[2 * width :]
    columns: list[bytes] = []
    for place in range(width):
        if varying[place]:
            columns.append(planes[:size])
            planes = planes[size:]
        else:
            columns.append(content[place : place + 1] * size)
    return bytes(column[i] for i in range(size) for column in columns)


def _order(stream: Stream, rows: dict[str, list[Row]]) -> Iterator[str]:
    times = list(stream.steps)
    if times and times != list(range(times[0], times[0] + len(times))):
        yield f"steps are {times}, not one after the other"
    failed = {row["t"] for row in rows["failures"]}
    for paid in stream.charges:
        if paid.outcome not in ("released", "failed"):
            yield f"a charge of step {paid.t} has outcome {paid.outcome}"
        elif paid.t not in (stream.steps if paid.outcome == "released" else failed):
            yield f"step {paid.t} was charged, and is not there"
    state = [row["t"] for row in rows["secret_states"]]
    if state != times[-1:]:
        yield f"the state is of step {state}, the last release of {times[-1:]}"
    numbers = sorted(row["number"] for row in rows["chain"])
    commits = len(stream.steps) + len(rows["failures"])
    if numbers != list(range(1, commits + 1)):
        yield f"the chain has entries {numbers} for {commits} commits"


def _blocks(stream: Stream, rows: list[Row]) -> Iterator[str]:
    opened = [(row["block"], row["t"]) for row in rows]
    charged: dict[int, int] = {}
    for paid in stream.charges:
        if paid.block is not None:
            charged[paid.block] = min(paid.t, charged.get(paid.block, paid.t))
    if sorted(opened) != sorted(charged.items()):
        yield f"blocks were opened {sorted(opened)}, charged first {sorted(charged.items())}"


def _spending(stream: Stream, exact: bool) -> Iterator[str]:
    """A step says that it spent what its dearest bin paid by its charges; Gaussian ones count by their share of μ²."""
    for step in stream.steps.values():
        mine = [paid for paid in stream.charges if paid.t == step.t and paid.outcome == "released"]
        if not exact or any(paid.mu_squared for paid in mine):
            if bool(step.spent) != bool(mine):
                yield f"step {step.t} spent {step.spent} in {len(mine)} charges"
            continue
        spent = _dearest_bin([paid for paid in mine if paid.block is None])
        for block in {paid.block for paid in mine if paid.block is not None and paid.epsilon}:
            same = [paid for paid in mine if paid.block == block and paid.epsilon]
            known = next(iter(same[0].first.values())) < same[0].last
            spent += same[-1].epsilon - (same[0].epsilon if known else 0)
        if spent != step.spent:
            yield f"step {step.t} says that it spent {step.spent}, its charges are {spent}"
        if step.left < 0:
            yield f"step {step.t} has {step.left} left"


def _dearest_bin(charges: Sequence[Paid]) -> Fraction:
    """The most that one bin pays: charges that name no bins are paid by all."""
    by_bin: dict[int | None, Fraction] = {None: Fraction(0)}
    for paid in charges:
        for b in paid.first:
            by_bin[b] = by_bin.get(b, Fraction(0)) + paid.epsilon
    shared = by_bin.pop(None)
    return shared + max(by_bin.values(), default=Fraction(0))


def _few_steps(stream: Stream) -> Iterator[str]:
    """What one person pays who counts in c steps of any window and in c of the w - 1 steps after it."""
    c, w = stream.guarantee["presence"], stream.guarantee["w"]
    by_step = [(next(iter(paid.first.values())), paid) for paid in stream.charges]
    if w is None or any(paid.mu_squared or first != paid.last or list(paid.first) != [None] for first, paid in by_step):
        yield "its guarantee bounds presence otherwise than in windows of steps, which this reader does not judge"
        return
    each = dict[int, Fraction]()
    for first, paid in by_step:
        each[first] = each.get(first, Fraction(0)) + paid.epsilon
    for last in range(min(each, default=0), max(each, default=0) + 1):
        parts = (range(last - w + 1, last + 1), range(last + 1, last + w))
        spent = sum(sum(sorted((each.get(t, Fraction(0)) for t in part), reverse=True)[:c]) for part in parts)
        if spent > Fraction(stream.guarantee["epsilon"]):
            yield f"one person pays {spent} for the window that ends with step {last}"


def _windows(stream: Stream, budgets: Sequence[Fraction] | None) -> Iterator[str]:
    """Every window, bin by bin, by the definition of the guarantee."""
    given = stream.guarantee
    if given.get("presence") is not None:
        yield from _few_steps(stream)
        return
    if any(paid.has_profile for paid in stream.charges):
        yield "its charges have profiles of weights, which this reader does not judge"
        return
    epsilon, delta, w = Fraction(given["epsilon"]), Fraction(given["delta"]), given["w"]
    # Whole numbers of a common unit add up faster than fractions, and as exactly.
    unit = math.lcm(*(x.denominator for paid in stream.charges for x in (paid.epsilon, paid.mu_squared)))
    touched = [_Group(same, unit) for same in _together(stream.charges)]
    bins: Iterable[int | None] = (None,)
    if any(None not in paid.first for paid in stream.charges):
        bins = range(stream.bins)
    times = [t for paid in stream.charges for t in (*paid.first.values(), paid.last)]
    if not times:
        return
    low, high = min(times), max(times)
    windows = [(low, high)] if w is None else [(end - w + 1, end) for end in range(low, high + w)]
    costs: list[tuple[int, int, int | None, int]]
    if stream.per_timestamp and w is not None and w > 1:
        each = {t: max(_cost(touched, b, t, t)[0] for b in bins) for t in range(low, high + 1)}
        costs = [(sum(each.get(t, 0) for t in range(a, z + 1)), 0, None, a) for a, z in windows]
    else:
        costs = [(*_cost(touched, b, a, z), b, a) for b in bins for a, z in windows]
    for paid, paid_squared, b, start in costs:
        pure, squared = Fraction(paid, unit), Fraction(paid_squared, unit)
        limit = epsilon if budgets is None or b is None else budgets[b]
        if pure > limit or (squared and not _affordable(limit - pure - ROUNDING, delta, squared)):
            yield f"the window from {start} costs {pure} (and μ² {float(squared):g}) of {limit}"


def _together(charges: Iterable[Paid]) -> list[list[Paid]]:
    """Charges that count once: each by itself, those of one block together."""
    blocks: dict[int, list[Paid]] = {}
    alone: list[list[Paid]] = []
    for paid in charges:
        if paid.block is None:
            alone.append([paid])
        elif paid.epsilon:
            blocks.setdefault(paid.block, []).append(paid)
    return [*alone, *blocks.values()]


class _Group:
    """Charges that count once, and what a window that touches any of them pays."""

    def __init__(self, charges: list[Paid], unit: int) -> None:
        self.charges = charges
        self.pure = int(max(paid.epsilon for paid in charges) * unit)
        self.squared = int(max(paid.mu_squared for paid in charges) * unit)


def _cost(touched: list[_Group], b: int | None, start: int, end: int) -> tuple[int, int]:
    pure, squared = 0, 0
    for group in touched:
        if any(paid.last >= start and _begins(paid, b) <= end for paid in group.charges):
            pure += group.pure
            squared += group.squared
    return pure, squared


def _begins(paid: Paid, b: int | None) -> float:
    return paid.first[None] if None in paid.first else paid.first.get(b, math.inf)


def _affordable(epsilon: Fraction, delta: Fraction, squared: Fraction) -> bool:
    """Whether Gaussian charges of that μ² are (ε, δ)-private."""
    if epsilon <= 0:
        return False
    mu, e = math.sqrt(squared), float(epsilon)
    near, far = (math.erfc((e / mu + sign * mu / 2) / math.sqrt(2)) / 2 for sign in (-1, 1))
    return near - math.exp(e) * far <= float(delta) * (1 + 1e-9)
