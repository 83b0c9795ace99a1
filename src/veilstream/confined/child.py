"""The other side: a process that has loaded the libraries, and its forks, which do the work and may die of it."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

from veilstream.confined.messages import packed, read_message
from veilstream.errors import VeilstreamError

Task: TypeAlias = Callable[[Mapping[str, Any], bytes], Iterator[tuple[Mapping[str, Any], bytes]]]
"""What a child does with facts and bytes; it is named by its module and its name."""
LOADED: Final = ("numpy", "polars", "pyarrow.csv", "pyarrow.ipc", "pyarrow.parquet")
NO_LIMIT: Final = 1 << 62
FIELDS: Final = ("name", "limit", "outcome", "next_step", "operator_note")


def main() -> None:
    """Fork a child for every socket that comes; end when the parent is gone."""
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for stop in (signal.SIGINT, signal.SIGTERM):
        # Both reach all processes of a service; what is under way is finished, and then the parent lets go.
        signal.signal(stop, signal.SIG_IGN)
    for name in LOADED:
        import_module(name)
    while True:
        length, lines, _, _ = socket.recv_fds(control, 1, 1)
        if not length or not lines:
            return
        import_module(_exactly(control, length[0]).decode())
        if os.fork() == 0:
            control.close()
            try:
                _serve(socket.socket(fileno=lines[0]))
            finally:
                os._exit(0)
        os.close(lines[0])


def _exactly(line: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = line.recv(count - len(found))
        if not piece:
            sys.exit()
        found += piece
    return found


def _serve(line: socket.socket) -> None:
    """Do one task after the other, until the parent closes the line or memory should be given back."""
    # Neither a dump of memory nor a file may hold rows.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _send(line, {"ready": os.getpid()})
    source, limited = line.makefile("rb"), False
    while (asked := read_message(source, NO_LIMIT)) is not None:
        facts, content = asked
        if not limited:
            _limit_memory(facts["memory"])
            with suppress(OSError):
                # A filter of system calls may refuse it.
                os.nice(facts["nice"])
            limited = True
        if _work(line, facts, content):
            return
        del asked, content


def _work(line: socket.socket, facts: Mapping[str, Any], content: bytes) -> bool:
    """Do a task and send what comes of it; whether this was the last one of the process."""
    module, _, name = facts["task"].partition(":")
    try:
        _timed(facts)
        task: Task = getattr(import_module(module), name)
        for answer, made in task(facts["given"], content):
            _timed(None)
            _send(line, {"answer": answer}, made)
            _timed(facts)
        outcome: dict[str, Any] = {"done": True}
    except VeilstreamError as error:
        fields = {field: getattr(error, field) for field in FIELDS}
        outcome = {"refused": type(error).__name__, "message": str(error), "fields": fields}
    except MemoryError:
        outcome = {"failed": "MemoryError"}
    except BaseException as error:
        # The kind alone: what readers say may quote rows.
        outcome = {"failed": type(error).__name__}
    _timed(None)
    # A failed library is not trusted again, and much memory is given back for good by ending.
    last = "failed" in outcome or _peak() > facts["memory"] // 2
    _send(line, {**outcome, "last": last})
    return last


def _send(line: socket.socket, facts: Mapping[str, Any], content: bytes = b"") -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        for part in packed(facts, content):
            line.sendall(part)


def _timed(facts: Mapping[str, Any] | None) -> None:
    """Have the system end this process when its time is over: no library can hold that up."""
    for timer, name in ((signal.ITIMER_PROF, "processor"), (signal.ITIMER_REAL, "seconds")):
        signal.setitimer(timer, 0.0 if facts is None else facts[name])


def _limit_memory(more: int) -> None:
    """Addresses beside those that the libraries take already."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        now = int(statm.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


def _peak() -> int:
    """The most memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)


if __name__ == "__main__":
    main()
