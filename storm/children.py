"""Processes that are forked warm, work, and are killed: at a random instant, or exactly before or after a call."""

from __future__ import annotations

import ctypes
import os
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection

from storm.subjects import print_of
from veilstream.values.release import Release

CRITICAL: Final[tuple[tuple[Any, str], ...]] = (
    (Connection, "commit"),
    (os, "fsync"),
    (os, "pwrite"),
    (os, "link"),
    (Path, "replace"),
    (Path, "unlink"),
)
"""Calls at which something becomes durable or visible."""
PATIENCE: Final = 120.0
"""Seconds after which a process that does not end hangs."""


@dataclass(frozen=True, slots=True)
class Strike:
    """When a process dies: after ``delay`` seconds, after ``busy`` seconds of processor time (which do not depend on
    what else the machine does), or before or after its n-th critical call."""

    delay: float | None = None
    busy: float | None = None
    call: int = 0
    after: bool = False


class Notes:
    """What was seen, line by line, in a file that outlives whoever writes to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def see(self, release: Release) -> None:
        """Note a release; one call of the system, so that a kill leaves a whole line or none."""
        self.add(f"{release.stream}\t{release.t}\t{print_of(release)}")

    def add(self, line: str) -> None:
        """Append a line."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode() + b"\n")
        finally:
            os.close(descriptor)

    def lines(self) -> list[str]:
        """All lines so far."""
        return self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []

    def seen(self) -> list[tuple[str, int, str]]:
        """Stream, step and fingerprint of all releases seen."""
        parts = (line.split("\t") for line in self.lines())
        return [(name, int(t), text) for name, t, text in parts]


def fork() -> int:
    """A child that starts warm; it leaves through ``os._exit``."""
    with warnings.catch_warnings():
        # Threads of numerical libraries do not touch what the child uses.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def begin(work: Callable[[], None], errors: Path, strike: Strike | None = None) -> int:
    """Start a process that works; what it raises is noted in ``errors``."""
    child = fork()
    if child:
        return child
    status = 1
    try:
        if strike is not None and strike.call:
            _die_at_call(strike)
        if strike is not None and strike.busy is not None:
            _die_after(strike.busy, time.CLOCK_PROCESS_CPUTIME_ID)
        if strike is not None and strike.delay is not None:
            _die_after(strike.delay, time.CLOCK_MONOTONIC)
        work()
        status = 0
    except BaseException as error:
        Notes(errors).add(f"{type(error).__name__}: {error}".replace("\n", " "))
    finally:
        os._exit(status)


class _Event(ctypes.Structure):
    """``struct sigevent``: which signal, and how to give notice (0: by signal)."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("padding", ctypes.c_int * 12),
    )


class _Times(ctypes.Structure):
    """``struct itimerspec``: interval and first expiry, in seconds and nanoseconds."""

    _fields_ = (("every", ctypes.c_long * 2), ("first", ctypes.c_long * 2))


def _die_after(seconds: float, clock: int) -> None:
    """Let the kernel send SIGKILL to this process when so much time has passed by a clock."""
    libc = ctypes.CDLL(None)
    event, timer = _Event(None, signal.SIGKILL, 0), ctypes.c_void_p()
    whole, part = divmod(max(1, int(seconds * 1e9)), 10**9)
    times = _Times((0, 0), (whole, part))
    if libc.timer_create(clock, ctypes.byref(event), ctypes.byref(timer)) or libc.timer_settime(
        timer, 0, ctypes.byref(times), None
    ):
        raise OSError("no timer could be set")


def _die_at_call(strike: Strike) -> None:
    """Let this process kill itself at a critical call."""
    left = [strike.call]

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and not strike.after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*args, **options)
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for owner, name in CRITICAL:
        setattr(owner, name, watched(getattr(owner, name)))


def end(child: int) -> int:
    """Wait for a process: its exit code, negative for a signal."""
    deadline = time.monotonic() + PATIENCE
    while (status := poll(child)) is None:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise TimeoutError(f"a process did not end within {PATIENCE:g} s")
        time.sleep(0.002)
    return status


def poll(child: int) -> int | None:
    """The exit code of a process that has ended, negative for a signal."""
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None
