"""A keyed hash over arrays: SipHash-1-3 (Aumasson and Bernstein 2012) of a few little-endian 64-bit words.

A word is here what it is in the paper: an unsigned integer of 64 bits.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.private import Private
from veilstream.errors import InvalidInputError

Words = NDArray[np.uint64]
CHUNK: Final = 1 << 14
"""Rows hashed together: few enough to stay in the processor's cache."""
MIN_KEY_BYTES: Final = 16
CHOICE: Final = b"choice"
PEOPLE: Final = b"people"
"""The purposes that keys are derived for: the order of a person's rows, and the identities of texts."""


class KeyedHash(Private):
    """A hash under sixteen secret bytes. It shows itself nowhere and cannot be pickled."""

    __slots__ = ("_start",)

    def __init__(self, key: bytes) -> None:
        self._start = np.frombuffer(key, dtype="<u8")

    def hash(self, *words: NDArray[np.int64] | Words | int) -> Words:
        """A 64-bit hash of each row of words; integers stand for a constant column.

        >>> key = Key(bytes(16))
        >>> bool(key.hash(np.array([1, 2]), 0)[0] == key.hash(np.array([1]), 0)[0])
        True
        """
        rows = next(len(word) for word in words if not isinstance(word, int))
        result = np.empty(rows, dtype=np.uint64)
        for first in range(0, rows, CHUNK):
            part = slice(first, first + CHUNK)
            result[part] = siphash(
                self._start,
                [np.uint64(word) if isinstance(word, int) else word[part].view(np.uint64) for word in words],
                len(result[part]),
            )
        return result


class Key(KeyedHash):
    """The secret that decides which of a person's rows count.

    The bound on a contribution holds whatever the key is; the key only keeps the choice out of everybody's
    hands. Workers of a cluster get what is derived from it for their purpose, ``CHOICE`` and ``PEOPLE``, and never the
    secret itself.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        given: object = secret
        if not isinstance(given, bytes) or len(given) < MIN_KEY_BYTES:
            raise InvalidInputError(
                name="key",
                limit=f"at least {MIN_KEY_BYTES} bytes are needed",
                outcome="nothing was read",
            )
        self._secret = secret
        super().__init__(self.derive(CHOICE))

    @property
    def id(self) -> str:
        """By what a ledger knows the key again: a digest that does not reveal it."""
        return self.derive(b"key id").hex()

    def derive(self, purpose: bytes) -> bytes:
        """Sixteen bytes for one purpose."""
        return hashlib.blake2b(self._secret, digest_size=16, person=purpose).digest()


def siphash(key: Words, words: list[np.uint64 | Words], rows: int) -> Words:
    """The hash of ``rows`` messages at once, each made of one entry of every word."""
    state = np.empty((4, rows), dtype=np.uint64)
    state[0] = key[0] ^ np.uint64(0x736F6D6570736575)
    state[1] = key[1] ^ np.uint64(0x646F72616E646F6D)
    state[2] = key[0] ^ np.uint64(0x6C7967656E657261)
    state[3] = key[1] ^ np.uint64(0x7465646279746573)
    spare = np.empty(rows, dtype=np.uint64)
    # The last block of a message of whole words holds nothing but its length in bytes.
    for word in (*words, np.uint64((8 * len(words) & 0xFF) << 56)):
        state[3] ^= word
        _round(state, spare)
        state[0] ^= word
    state[2] ^= np.uint64(0xFF)
    for _ in range(3):
        _round(state, spare)
    result: Words = state[0] ^ state[1] ^ state[2] ^ state[3]
    return result


def _round(state: Words, spare: Words) -> None:
    a, b, c, d = state
    for left, right, turn, swap in ((a, b, 13, 32), (c, d, 16, 0), (a, d, 21, 0), (c, b, 17, 32)):
        np.add(left, right, out=left)
        _rotate(right, turn, spare)
        np.bitwise_xor(right, left, out=right)
        if swap:
            _rotate(left, swap, spare)


def _rotate(word: Words, turn: int, spare: Words) -> None:
    np.right_shift(word, np.uint64(64 - turn), out=spare)
    np.left_shift(word, np.uint64(turn), out=word)
    np.bitwise_or(word, spare, out=word)
