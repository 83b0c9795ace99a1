"""Many measurements in parallel, each remembered as soon as it is there, as one tidy table."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeAlias

import polars as pl

from veilstream.errors import InvalidInputError, UnreadableFileError
from veilstream.release.sinks import replacing

Label: TypeAlias = str | int | float | bool | None
Measures: TypeAlias = Mapping[str, float]
Progress: TypeAlias = Callable[[int, int], None]

METRIC, VALUE, SECONDS = "metric", "value", "seconds"
_OWN = frozenset({METRIC, VALUE, SECONDS})
ONLY_SHOWN = frozenset({"cli", "experiments"})
"""Parts of the library that mostly draw, judge and tell what was measured."""


@dataclass(frozen=True, slots=True)
class Job:
    """One call of ``call(*arguments)`` that gives named measures; ``labels`` are its columns in the table.

    Call and arguments travel to other processes, so the call is a function of a module; the arguments' ``repr`` tells
    whether a remembered result is of this very job: parameters and seeds, not arrays.

    >>> Job({"mechanism": "uniform", "seed": 1}, dict, ()).digest() == Job({"seed": 1}, dict, ()).digest()
    False
    """

    labels: Mapping[str, Label]
    call: Callable[..., Measures]
    arguments: tuple[Any, ...] = field(default=())

    def __post_init__(self) -> None:
        taken = sorted(_OWN & self.labels.keys())
        if taken:
            raise InvalidInputError(f"label {taken[0]!r} of a job: that column is the table's own")

    def digest(self) -> str:
        """Names the job in the record of finished ones."""
        name = f"{self.call.__module__}.{self.call.__qualname__}"
        text = json.dumps([name, dict(self.labels), [repr(argument) for argument in self.arguments]])
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def code(self) -> str:
        """Names the code that measures: the library without what only shows results, and the module of the call."""
        return _code_of(self.call.__module__)


def run_jobs(
    jobs: Sequence[Job],
    directory: str | Path,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    any_code: bool = False,
) -> pl.DataFrame:
    """Run all jobs and return one tidy table: a row for each job and metric, also as ``results.parquet``.

    Finished jobs are kept in ``finished.ndjson`` of the ``directory`` at once: the same call after an error, an
    interrupt or a crash runs the others alone. What other code than this library's has measured is measured again,
    unless ``any_code`` is set. An error of a job stops the rest and is raised. ``workers`` defaults to the number of
    cores; 1 runs in this process.

    >>> import tempfile
    >>> from veilstream.evaluate.runner import Job, run_jobs
    >>> jobs = [Job({"n": n}, dict, ([("square", n * n)],)) for n in (2, 3)]
    >>> with tempfile.TemporaryDirectory() as place:
    ...     run_jobs(jobs, place, workers=1).select("n", "metric", "value").rows()
    [(2, 'square', 4.0), (3, 'square', 9.0)]
    """
    place = Path(directory)
    digests = [job.digest() for job in jobs]
    if len(set(digests)) < len(jobs):
        raise InvalidInputError(f"{len(jobs)} jobs, {len(set(digests))} different ones: labels must differ")
    record = place / "finished.ndjson"
    codes = {digest: job.code() for digest, job in zip(digests, jobs, strict=True)}
    known = {digest: row for digest, row in _finished(record).items() if any_code or row["code"] == codes.get(digest)}
    waiting = {digest: job for digest, job in zip(digests, jobs, strict=True) if digest not in known}
    done = len(jobs) - len(waiting)
    if progress is not None:
        progress(done, len(jobs))
    with _appending(record) as log:
        for digest, row in _run(waiting, workers or os.cpu_count() or 1):
            known[digest] = row
            log.write(json.dumps({"job": digest, "code": codes[digest], **row}) + "\n")
            log.flush()
            done += 1
            if progress is not None:
                progress(done, len(jobs))
    table = _table(jobs, [known[digest] for digest in digests])
    with replacing(place / "results.parquet") as unfinished:
        table.write_parquet(unfinished)
    return table


@cache
def _code_of(module: str) -> str:
    package = Path(__file__).resolve().parent.parent
    parts = sorted(path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in ONLY_SHOWN)
    own = getattr(sys.modules.get(module), "__file__", None)
    named = hashlib.blake2b(digest_size=8)
    for path in [*parts, *([Path(own)] if own else [])]:
        named.update(path.name.encode() + path.read_bytes())
    return named.hexdigest()


def _run(waiting: Mapping[str, Job], workers: int) -> Iterator[tuple[str, dict[str, Any]]]:
    if workers == 1 or len(waiting) <= 1:
        for digest, job in waiting.items():
            yield digest, _timed(job)
        return
    # Forking a process with running threads (Polars has some) can hang it.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(waiting)), mp_context=context) as pool:
        futures: dict[Future[dict[str, Any]], str] = {pool.submit(_timed, job): d for d, job in waiting.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise UnreadableFileError(
                "a worker process was killed, for want of memory perhaps (try fewer workers); finished "
                "measurements are kept"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _timed(job: Job) -> dict[str, Any]:
    start = time.perf_counter()
    measures = {name: float(value) for name, value in job.call(*job.arguments).items()}
    return {"measures": measures, SECONDS: time.perf_counter() - start}


def _finished(record: Path) -> dict[str, dict[str, Any]]:
    """What earlier runs left; a line that a crash tore is as if it were not there."""
    if not record.exists():
        return {}
    found: dict[str, dict[str, Any]] = {}
    for line in record.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
            found[row["job"]] = {"measures": row["measures"], SECONDS: row[SECONDS], "code": row.get("code")}
        except (json.JSONDecodeError, AttributeError, KeyError, TypeError):
            continue
    return found


@contextmanager
def _appending(record: Path) -> Generator[IO[str]]:
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        with record.open("a+", encoding="utf-8") as log:
            if log.tell() and not record.read_bytes().endswith(b"\n"):
                log.write("\n")
            yield log
    except OSError as error:
        raise UnreadableFileError(f"{record}: {error.strerror}; finished measurements up to here are kept") from None


def _table(jobs: Sequence[Job], results: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    rows = [
        {**job.labels, METRIC: metric, VALUE: value, SECONDS: result[SECONDS]}
        for job, result in zip(jobs, results, strict=True)
        for metric, value in result["measures"].items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
