"""Where random bits come from: a one-method protocol, and AES-CTR keyed by the operating system.

A word is an unsigned integer of 64 uniformly random bits.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Final, NoReturn, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from veilstream.errors import SealedAccessError

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

    Every thread has a key and a buffer of its own, so threads neither wait for each other nor share a word; having no
    lock, a child process can never inherit a held one. Two copies of a process must not draw the same words, or the
    difference of two releases is the exact difference of the data. So a key, and what was drawn ahead with it, is
    dropped

    * at every ``fork``, in parent and child, by a hook of the interpreter that does not depend on process ids, which
      repeat between namespaces and over time; and when the process id has changed, should the hook not have run;
    * by :meth:`renew`, which whoever makes releases calls at the beginning of every transaction. It covers copies that
      nothing in the process can notice, such as a resumed snapshot of a virtual machine: both copies ask the operating
      system for a key before their next release. A copy made in the middle of a transaction draws the same noise only
      in what is left of that transaction, and the ledger lets just one of two copies commit it;
    * once it has given 2^32 bytes.

    >>> SecureSource().words(3).dtype, SecureSource().words(3).shape
    (dtype('uint64'), (3,))
    """

    __slots__ = ("_stream", "_transaction")

    def __init__(self) -> None:
        self._transaction = object()
        self._stream = _ThreadStream()

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words of this thread's stream."""
        return self._stream.words(count, self._transaction)

    def renew(self) -> None:
        """Drop the keys of all threads and what was drawn ahead; each makes a fresh key before it draws again."""
        self._transaction = object()

    def __repr__(self) -> str:
        return "SecureSource()"

    def _refuse(self, *_: Any) -> NoReturn:
        raise SealedAccessError("the source of noise is secret: it can be neither pickled nor copied")

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse


class _Process:
    """The process since its last fork, known by an object that no other process will take for its own."""

    def __init__(self) -> None:
        self.token = object()

    def forked(self) -> None:
        self.token = object()


_PROCESS: Final = _Process()
os.register_at_fork(after_in_parent=_PROCESS.forked, after_in_child=_PROCESS.forked)


class _ThreadStream(threading.local):
    """The key stream of one thread; ``__init__`` runs once in every thread that touches it."""

    def __init__(self) -> None:
        self._key_bytes_left = 0
        self._made_in: tuple[object, object, int] | None = None
        self._buffer = np.empty(0, dtype=np.uint64)

    def _rekey(self) -> None:
        cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16)))
        self._encryptor: CipherContext = cipher.encryptor()
        self._key_bytes_left = _KEY_LIFETIME_BYTES
        self._buffer = np.empty(0, dtype=np.uint64)

    def words(self, count: int, transaction: object) -> NDArray[np.uint64]:
        here = (transaction, _PROCESS.token, os.getpid())
        if self._made_in != here or self._key_bytes_left <= 0:
            self._rekey()
            self._made_in = here
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
