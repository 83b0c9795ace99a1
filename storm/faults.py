"""System calls that fail: SQLite's and Python's, every one in turn, once or from then on; and limits of a process."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sqlite3
import traceback
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from storm.children import Notes
from storm.disk import ERRORS, Call, watching
from storm.kills import examine
from storm.outcome import Outcome
from storm.subjects import Place, Subject
from veilstream.errors import VeilstreamError

OF_PYTHON: Final[tuple[tuple[Any, str], ...]] = (
    (os, "open"),
    (os, "pwrite"),
    (os, "fsync"),
    (os, "link"),
    (Path, "open"),
    (Path, "replace"),
    (Path, "unlink"),
    (Path, "stat"),
)
FILE_SIZES: Final = tuple(range(0, 1 << 17, 1 << 13))
MORE_FILES: Final = tuple(range(12))


@dataclass(slots=True)
class Fault:
    """The n-th call fails; ``lasting`` says that all later ones do as well, ``full`` that a disk has no room."""

    number: int
    lasting: bool = False
    full: bool = False
    calls: int = 0

    def strikes(self) -> bool:
        """Whether the present call fails."""
        self.calls += 1
        return self.calls == self.number or (self.lasting and self.calls > self.number)

    @property
    def struck(self) -> bool:
        return self.calls >= self.number

    def before(self, call: Call) -> int:
        if call.kind not in ERRORS or not self.strikes():
            return 0
        return sqlite3.SQLITE_FULL if self.full and call.kind == "write" else ERRORS[call.kind]

    def after(self, call: Call) -> None:
        """Nothing is to be done about a call that succeeded."""


@contextmanager
def failing_python(fault: Fault) -> Generator[None]:
    """Let calls of Python fail instead of those of SQLite."""
    code = errno.ENOSPC if fault.full else errno.EIO

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if fault.strikes():
                raise OSError(code, os.strerror(code))
            return real(*args, **options)

        return call

    real = [(owner, name, getattr(owner, name)) for owner, name in OF_PYTHON]
    try:
        for owner, name, function in real:
            setattr(owner, name, failing(function))
        yield
    finally:
        for owner, name, function in real:
            setattr(owner, name, function)


def fail_every_call(
    subject: Subject, folder: Path, reference: Notes | None, *, python: bool, lasting: bool, full: bool, every: int = 1
) -> Outcome:
    """Let one call after the other fail (or every so many), until the work needs no more calls than that."""
    outcome, number = Outcome(), 1
    while True:
        fault = Fault(number, lasting, full)
        where = failing_python(fault) if python else watching(fault)
        _one(subject, folder, reference, where, f"call {number}", outcome)
        if not fault.struck:
            return outcome
        number += every


def limit_process(subject: Subject, folder: Path, reference: Notes | None) -> Outcome:
    """Let files reach a largest size, and the process its largest number of open files."""
    outcome = Outcome()
    for size in FILE_SIZES:
        _one(subject, folder, reference, _limited(resource.RLIMIT_FSIZE, size), f"files up to {size}", outcome)
    for more in MORE_FILES:
        number = len(list(Path("/proc/self/fd").iterdir())) - 1 + more
        _one(subject, folder, reference, _limited(resource.RLIMIT_NOFILE, number), f"{more} more files", outcome)
    return outcome


@contextmanager
def _limited(kind: int, limit: int) -> Generator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def _one(
    subject: Subject,
    folder: Path,
    reference: Notes | None,
    fault: AbstractContextManager[Any],
    name: str,
    outcome: Outcome,
) -> None:
    """Work once with the fault and once without, and examine what is left."""
    here = folder / "failing"
    here.mkdir()
    place, notes = Place(str(here / "ledger.db"), here), _Held(here / "seen")
    problems: list[str] = []
    for trouble in (fault, nullcontext()):
        try:
            with trouble:
                subject.work(place, notes.see)
        except VeilstreamError as error:
            if trouble is not fault:
                problems.append(f"it could not be resumed: {error}")
        except Exception as error:
            problems.append(f"a foreign error: {told(error)}")
    try:
        problems += examine(subject, place, notes, reference)
    except Exception as error:
        problems.append(f"it cannot be examined: {told(error)}")
    shutil.rmtree(here)
    outcome.tried += 1
    outcome.resumed += not problems
    outcome.problems += [f"{subject.name}, {name}: {problem}" for problem in problems]


def told(error: Exception) -> str:
    """An error, and where in the library it came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/veilstream/" in frame.filename]
    where = " < ".join(f"{frame.filename.partition('/veilstream/')[2]}:{frame.lineno}" for frame in frames[-2:][::-1])
    return f"{type(error).__name__}: {error} ({where})"


class _Held(Notes):
    """Notes in memory, which need no file while files fail."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._held: list[str] = []

    def add(self, line: str) -> None:
        self._held.append(line)

    def lines(self) -> list[str]:
        return self._held
