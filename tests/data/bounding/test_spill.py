"""What outgrows memory comes back as it was, and an encrypted file shows none of it."""

from __future__ import annotations

import os
import pickle  # noqa: TID251
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.data.bounding.buckets import parts_of_bucket
from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.runs import Runs
from veilstream.data.bounding.spill import BLOCK_BYTES, Spill
from veilstream.errors import InvalidInputError, SealedAccessError

PERSON = 0x5EED_0FAB_1DE5


def stored(spill: Spill) -> bytes:
    file: Any = getattr(spill, "_file")  # noqa: B009
    return os.pread(file.fileno(), spill.size, 0)


@pytest.mark.parametrize("encrypted", [False, True])
@given(data=st.data(), sizes=st.lists(st.integers(1, 3 * BLOCK_BYTES // 4), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_arrays_come_back_from_any_place(encrypted: bool, data: st.DataObject, sizes: list[int]) -> None:
    spill = Spill(encrypted=encrypted)
    kinds = [np.dtype(data.draw(st.sampled_from(["i8", "u4", "u8", "i4"]))) for _ in sizes]
    columns = [np.arange(size, dtype=kind) for size, kind in zip(sizes, kinds, strict=True)]
    offsets = [spill.write(column) for column in columns]
    spill.flush()
    for column, offset in zip(columns, offsets, strict=True):
        first = data.draw(st.integers(0, len(column)))
        count = data.draw(st.integers(0, len(column) - first))
        found = spill.read(offset + first * column.itemsize, count, column.dtype)
        assert found.dtype == column.dtype
        assert (found == column[first : first + count]).all()
    assert spill.size == sum(column.nbytes for column in columns)
    spill.close()


def test_an_encrypted_file_holds_no_row_and_never_the_same_bytes() -> None:
    column = np.full(BLOCK_BYTES, PERSON)
    needle = PERSON.to_bytes(8, "little")
    spills = [Spill(encrypted=encrypted) for encrypted in (False, True, True)]
    for spill in spills:
        spill.write(column)
        spill.flush()
    clear, one, other = map(stored, spills)
    assert needle in clear, "the search would find what is not encrypted"
    assert needle not in one
    assert one != other
    blocks = {one[first : first + 8] for first in range(0, len(one), 8)}
    assert len(blocks) == len(column), "equal rows must not show as equal"
    for spill in spills:
        spill.close()


def test_a_bucket_of_a_cluster_spills_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[bool] = []
    begin = Runs.__init__

    def watched(runs: Runs, *arguments: Any, **options: Any) -> None:
        opened.append(options["encrypted"])
        begin(runs, *arguments, **options)

    monkeypatch.setattr(Runs, "__init__", watched)
    monkeypatch.setattr("veilstream.data.bounding.buckets.MAX_ROWS_AT_ONCE", 10)
    monkeypatch.setattr("veilstream.data.bounding.runs.RUN_ROWS", 10)
    piece = Rows(np.full(20, PERSON), None, np.arange(20) % 4)
    parts = list(parts_of_bucket([piece, piece], 2, 2, 0, by_person=False))
    assert opened == [True]
    assert sum(map(len, parts)) == 40
    assert all((part.low == PERSON).all() for part in parts)


def test_a_file_is_private() -> None:
    spill = Spill(encrypted=True)
    assert repr(spill) == "Spill()"
    with pytest.raises(SealedAccessError):
        pickle.dumps(spill)
    spill.close()


@pytest.mark.parametrize("memory", [-1, 1.5, "1GB", None])
def test_memory_is_a_whole_number_of_bytes(memory: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Runs(10, 10, memory)
    assert (caught.value.name, caught.value.value) == ("memory_bytes", memory)
