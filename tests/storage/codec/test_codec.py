"""States come back bit for bit, or are refused in words."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError, LedgerError, LedgerVersionError
from veilstream.privacy.charge import Span
from veilstream.storage.codec import CODERS, Coder, Encoded, decode, encode
from veilstream.values.values import Numbers


class Phase(StrEnum):
    FIRST = "first"
    LATER = "later"


@dataclass(slots=True)
class Inner:
    weights: NDArray[np.float64]
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class State:
    version: ClassVar[int] = 3
    count: int
    level: float
    share: Fraction
    phase: Phase
    raw: bytes
    name: str | None
    flag: bool
    inner: Inner | int | None
    pairs: tuple[int, ...]
    fixed: tuple[str, Fraction]
    series: list[float | Fraction | None]
    table: dict[str, list[int]]
    by_bin: dict[int, Inner]
    numbers: Numbers
    anything: Any


ints = st.integers(-(2**80), 2**80)
floats = st.floats(width=64)
fractions = st.fractions()
texts = st.text(st.characters(codec=None), max_size=8)
dtypes = st.sampled_from([np.int64, np.float64, np.bool_, np.int32, np.uint64, np.uint8, np.float32])
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
arrays = dtypes.flatmap(lambda dtype: hnp.arrays(dtype, shapes))
scalars = st.none() | st.booleans() | ints | floats | texts | st.binary(max_size=6) | fractions
plain = st.recursive(
    scalars | arrays,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(texts | ints, inner, max_size=3)
    ),
    max_leaves=12,
)
spans = st.tuples(st.integers(), st.integers()).map(lambda ends: Span(min(ends), max(ends)))
inners = st.builds(Inner, hnp.arrays(np.float64, shapes), st.none() | spans)
states = st.builds(
    State,
    count=ints,
    level=floats,
    share=fractions,
    phase=st.sampled_from(Phase),
    raw=st.binary(max_size=9),
    name=st.none() | texts,
    flag=st.booleans(),
    inner=inners | ints | st.none(),
    pairs=st.lists(ints, max_size=4).map(tuple),
    fixed=st.tuples(texts, fractions),
    series=st.lists(floats | fractions | st.none(), max_size=4),
    table=st.dictionaries(texts, st.lists(ints, max_size=3), max_size=3),
    by_bin=st.dictionaries(ints, inners, max_size=3),
    numbers=hnp.arrays(np.int64, shapes) | hnp.arrays(np.float64, shapes),
    anything=plain,
)


def same(a: Any, b: Any) -> bool:
    """Equality that sees types and every bit of a float."""
    return bool(bits(a) == bits(b))


def bits(x: Any) -> Any:
    match x:
        case float():
            return "float", struct.pack("d", x)
        case np.ndarray():
            return x.dtype, x.shape, x.tobytes()
        case list() | tuple():
            return type(x), [bits(part) for part in x]
        case dict():
            return [(key, bits(part)) for key, part in x.items()]
        case _ if is_dataclass(x):
            return type(x), [bits(getattr(x, f.name)) for f in fields(x)]
        case _:
            return type(x), x


@given(states)
def test_a_state_returns_bit_for_bit(state: State) -> None:
    stored = encode(state)
    assert same(decode(stored.header, stored.arrays, State), state)


@given(states)
def test_the_header_is_deterministic_plain_json(state: State) -> None:
    header = encode(state).header
    assert header == encode(state).header
    json.loads(header.decode("ascii"), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.mark.parametrize("pattern", ["7ff8000000000000", "fff8000000000001", "7ff0000000000000", "8000000000000000"])
def test_every_bit_of_a_float_survives(pattern: str) -> None:
    (x,) = struct.unpack(">d", bytes.fromhex(pattern))
    stored = encode([x])
    assert struct.pack(">d", decode(stored.header, stored.arrays, list)[0]).hex() == pattern


def test_integers_beyond_any_digit_limit_survive() -> None:
    big = Fraction(3**20000 + 1, 7**20000)
    stored = encode((big, -(3**20000)))
    assert decode(stored.header, stored.arrays, tuple) == (big, -(3**20000))


def test_numpy_scalars_become_python_numbers() -> None:
    stored = encode([np.int64(3), np.float64(0.1), np.bool_(True)])
    assert same(decode(stored.header, stored.arrays, list), [3, 0.1, True])


@dataclass
class Old:
    a: int


@dataclass
class Changed:
    version: ClassVar[int] = 2
    a: int
    b: int = 7
    c: list[int] = field(default_factory=list)


def renamed(stored: Encoded, old: str, new: str) -> bytes:
    return stored.header.replace(old.encode(), new.encode())


def test_a_field_that_an_older_version_lacked_takes_its_default() -> None:
    assert decode(renamed(encode(Old(1)), "Old", "Changed"), (), Changed) == Changed(1, 7, [])


def test_a_newer_class_version_is_refused() -> None:
    header = renamed(encode(Changed(1)), '"version":2', '"version":3')
    with pytest.raises(LedgerVersionError, match=r"Changed of version 3.*up to 2.*newer veilstream; nothing was read"):
        decode(header, (), Changed)


def test_a_newer_class_version_is_refused_inside_a_collection() -> None:
    @dataclass
    class Holder:
        parts: list[Changed] | list[Old]

    Holder.__annotations__["parts"] = list[Changed] | list[Old]
    header = renamed(encode(Holder([Changed(1)])), '"version":2', '"version":3')
    with pytest.raises(LedgerVersionError):
        decode(header, (), Holder)


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(LedgerVersionError, match=r"state format 2.*up to 1.*newer veilstream; nothing was read"):
        decode(renamed(encode(1), '"format":1', '"format":2'), (), int)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"format":0,"root":1}',
        b'{"format":"1","root":1}',
        b'{"format":1}',
        b"[" * 100_000,
        b'{"format":1,"root":{"class":"State","version":3,"fields":{}}}',
        b'{"format":1,"root":{"class":"Old","version":1,"fields":{"a":"text"}}}',
        b'{"format":1,"root":{"class":"Old","version":1,"fields":{"a":1,"z":1}}}',
        b'{"format":1,"root":{"class":"Old","version":null,"fields":{"a":1}}}',
        b'{"format":1,"root":{"class":"Old"}}',
        b'{"format":1,"root":{"class":"os.system","version":1,"fields":{}}}',
        b'{"format":1,"root":{"call":"Old"}}',
        b'{"format":1,"root":{"array":0,"dtype":"<i8","shape":[1]}}',
        b'{"format":1,"root":{"int":"zz"}}',
        b'{"format":1,"root":{"coded":"Fraction","value":{"tuple":[1,0]}}}',
    ],
)
def test_damaged_headers_are_refused(header: bytes) -> None:
    with pytest.raises(LedgerError, match="nothing was read"):
        decode(header, (), Old)


def test_swapped_arrays_are_refused() -> None:
    stored = encode(Inner(np.zeros(3)))
    for other in (np.zeros(4), np.zeros(3, np.int64)):
        with pytest.raises(LedgerError, match=r"Inner\.weights.*nothing was read"):
            decode(stored.header, (other,), Inner)


@pytest.mark.parametrize("value", [{1, 2}, object(), 1j, np.array(["a"]), {1.5: 2}, {True: 1}, math.sin, Span])
def test_what_cannot_be_stored_is_named_without_its_value(value: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"list\[0\]: an? .*cannot be stored.*nothing was released"):
        encode([value])


def test_endless_nesting_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInputError, match="nested deeper than 64"):
        encode(loop)


def test_neither_header_nor_arrays_print() -> None:
    assert repr(encode([41_414_141, np.full(2, 7)])) == "Encoded()"


class Opaque:
    def __init__(self, secret: NDArray[np.int64], scale: Fraction) -> None:
        self.secret = secret
        self.scale = scale


@dataclass
class Keeper:
    kept: Opaque | None


def test_a_type_of_the_table_is_stored_by_its_coder(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=r"Keeper\.kept: a Opaque cannot be stored"):
        encode(Keeper(Opaque(np.arange(2), Fraction(1, 3))))
    coder = Coder(lambda x: {"secret": x.secret, "scale": x.scale}, lambda plain: Opaque(**plain))
    monkeypatch.setitem(CODERS, Opaque, coder)
    stored = encode(Keeper(Opaque(np.arange(2), Fraction(1, 3))))
    kept = decode(stored.header, stored.arrays, Keeper).kept
    assert kept is not None
    assert kept.scale == Fraction(1, 3)
    assert kept.secret.tolist() == [0, 1]
