"""Arrays come back from their packed form bit for bit, and memory of digests is never wrong."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

import veilstream as vs
from veilstream.errors import LedgerError
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.packing import array_of, content_of, digest_of, pack, restored, unpack

from .support import SPEC, publish, state

NewLedger = Callable[[], str]
DTYPES = ("?", "<i2", "<i8", ">i8", "<u4", "<f4", "<f8", "<f2", "<u8", "|i1", "<g")


@given(
    st.sampled_from(DTYPES).flatmap(lambda kind: npst.arrays(kind, npst.array_shapes(min_dims=0, min_side=0))),
    st.booleans(),
)
def test_every_array_returns_bit_for_bit(x: NDArray[Any], rising: bool) -> None:
    given_array = np.sort(x, axis=None) if rising else x
    content = content_of(given_array)
    kind, stored = pack(content)
    assert unpack(kind, stored) == content
    shape = str(list(given_array.shape))
    digest = digest_of(given_array.dtype.str, shape, content)
    back = restored(kind, stored, given_array.dtype.str, shape, digest)
    assert back.dtype == given_array.dtype
    assert back.shape == given_array.shape
    assert back.tobytes() == given_array.tobytes()
    assert not back.flags.writeable


@pytest.mark.parametrize("x", [np.array([-(2**63), 2**63 - 1]), np.array([5, 5, 5]), np.array([7])])
def test_rising_numbers_may_span_all_integers(x: NDArray[np.int64]) -> None:
    assert array_of(content_of(x), x.dtype, x.shape).tolist() == x.tolist()


def test_bins_of_a_charge_take_few_bytes() -> None:
    bins = np.flatnonzero(np.arange(80_000) % 5)
    assert len(pack(content_of(bins))[1]) < bins.nbytes / 50


@given(st.binary(max_size=60), st.sampled_from(["varying planes", "varying planes+zlib", "raw", "planes+zlib"]))
def test_damaged_content_is_refused(stored: bytes, packing: str) -> None:
    with pytest.raises((ValueError, zlib.error)):
        restored(packing, stored, "<i8", "[5]", "0" * 40)


def test_rows_of_the_first_version_are_read() -> None:
    x = np.array([3, 700, 5])
    old_digest = blake2b(b"<i8 [3]\n" + x.tobytes(), digest_size=20).hexdigest()
    planes = zlib.compress(np.frombuffer(x.tobytes(), np.uint8).reshape(-1, 8).T.tobytes(), 1)
    for packing, stored in (("raw", x.tobytes()), ("planes+zlib", planes)):
        assert restored(packing, stored, "<i8", "[3]", old_digest).tolist() == x.tolist()


def closed(*numbers: float) -> NDArray[np.float64]:
    x = np.array(numbers)
    x.setflags(write=False)
    return x


def stored_state(ledger: Ledger) -> list[list[float]]:
    with ledger.transaction(SPEC.name) as step:
        kept = step.state()
    assert kept is not None
    return [x.tolist() for x in kept.arrays]


def test_arrays_that_change_under_the_same_name_are_stored_anew(new_ledger: NewLedger) -> None:
    with Ledger.open(new_ledger()) as ledger:
        ledger.register(SPEC)
        row, changing = closed(1, 2), np.array([1.0, 2.0])
        view = np.arange(4.0)[:2]
        view.setflags(write=False)
        for t in range(3):
            publish(ledger, t, state(row, changing, view))
            assert stored_state(ledger) == [row.tolist(), changing.tolist(), view.tolist()]
            changing += 1
            assert view.base is not None
            view.base[0] += 1


def test_a_remembered_array_that_was_dropped_is_stored_again(new_ledger: NewLedger) -> None:
    url = new_ledger()
    with Ledger.open(url) as ledger, Ledger.open(url) as other:
        ledger.register(SPEC)
        row = closed(1, 2)
        publish(ledger, 0, state(row))
        publish(other, 1, state(closed(8, 9)))
        publish(ledger, 2, state(row))
        assert stored_state(other) == [[1, 2]]


def test_a_damaged_array_is_refused_with_its_number(new_sqlite: NewLedger) -> None:
    url = new_sqlite()
    with Ledger.open(url) as ledger:
        ledger.register(SPEC)
        publish(ledger, 0, state(np.arange(50.0)))
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE secret_arrays SET dtype = '<f4'"))
        with (
            ledger.transaction(SPEC.name) as step,
            pytest.raises(LedgerError, match="does not match its digest"),
        ):
            step.state()


def test_a_republished_release_is_looked_at_once(new_sqlite: NewLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def watching(x: NDArray[Any]) -> bytes:
        looked_at.append(x.size)
        return content_of(x)

    monkeypatch.setattr("veilstream.storage.ledger.arrays.content_of", watching)
    with vs.Publisher(40, vs.Guarantee(1, w=20), vs.STREAMS["sample"](), new_sqlite()) as publisher:
        first, *others = [publisher.feed(np.full(40, 7)) for _ in range(6)]
        assert looked_at.count(40) <= 4
        assert all(release.values.tolist() == first.values.tolist() for release in others)
        with pytest.raises(ValueError, match="WRITEABLE"):
            others[-1].values.setflags(write=True)
