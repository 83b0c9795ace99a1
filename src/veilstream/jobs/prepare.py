"""From a job to what is public about it: guarantee, mechanism, domain and calendar. No private datum is read here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from veilstream.data import Calendar, Domain
from veilstream.errors import InvalidInputError
from veilstream.jobs.model import Job, Moment
from veilstream.mechanisms.named import build_mechanism
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.privacy.guarantee import Guarantee
from veilstream.release.plots import SUFFIXES
from veilstream.release.sinks import WRITERS, check_names, check_writable

LEAK = (
    "bins and time ranges learned from private data tell who is in them. Give {what}, or declare with "
    "--public-from-data that the values and the range found in the file are public; nothing was read"
)


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """All that is public before the first row is counted."""

    job: Job
    guarantee: Guarantee
    mechanism: StreamMechanism[Any]
    domain: Domain
    calendar: Calendar

    @property
    def bins(self) -> int:
        return self.domain.bins


def prepare(job: Job) -> PreparedJob:
    """Check everything that can be checked without private data."""
    guarantee = Guarantee(job.epsilon, job.w, job.delta, presence=job.presence, per=job.blocks)
    mechanism = build_mechanism(job.mechanism, job.histogram, job.settings)
    for path, suffixes in ((job.out, tuple(WRITERS)), (job.plot, SUFFIXES)):
        if path is not None:
            check_writable(path, suffixes)
    if not job.public_from_data:
        if job.domain is None and job.by:
            raise InvalidInputError("domain: missing; " + LEAK.format(what="--domain domain.json"))
        if job.start is None or job.end is None:
            name = "start" if job.start is None else "end"
            raise InvalidInputError(f"{name}: missing; " + LEAK.format(what="--start and --end"))
    domain, calendar = _domain(job), _calendar(job)
    check_names(domain)
    prepared = PreparedJob(job, _placed(guarantee, calendar), mechanism, domain, calendar)
    _check_start(job, prepared)
    return prepared


def _placed(guarantee: Guarantee, calendar: Calendar) -> Guarantee:
    """The guarantee with its blocks on the calendar of the steps."""
    if guarantee.per is None or guarantee.per.known:
        return guarantee
    if isinstance(calendar.every, int):
        raise InvalidInputError(
            name="per",
            value=str(guarantee.per),
            limit="times are whole numbers here; give a number of steps",
            outcome="nothing was read",
        )
    return guarantee.placed(calendar.label(0), calendar.every, calendar.zone)


def _domain(job: Job) -> Domain:
    if job.domain is None:
        names = list(job.by or ())
        # In CSV files every column is text, so what is seen here is what will be read later.
        return Domain.from_public_data(_public_columns(job, names), names) if names else Domain({})
    return chosen_axes(job.domain, job.by)


def chosen_axes(domain: str | dict[str, Any], by: tuple[str, ...] | None, kind: type[Domain] = Domain) -> Domain:
    """The domain of a JSON file (or of its content) with the attributes ``by`` alone."""
    known = kind.from_json(domain)
    if by is None:
        return known
    for name in by:
        if name not in known.axes:
            raise InvalidInputError(
                f"by '{name}': not in the domain, its attributes are {', '.join(known.names)}",
                outcome="nothing was read",
            )
    return kind({name: known.axes[name] for name in by})


def _calendar(job: Job) -> Calendar:
    start, end, every = _whole_or_not(job.start, job.end, job.every)
    if start is not None and end is not None:
        return Calendar(start, end, every, job.zone)
    observed = Calendar.from_public_data(_public_columns(job, [job.time])[job.time], every, job.zone)
    return Calendar(observed.start if start is None else start, observed.end if end is None else end, every, job.zone)


def _whole_or_not(
    start: Moment | None, end: Moment | None, every: str | int
) -> tuple[Moment | None, Moment | None, str | int]:
    """Whole numbers that came as text, if steps are counted in whole numbers."""
    if not isinstance(every, int) and not re.fullmatch(r"\d+", every):
        return start, end, every
    ends = [
        int(moment) if isinstance(moment, str) and re.fullmatch(r"-?\d+", moment) else moment for moment in (start, end)
    ]
    return ends[0], ends[1], int(every)


def _public_columns(job: Job, columns: list[str]) -> pl.DataFrame:
    """Distinct rows of columns that the holder has declared public."""
    from veilstream.data.readers import open_batches

    source = require_file(job)
    distinct = [batch.unique() for batch in open_batches(source, columns)]
    if not distinct:
        raise InvalidInputError(f"{source}: 0 rows, so no public values can be found in it", outcome="nothing was read")
    return pl.concat(distinct).unique()


def require_file(job: Job) -> str:
    """The input, which a preview may do without."""
    if job.file is None:
        raise InvalidInputError("file: missing, name a CSV or Parquet file", outcome="nothing was read")
    return job.file


def require_ledger(job: Job) -> str:
    if job.ledger is None:
        raise InvalidInputError(
            "ledger: missing; without --ledger budget.db nobody would remember what was spent",
            outcome="nothing was read",
        )
    return job.ledger


def database_file(ledger: str) -> Path | None:
    """The file of an SQLite ledger; None for a server.

    >>> database_file("sqlite:///budget.db"), database_file("postgresql://host/x")
    (PosixPath('budget.db'), None)
    """
    if ledger.startswith("sqlite:///"):
        return Path(ledger.removeprefix("sqlite:///"))
    return None if "://" in ledger else Path(ledger)


def _check_start(job: Job, prepared: PreparedJob) -> None:
    """Ask the mechanism whether it can run; a missing horizon is answered with the option that gives one."""
    try:
        prepared.mechanism.start(prepared.guarantee, prepared.bins)
    except InvalidInputError as error:
        if not prepared.guarantee.endless and str(error).startswith("horizon") and "horizon" not in job.settings:
            raise InvalidInputError(
                f"horizon of '{job.mechanism}': missing; at --window user one budget lasts for the whole "
                f"stream, so say how many steps it must cover, e.g. --set horizon={prepared.calendar.steps} for "
                "this time range",
                outcome="nothing was read",
            ) from None
        raise
