"""Where random bits come from: a one-method protocol, and AES-CTR keyed by the operating system."""

from __future__ import annotations

import os
import threading
from typing import Final, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

_WORD_BYTES: Final = 8
_ZEROS: Final = bytes(1 << 18)
_BUFFER_WORDS: Final = 512
_KEY_LIFETIME_BYTES: Final = 1 << 32


class BitSource(Protocol):
    """Anything that hands out independent, uniformly distributed 64-bit words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words, in an array that the caller owns."""
        ...


class SecureSource:
    """Uniform words from AES-256 in counter mode under a fresh key from the operating system.

    Every thread has a key and a buffer of its own, so threads neither wait for each other nor share a word. A
    process that finds itself in another process id than the one its key was made in, which is what ``fork``
    does, makes a new key first; having no lock, a child can never inherit a held one. A key is replaced
    once it has given 2^32 bytes.

    >>> SecureSource().words(3).dtype, SecureSource().words(3).shape
    (dtype('uint64'), (3,))
    """

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream = _ThreadStream()

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words of this thread's stream."""
        return self._stream.words(count)


class _ThreadStream(threading.local):
    """The key stream of one thread in one process; ``__init__`` runs once in every thread that touches it."""

    def __init__(self) -> None:
        self._rekey()

    def _rekey(self) -> None:
        cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16)))
        self._encryptor: CipherContext = cipher.encryptor()
        self._process = os.getpid()
        self._key_bytes_left = _KEY_LIFETIME_BYTES
        self._buffer = np.empty(0, dtype=np.uint64)

    def words(self, count: int) -> NDArray[np.uint64]:
        if self._process != os.getpid() or self._key_bytes_left <= 0:
            self._rekey()
        if count > _BUFFER_WORDS:
            return self._generate(count)
        if count > self._buffer.size:
            self._buffer = self._generate(_BUFFER_WORDS)
        taken, self._buffer = self._buffer[:count].copy(), self._buffer[count:]
        return taken

    def _generate(self, count: int) -> NDArray[np.uint64]:
        out = np.empty(count, dtype=np.uint64)
        target = out.data.cast("B")
        for start in range(0, len(target), len(_ZEROS)):
            part = target[start : start + len(_ZEROS)]
            self._encryptor.update_into(_ZEROS[: len(part)], part)
        self._key_bytes_left -= count * _WORD_BYTES
        return out
