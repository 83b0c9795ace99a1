"""Many measurements in parallel, each recorded as soon as it is made, as one tidy table."""

from __future__ import annotations

import ast
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

from veilstream.documents import read_json
from veilstream.errors import InvalidInputError, UnreadableFileError, WorkerError
from veilstream.release.sinks import replacing

Label: TypeAlias = str | int | float | bool | None
Measures: TypeAlias = Mapping[str, float]
Progress: TypeAlias = Callable[[int, int], None]

METRIC, VALUE, SECONDS = "metric", "value", "seconds"
_OWN = frozenset({METRIC, VALUE, SECONDS})
PRESENTATION = frozenset({"cli"})
"""Parts of the library that show what was measured and measure nothing."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One call of ``call(*arguments)`` that gives named measures; ``labels`` are its columns in the table.

    Call and arguments travel to other processes, so the call is a function of a module. The arguments' ``repr``
    decides whether a recorded result belongs to this measurement: give parameters and seeds, not arrays.

    >>> Measurement({"seed": 1}, dict, ()).digest() == Measurement({"seed": 2}, dict, ()).digest()
    False
    """

    labels: Mapping[str, Label]
    call: Callable[..., Measures]
    arguments: tuple[Any, ...] = field(default=())

    def __post_init__(self) -> None:
        taken = sorted(_OWN & self.labels.keys())
        if taken:
            raise InvalidInputError(name="label", value=taken[0], limit="that column belongs to the table")

    def digest(self) -> str:
        """A key for the measurement in the record of finished ones."""
        name = f"{self.call.__module__}.{self.call.__qualname__}"
        text = json.dumps([name, dict(self.labels), [repr(argument) for argument in self.arguments]])
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def code(self) -> str:
        """A digest of the code that measures: the library, the module of the call, and what that imports beside it."""
        return _code_of(self.call.__module__)


def run_measurements(
    measurements: Sequence[Measurement],
    directory: str | Path,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    any_code: bool = False,
) -> pl.DataFrame:
    """Make all measurements and return one tidy table, also as ``results.parquet``: a row for each of them and metric.

    Finished measurements are recorded in ``finished.ndjson`` of the ``directory`` at once: the same call after an
    error, an interrupt or a crash makes only the missing ones. What another version of the code has measured is
    measured again, unless ``any_code`` is set. An error of a measurement stops the rest and is raised. ``workers``
    defaults to the number of cores; 1 runs in this process.

    >>> import tempfile
    >>> from veilstream.evaluate.runner import Measurement, run_measurements
    >>> measurements = [Measurement({"n": n}, dict, ([("square", n * n)],)) for n in (2, 3)]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     run_measurements(measurements, directory, workers=1).select("n", "metric", "value").rows()
    [(2, 'square', 4.0), (3, 'square', 9.0)]
    """
    folder = Path(directory)
    digests = [measurement.digest() for measurement in measurements]
    distinct = len(set(digests))
    if distinct < len(measurements):
        raise InvalidInputError(
            name="different measurements", value=distinct, limit=f"{len(measurements)} were given: labels must differ"
        )
    record = folder / "finished.ndjson"
    codes = {digest: measurement.code() for digest, measurement in zip(digests, measurements, strict=True)}
    known = {digest: row for digest, row in _finished(record).items() if any_code or row["code"] == codes.get(digest)}
    waiting = {
        digest: measurement for digest, measurement in zip(digests, measurements, strict=True) if digest not in known
    }
    done = len(measurements) - len(waiting)
    if progress is not None:
        progress(done, len(measurements))
    with _appending(record) as log:
        for digest, row in _run(waiting, workers or os.cpu_count() or 1):
            known[digest] = row
            log.write(json.dumps({"measurement": digest, "code": codes[digest], **row}) + "\n")
            log.flush()
            done += 1
            if progress is not None:
                progress(done, len(measurements))
    table = _table(measurements, [known[digest] for digest in digests])
    with replacing(folder / "results.parquet") as unfinished:
        table.write_parquet(unfinished)
    return table


@cache
def _code_of(module: str) -> str:
    package = Path(__file__).resolve().parent.parent
    parts = sorted(path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in PRESENTATION)
    digest = hashlib.blake2b(digest_size=8)
    for path in [*parts, *_imported(module)]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _imported(module: str) -> list[Path]:
    """The file of a module and, in turn, of every module that it imports from the same source directory."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return []
    own = Path(file).resolve()
    if module == "__main__" or own.is_relative_to(Path(__file__).resolve().parent.parent):
        return [own]
    root = own.parents[module.count(".") + (own.name == "__init__.py")]
    seen, waiting = {own}, [own]
    while waiting:
        for name in _import_names(waiting.pop()):
            stem = root.joinpath(*name.split("."))
            for path in (stem.with_suffix(".py"), stem / "__init__.py"):
                if path.is_file() and path not in seen:
                    seen.add(path)
                    waiting.append(path)
    return sorted(seen)


def _import_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
    return names


def _run(waiting: Mapping[str, Measurement], workers: int) -> Iterator[tuple[str, dict[str, Any]]]:
    if workers == 1 or len(waiting) <= 1:
        for digest, measurement in waiting.items():
            yield digest, _timed(measurement)
        return
    # Forking a process with running threads (Polars has some) can hang it.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(waiting)), mp_context=context) as pool:
        futures: dict[Future[dict[str, Any]], str] = {
            pool.submit(_timed, measurement): d for d, measurement in waiting.items()
        }
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise WorkerError("a worker process was killed, perhaps for lack of memory: try fewer workers") from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _timed(measurement: Measurement) -> dict[str, Any]:
    start = time.perf_counter()
    measures = {name: float(value) for name, value in measurement.call(*measurement.arguments).items()}
    return {"measures": measures, SECONDS: time.perf_counter() - start}


def _finished(record: Path) -> dict[str, dict[str, Any]]:
    """What earlier runs recorded; a line that a crash cut short is ignored."""
    if not record.exists():
        return {}
    finished: dict[str, dict[str, Any]] = {}
    for line in record.read_text(encoding="utf-8").splitlines():
        try:
            row = read_json(line)
            finished[row["measurement"]] = {"measures": row["measures"], SECONDS: row[SECONDS], "code": row.get("code")}
        except (json.JSONDecodeError, AttributeError, KeyError, TypeError):
            continue
    return finished


@contextmanager
def _appending(record: Path) -> Generator[IO[str]]:
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        with record.open("a+", encoding="utf-8") as log:
            if log.tell() and not record.read_bytes().endswith(b"\n"):
                log.write("\n")
            yield log
    except OSError as error:
        raise UnreadableFileError(
            name="record", value=record, limit=error.strerror, outcome="finished measurements are kept"
        ) from None


def _table(measurements: Sequence[Measurement], results: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    rows = [
        {**measurement.labels, METRIC: metric, VALUE: value, SECONDS: result[SECONDS]}
        for measurement, result in zip(measurements, results, strict=True)
        for metric, value in result["measures"].items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
