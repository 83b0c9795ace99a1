"""Forks, and forks into new namespaces of process ids, whose first process is number 1 in each."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Final

import numpy as np

from veilstream.noise import SecureNoise

WORDS: Final = 64
"""Two independent streams agree in one word with probability below WORDS² · 2^-64 < 1e-15."""
NO_NAMESPACE: Final = 77
CLONE_NEWPID: Final = 0x20000000


def in_a_child(work: Callable[[], bytes]) -> bytes:
    """What ``work`` gives in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, work())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        drawn = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return drawn


def words_by_process() -> None:
    """Write, for process 1 of a namespace and process 1 of another that it makes, its number and its words."""
    if not _entered():
        sys.exit(NO_NAMESPACE)
    sys.stdout.buffer.write(in_a_child(_first_of_namespace))


def _first_of_namespace() -> bytes:
    noise = SecureNoise()
    noise.uniform_words(3)
    if not _entered():
        return b""
    inner = in_a_child(lambda: _number() + noise.uniform_words(WORDS).tobytes())
    return _number() + noise.uniform_words(WORDS).tobytes() + inner


def _entered() -> bool:
    """Whether children are in a new namespace from now on; else standard error says why not."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "unshare"):
        sys.stderr.write("there is no unshare")
        return False
    if libc.unshare(CLONE_NEWPID) != 0:
        sys.stderr.write(os.strerror(ctypes.get_errno()))
        return False
    return True


def _number() -> bytes:
    return np.uint64(os.getpid()).tobytes()


if __name__ == "__main__":
    words_by_process()
