"""The keyed hash is the published one."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.data.bounding.keyed import CHUNK, Key, siphash
from veilstream.errors import InvalidInputError

MESSAGES = [[1, 2, 3, 4], [0, 0, 0, 0], [2**64 - 1, 2**63, 5, 2**32], [7]]


@pytest.mark.skipif(sys.hash_info.algorithm != "siphash13", reason="Python hashes bytes by another algorithm")
def test_it_equals_pythons_own_siphash_under_the_zero_key() -> None:
    script = (
        "for message in " + repr(MESSAGES) + ": "
        "print(hash(b''.join(word.to_bytes(8, 'little') for word in message)) % 2**64)"
    )
    environment = {"PYTHONHASHSEED": "0"}
    out = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    assert len(MESSAGES) > 0
    for message, expected in zip(MESSAGES, out.stdout.split(), strict=True):
        words: list[np.uint64 | np.ndarray[tuple[int], np.dtype[np.uint64]]] = [
            np.array([word], dtype=np.uint64) for word in message
        ]
        assert int(siphash(np.zeros(2, dtype=np.uint64), list(words), 1)[0]) == int(expected)


@given(st.integers(0, 3 * CHUNK), st.binary(min_size=16, max_size=64))
@settings(max_examples=10, deadline=None)
def test_rows_are_hashed_each_for_itself(rows: int, secret: bytes) -> None:
    key, index = Key(secret), np.arange(rows)
    whole = key.hash(index, 5, index * 3)
    assert len(np.unique(whole)) == rows
    for place in {0, rows // 2, rows - 1} & set(range(rows)):
        assert key.hash(index[place : place + 1], 5, index[place : place + 1] * 3)[0] == whole[place]


@pytest.mark.parametrize("secret", [b"fifteen bytes ..", "a text of more than sixteen characters", None, 7])
def test_only_enough_bytes_are_a_key(secret: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Key(secret[:15] if isinstance(secret, bytes) else secret)
    assert caught.value.name == "key"
