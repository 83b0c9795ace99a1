"""Numbers for Prometheus: how the service does, never how many people there are."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Final

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
HELP: Final = {
    "http_requests_total": "Answered requests, by kind of route and status.",
    "batches_total": "Batches, by outcome.",
    "steps_published_total": "Steps published.",
    "closing_failures_total": "Attempts to close a step that failed.",
    "task_failures_total": "Failures of what runs beside requests, by kind.",
    "release_delay_seconds": "How long after its public moment a release was shown.",
    "batch_seconds": "Time from the arrival of a batch until it was durable.",
    "build_info": "The version that runs; always 1.",
    "leading": "Whether this server leads; 0 while it stands by.",
    "ready": "Whether steps are being closed here.",
    "worker_up": "Whether a thread of the server goes on without an error.",
    "worker_failures_total": "Errors after which a thread of the server began again.",
    "stream_up": "Whether the last attempt to close a step of the stream succeeded.",
    "stream_behind_seconds": "For how long a step waits that should have been closed.",
    "stream_mark_failed": "Whether the mark by which an old copy of the ledger is noticed could not be written.",
    "source_up": "Whether a source is being read without an error.",
    "source_changed_seconds": "When that changed last, in seconds since 1970.",
    "source_refused_total": "Parts of a source, such as files, that could not be read.",
    "spool_bytes": "Size of the spool, rounded up to 64 MiB.",
    "disk_free_bytes": "Room on the disk of the ledger and of the spool, rounded down to 64 MiB.",
    "process_start_time_seconds": "When the process began, in seconds since 1970.",
    "process_cpu_seconds_total": "Processor time, rounded down to 10 s.",
    "process_resident_memory_bytes": "Memory, rounded up to 64 MiB.",
    "process_open_fds": "Open files.",
    "process_max_fds": "How many files may be open.",
}


class Metrics:
    """Counters and histograms as Prometheus text.

    >>> metrics = Metrics()
    >>> metrics.count("batches", outcome="accepted")
    >>> [line for line in metrics.text().splitlines() if not line.startswith("#")]
    ['veilstream_batches_total{outcome="accepted"} 1']
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, dict[tuple[tuple[str, str], ...], int]] = {}
        self._histograms: dict[str, tuple[list[int], list[float]]] = {}

    def count(self, name: str, **labels: str) -> None:
        with self._lock:
            series = self._counters.setdefault(name, {})
            key = tuple(sorted(labels.items()))
            series[key] = series.get(key, 0) + 1

    def observe(self, name: str, seconds: float) -> None:
        with self._lock:
            counts, total = self._histograms.setdefault(name, ([0] * (len(BUCKETS) + 1), [0.0]))
            counts[bisect_left(BUCKETS, seconds)] += 1
            total[0] += seconds

    def counts(self, name: str, label: str) -> dict[str, int]:
        """A counter by the values of its label.

        >>> metrics = Metrics()
        >>> metrics.count("batches", outcome="accepted")
        >>> metrics.counts("batches", "outcome")
        {'accepted': 1}
        """
        with self._lock:
            return {dict(key)[label]: value for key, value in self._counters.get(name, {}).items()}

    def at_most(self, name: str, share: float) -> float | None:
        """The least limit of a bucket below which that share of what was observed lies; None without any.

        >>> metrics = Metrics()
        >>> for seconds in (0.02, 0.03, 0.2):
        ...     metrics.observe("batch_seconds", seconds)
        >>> metrics.at_most("batch_seconds", 0.5), metrics.at_most("release_delay_seconds", 0.5)
        (0.05, None)
        """
        with self._lock:
            counts, _ = self._histograms.get(name, ([0], [0.0]))
            seen = list(accumulate(counts))
        if not seen[-1]:
            return None
        return (*BUCKETS, float("inf"))[next(place for place, n in enumerate(seen) if n >= share * seen[-1])]

    def text(self, present: Iterable[tuple[str, dict[str, str], float]] = ()) -> str:
        """All of them, and samples of the ``present`` state."""
        lines: list[str] = []
        samples = [(name, tuple(sorted(labels.items())), value) for name, labels, value in present]
        with self._lock:
            for name, series in self._counters.items():
                samples += [(f"{name}_total", key, float(value)) for key, value in series.items()]
            for name, found in groupby(sorted(samples), key=itemgetter(0)):
                shown = name if name.startswith("process_") else f"veilstream_{name}"
                kind = "counter" if name.endswith("_total") else "gauge"
                lines += [f"# HELP {shown} {HELP[name]}", f"# TYPE {shown} {kind}"]
                for _, key, value in found:
                    labels = ",".join(f'{label}="{text}"' for label, text in key)
                    lines.append(f"{shown}{'{' + labels + '}' if labels else ''} {value:.15g}")
            for name, (counts, total) in sorted(self._histograms.items()):
                lines += [f"# HELP veilstream_{name} {HELP[name]}", f"# TYPE veilstream_{name} histogram"]
                seen = 0
                for limit, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                    seen += count
                    lines.append(f'veilstream_{name}_bucket{{le="{limit}"}} {seen}')
                lines += [f"veilstream_{name}_sum {total[0]:g}", f"veilstream_{name}_count {seen}"]
        return "\n".join(lines) + "\n"
