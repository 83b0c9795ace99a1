"""``publish``: from a table or a file to releases in one call."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from veilstream.arguments import allows, checks_arguments
from veilstream.data import Domain
from veilstream.errors import InvalidInputError
from veilstream.jobs.automatic import AUTO, PLAIN
from veilstream.jobs.model import Job
from veilstream.jobs.prepare import PreparedJob, prepare, require_ledger
from veilstream.jobs.published import PublishedJob
from veilstream.jobs.run import run
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.named import build_mechanism
from veilstream.mechanisms.protocols import HistogramMechanism, StreamMechanism
from veilstream.mechanisms.streams import STREAMS


@checks_arguments
def publish(
    source: Any,
    *,
    time: str,
    every: str | int,
    epsilon: str | int | float | Fraction,
    window: int | str | None = None,
    ledger: str | Path,
    user: str | None = None,
    by: Sequence[str] | None = None,
    domain: Domain | Mapping[str, Any] | str | Path | None = None,
    start: int | str | date | datetime | None = None,
    end: int | str | date | datetime | None = None,
    mechanism: str | type[Any] | StreamMechanism[Any] = AUTO,
    histogram: str | type[Any] | HistogramMechanism | None = None,
    **settings: Any,
) -> PublishedJob:
    """Publish a table step by step, with all that ``veilstream publish`` does and under the same refusals.

    ``source`` is a Polars, pandas or Arrow table, a DuckDB relation, a file, a glob or a list of files. ``mechanism``
    and ``histogram`` are names, classes or instances. ``settings`` are the other settings of a job, named as on the
    command line (``value``, ``per_person``, ``counts_per_user``, ``stream``, ``out``, ``set={"interval": 6}``, ...).
    The call is resumable: what the ledger holds is not published again.

    ``InvalidInputError`` and ``UnknownValueError`` come before anything is spent, ``BudgetExceededError`` where a step
    does not fit into the window, ``LedgerMismatchError`` where the ledger has the stream under another promise.

    >>> import os, tempfile
    >>> visits = {"id": [1, 2, 3, 1], "hour": [0, 0, 1, 2], "place": ["a", "b", "a", "a"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     job = publish(visits, user="id", time="hour", by=["place"], domain={"place": ["a", "b"]}, every=1, start=0,
    ...                   end=3, epsilon=1, window=3, ledger=os.path.join(folder, "budget.db"))
    ...     job.releases, job.spent, job.to_polars().columns
    (Releases(3 steps x 2 bins of people per step), Fraction(1, 1),
     ['step', 'time', 'place', 'value', 'low', 'high', 'fresh', 'covers', 'as_of', 'counted'])
    """
    prepared = prepare_call(source, mechanism, histogram, {
        "time": time, "every": every, "epsilon": epsilon, "window": window, "ledger": ledger, "user": user, "by": by,
        "domain": domain, "start": start, "end": end, **settings,
    })  # fmt: skip
    require_ledger(prepared.job)
    return PublishedJob(prepared, run(prepared, lambda _line: None, lambda _done, _steps: None))


def prepare_call(
    source: Any,
    mechanism: str | type[Any] | StreamMechanism[Any],
    histogram: str | type[Any] | HistogramMechanism | None,
    settings: Mapping[str, Any],
) -> PreparedJob:
    """The job of a call from Python."""
    given = {name: _plain(value) for name, value in settings.items() if value is not None}
    files = _files(source)
    if files is not None:
        given["file"] = files
    chosen: Any = given.get("set", {})
    if not isinstance(chosen, Mapping):
        raise InvalidInputError(name="set", limit="a mapping from parameters to values is needed")
    made = _made(mechanism, histogram, dict(cast("Mapping[str, Any]", chosen)))
    given["mechanism"] = mechanism if isinstance(mechanism, str) else _name(mechanism)
    if isinstance(histogram, str):
        given["histogram"] = histogram
    return prepare(Job.build(given), None if files is not None else source, made)


def _made(
    mechanism: str | type[Any] | StreamMechanism[Any],
    histogram: str | type[Any] | HistogramMechanism | None,
    settings: dict[str, Any],
) -> StreamMechanism[Any] | None:
    """The mechanism, or None where names say it all."""
    if isinstance(mechanism, str) and (histogram is None or isinstance(histogram, str)):
        return None
    if isinstance(mechanism, str):
        made: Any = build_mechanism(PLAIN if mechanism == AUTO else mechanism, None, settings)
    elif isinstance(mechanism, type):
        made = _instance(mechanism, settings)
    elif settings:
        raise InvalidInputError(f"set: {type(mechanism).__name__} is made already, give its parameters to it")
    else:
        made = mechanism
    if not allows(StreamMechanism, made):
        raise InvalidInputError(
            name="mechanism",
            value=_name(mechanism),
            limit="a mechanism, its class or its name is needed",
            next_step=f"take one of {', '.join(STREAMS)}",
        )
    if histogram is None:
        chosen: StreamMechanism[Any] = made
        return chosen
    inner: Any = HISTOGRAMS[histogram]() if isinstance(histogram, str) else histogram
    joined: StreamMechanism[Any] = dataclasses.replace(made, histogram=inner() if isinstance(inner, type) else inner)
    return joined


def _instance(kind: type[Any], settings: dict[str, Any]) -> Any:
    try:
        return kind(**settings)
    except TypeError:
        raise InvalidInputError(
            name="set", limit=f"{kind.__name__} cannot be made with {', '.join(settings) or 'no parameters'}"
        ) from None


def _name(mechanism: object) -> str:
    kind = mechanism if isinstance(mechanism, type) else type(mechanism)
    return next((name for name, known in STREAMS.items() if known is kind), kind.__name__)


def _files(source: Any) -> str | tuple[str, ...] | None:
    if isinstance(source, str | Path):
        return str(source)
    if isinstance(source, list | tuple):
        parts = cast(Sequence[Any], source)
        if parts and all(isinstance(part, str | Path) for part in parts):
            return tuple(str(part) for part in parts)
    return None


def _plain(value: Any) -> Any:
    """What a job file could hold for a value of Python."""
    if isinstance(value, Domain):
        return value.to_json()
    if isinstance(value, Path | Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return dict(cast(Mapping[str, Any], value))
    return tuple(cast(Sequence[Any], value)) if isinstance(value, list) else value
