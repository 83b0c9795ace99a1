"""This side: children, what they may use, and their answers and errors."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from veilstream.confined.child import FIELDS, Task
from veilstream.confined.messages import packed, read_message
from veilstream.errors import InvalidInputError, VeilstreamError, WorkerError

STARTING: Final = 120.0
"""Seconds until a child must have said that it is there: on a busy machine libraries load slowly."""
GRACE: Final = 5.0
KEPT: Final = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TZDIR", "PYTHONTZPATH", "LD_LIBRARY_PATH", "PYTHONHOME",
    "PYTHONDONTWRITEBYTECODE",
)  # fmt: skip
"""Of the environment, which may hold passwords."""
QUIET: Final = {
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "RUST_BACKTRACE": "0",
}


class UndecodableError(InvalidInputError):
    """An input of which the child died, or that no reader takes."""

    outcome = "nothing was stored"
    next_step = "check the format, and send less at once"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a child may use for a task: bytes of memory, seconds of processor time, seconds; how nice it is."""

    memory: int = 1 << 30
    processor: float = 10.0
    seconds: float = 60.0
    nice: int = 0


class _Nursery:
    """The process that forks children, started when the first is wanted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0

    def line(self, module: str) -> socket.socket:
        """A line to a new child that has loaded the module."""
        with self._lock:
            for _ in range(2):
                ours, theirs = socket.socketpair()
                try:
                    control = self._started()
                    socket.send_fds(control, [bytes([len(module)])], [theirs.fileno()])
                    control.sendall(module.encode())
                    return ours
                except OSError:
                    ours.close()
                    self.close()
                finally:
                    theirs.close()
        raise WorkerError("decoder: no child process can be started", outcome="nothing was stored")

    def _started(self) -> socket.socket:
        # What a fork of this process inherits belongs to its parent.
        if self._control is None or self._process is None or self._owner != os.getpid():
            self._control, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "veilstream.confined.child", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={
                        **{name: os.environ[name] for name in KEPT if name in os.environ},
                        **QUIET,
                        "PYTHONPATH": os.pathsep.join(place for place in sys.path if place),
                    },
                )
            self._owner = os.getpid()
        return self._control

    @property
    def number(self) -> int | None:
        """The number of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """Let go of the process, which ends."""
        control, process, mine = self._control, self._process, self._owner == os.getpid()
        self._control = self._process = None
        if control is not None:
            control.close()
        if process is not None and mine:
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


NURSERY: Final = _Nursery()
atexit.register(NURSERY.close)


class Child:
    """A process that does one task, again and again, and is not used any more once it failed."""

    def __init__(self, task: Task, allowance: Allowance) -> None:
        self._task, self._allowance = f"{task.__module__}:{task.__name__}", allowance
        self._line = NURSERY.line(task.__module__)
        self._line.settimeout(STARTING)
        self._source = self._line.makefile("rb")
        self.alive = True
        self.known: set[str] = set()
        """What the child was told and need not be told again."""
        if "ready" not in (self._read() or ({}, b""))[0]:
            self.close()
            raise WorkerError("decoder: a child process ended before it began", outcome="nothing was stored")

    def ask(self, given: Mapping[str, Any], content: bytes = b"") -> Generator[tuple[dict[str, Any], bytes]]:
        """The answers of the child, one by one; its errors are raised."""
        limits = {name: getattr(self._allowance, name) for name in Allowance.__slots__}
        self._line.settimeout(self._allowance.seconds + GRACE)
        finished = False
        try:
            with suppress(OSError):
                for part in packed({"task": self._task, "given": given, **limits}, content):
                    self._line.sendall(part)
            while (message := self._read()) is not None:
                facts, made = message
                if "answer" not in facts:
                    finished = not facts["last"]
                    if "done" in facts:
                        return
                    _refuse(facts)
                yield facts["answer"], made
            raise UndecodableError(
                name="input",
                limit=f"it ends the process that works on it: it is damaged, or needs more than "
                f"{self._allowance.processor:g} s of processor time or {self._allowance.memory >> 20} MiB of memory; "
                "check the format, send less",
            )
        finally:
            if not finished:
                self.close()

    def one(self, given: Mapping[str, Any], content: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """The only answer of the child."""
        (found,) = list(self.ask(given, content))
        return found

    def _read(self) -> tuple[dict[str, Any], bytes] | None:
        try:
            return read_message(self._source, self._allowance.memory)
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        self.alive = False
        self._source.close()
        self._line.close()


def confined(
    task: Task, given: Mapping[str, Any], allowance: Allowance = Allowance()
) -> Iterator[tuple[dict[str, Any], bytes]]:
    """The answers of a child of its own, such as the parts of a large file."""
    with closing(Child(task, allowance)) as child:
        yield from child.ask(given)


def _refuse(facts: Mapping[str, Any]) -> NoReturn:
    """Raise what the child raised."""
    if "failed" in facts:
        raise UndecodableError(name="input", limit=f"it cannot be decoded ({facts['failed']}); check the format")
    kind = next((kind for kind in _kinds(VeilstreamError) if kind.__name__ == facts["refused"]), InvalidInputError)
    error = kind.__new__(kind)
    error.args = (facts["message"],)
    error.value = None
    for name in FIELDS:
        setattr(error, name, facts["fields"][name])
    raise error


def _kinds(root: type[VeilstreamError]) -> Iterator[type[VeilstreamError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)
