"""A temporary file without a name, in the clear or encrypted under a key that never leaves the process.

The file system has no name for it, its mode is 0600, and it is gone with the process, however that ends. What was
written may still lie on the disk after that. Where others keep files encrypted, so is this one: every block is added to
SHAKE-256 of a fresh key and the block's number, and no block is written twice. (Executors have no library of ciphers;
Python brings that function along.) Nobody else can change a file without a name, so nothing checks that its bytes are
those that were written.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from hashlib import shake_256
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.private import Private

BLOCK_BYTES: Final = 4096
"""Bytes that are encrypted together: what is read is deciphered in whole blocks."""
KEY_BYTES: Final = 32


class Spill(Private):
    """Arrays go in at the end and come out from any place."""

    __slots__ = ("__weakref__", "_file", "_key")

    def __init__(self, directory: str | Path | None = None, *, encrypted: bool = False) -> None:
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
        self._key = os.urandom(KEY_BYTES) if encrypted else None
        weakref.finalize(self, self._file.close)

    @property
    def size(self) -> int:
        """How much lies in the file."""
        return self._file.tell()

    def write(self, column: NDArray[Any]) -> int:
        """Append an array; where it begins."""
        offset = self._file.tell()
        if self._key is None:
            self._file.write(column.data)
        else:
            self._file.write(self._ciphered(np.frombuffer(column.data, dtype=np.uint8), offset, self._key).data)
        return offset

    def flush(self) -> None:
        """Let all that was written be read."""
        self._file.flush()

    def read(self, offset: int, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """``size`` entries of an array from a place of the file."""
        found = os.pread(self._file.fileno(), size * dtype.itemsize, offset)
        if self._key is None:
            return np.frombuffer(found, dtype=dtype)
        return self._ciphered(np.frombuffer(found, dtype=np.uint8), offset, self._key).view(dtype)

    def close(self) -> None:
        """Forget all of it."""
        self._file.close()

    @staticmethod
    def _ciphered(data: NDArray[np.uint8], offset: int, key: bytes) -> NDArray[np.uint8]:
        """The bytes at a place of the file, from clear to encrypted or back."""
        first, last = offset // BLOCK_BYTES, -(-(offset + len(data)) // BLOCK_BYTES)
        blocks = (shake_256(key + number.to_bytes(8, "little")).digest(BLOCK_BYTES) for number in range(first, last))
        stream = np.frombuffer(b"".join(blocks), dtype=np.uint8)
        start = offset - first * BLOCK_BYTES
        return data ^ stream[start : start + len(data)]
