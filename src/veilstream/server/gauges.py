"""What a server is doing, for its metrics: streams, sources, workers, disks and the process itself.

Whoever may see metrics need not see numbers of rows: sizes that grow with them are rounded coarsely.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeAlias

from veilstream.server.service import Service
from veilstream.storage.location import locate

Sample: TypeAlias = tuple[str, dict[str, str], float]
STEP_BYTES: Final = 64 << 20
"""To whole multiples of this sizes are rounded."""
STARTED: Final = time.time()
PROCESS: Final = Path("/proc/self")


def gauges(service: Service, shows: Callable[[str], bool]) -> Iterator[Sample]:
    """The present state as samples of metrics; of the streams and sources that ``shows`` allows. Runs in a thread."""
    yield "build_info", {"version": version("veilstream"), "python": platform.python_version()}, 1
    yield "leading", {}, service.leading
    yield "ready", {}, service.ready
    for worker in service.workers:
        if worker not in service.sources:
            yield "worker_up", {"worker": worker.name}, worker.alive and worker.error is None
            yield "worker_failures_total", {"worker": worker.name}, worker.failures
    for name in filter(shows, tuple(service.spooled)):
        yield "stream_up", {"stream": name}, service.leading and name not in service.problems
        yield "stream_behind_seconds", {"stream": name}, int(service.behind(name))
        yield "stream_mark_failed", {"stream": name}, name in service.ledger.marks.failed
    for source in service.sources:
        if shows(source.stream):
            labels = {"stream": source.stream, "source": source.name}
            yield "source_up", labels, source.state.up
            yield "source_changed_seconds", labels, int(source.state.since)
            yield "source_refused_total", labels, source.state.refused
    yield from _disks(service)
    yield from _process()


def _disks(service: Service) -> Iterator[Sample]:
    ledger = locate(service.options.ledger).file
    spool = None if service.spool.folder is None else Path(service.spool.label)
    if spool is not None:
        files = [spool.with_name(spool.name + end) for end in ("", "-wal")]
        yield "spool_bytes", {}, _up(sum(file.stat().st_size for file in files if file.exists()))
    for name, file in (("ledger", ledger), ("spool", spool)):
        if file is not None:
            yield "disk_free_bytes", {"of": name}, shutil.disk_usage(file.parent).free // STEP_BYTES * STEP_BYTES


def _process() -> Iterator[Sample]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield "process_start_time_seconds", {}, int(STARTED)
    # Seconds of work tell how many rows there were: these are fine enough to see a server that spins.
    yield "process_cpu_seconds_total", {}, int(used.ru_utime + used.ru_stime) // 10 * 10
    yield "process_resident_memory_bytes", {}, _up(_resident())
    yield "process_max_fds", {}, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if (PROCESS / "fd").is_dir():
        yield "process_open_fds", {}, sum(1 for _ in (PROCESS / "fd").iterdir())


def _resident() -> int:
    try:
        return int((PROCESS / "statm").read_text().split()[1]) * _page()
    except OSError:
        # Where there is no /proc, the most that it ever was; in bytes on macOS, elsewhere in KiB.
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most << 10


@cache
def _page() -> int:
    return os.sysconf("SC_PAGE_SIZE")


def _up(size: int) -> int:
    return -(-size // STEP_BYTES) * STEP_BYTES
