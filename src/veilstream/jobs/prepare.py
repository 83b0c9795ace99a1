"""From a job to what is public about it: guarantee, mechanism, domain and calendar. No private datum is read here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from veilstream.data import Calendar, Domain
from veilstream.data.bounding.distinct import movement_of_people
from veilstream.data.measures import ValueMeasures
from veilstream.data.read_options import ReadOptions
from veilstream.errors import InvalidInputError
from veilstream.jobs.automatic import AUTO, PLAIN, chosen_cuts, chosen_mechanism
from veilstream.jobs.checks import refuse_same_file_twice, refuse_shared_column, require_drawable
from veilstream.jobs.model import Job, Moment
from veilstream.jobs.outputs import refuse_overwriting
from veilstream.mechanisms.named import find_mechanism
from veilstream.mechanisms.protocols import StreamMechanism, revises
from veilstream.mechanisms.streams import STREAMS
from veilstream.mechanisms.traits import Traits
from veilstream.privacy.guarantee import Guarantee
from veilstream.release.measure import Measure
from veilstream.release.plots import SUFFIXES, PlotOptions
from veilstream.release.sinks import WRITERS, check_names, check_writable
from veilstream.storage.location import locate
from veilstream.values.choices import SO_FAR, Vintages

LEAK = "missing; bins and time ranges learned from private data tell who is in them"
DECLARE = "declare with --public-from-data that the values and the range found in the file are public"


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """All that is public before the first row is counted, and where the rows are."""

    job: Job
    guarantee: Guarantee
    mechanism: StreamMechanism[Any]
    domain: Domain
    calendar: Calendar
    source: Any = field(default=None, repr=False)

    @property
    def bins(self) -> int:
        return self.domain.bins

    @property
    def measures(self) -> ValueMeasures | None:
        """What is published of measured columns; None where rows or people are counted."""
        return self.job.measures

    @property
    def numbers(self) -> int:
        """How many numbers the mechanism publishes: one for each bin, or the parts of measured values."""
        return self.bins * (1 if self.measures is None else self.measures.parts)

    @property
    def vintages(self) -> Vintages:
        """Which values a table has of each step; only of some mechanisms there are others than the first."""
        return self.job.vintages if revises(self.mechanism) else "first"

    @property
    def smooth(self) -> bool:
        """Whether quantiles lean on earlier releases."""
        return self.job.smooth is not False and Traits.of(self.mechanism).single_steps

    @property
    def promised(self) -> Guarantee:
        """What the people in the data are promised about what they do.

        The numbers of people of the last m steps show a visit m times: a window of w + m − 1 steps of these numbers
        is what protects a window of w steps of visits.
        """
        steps = self.job.distinct_steps
        if steps is None or steps == 1 or self.guarantee.w is None:
            return self.guarantee
        return Guarantee(self.guarantee.epsilon, self.job.w, self.guarantee.delta)

    @property
    def max_contribution(self) -> int:
        """How many counts one person may add to a step."""
        steps = self.job.distinct_steps
        if steps is None:
            return self.job.max_contribution
        return movement_of_people(self.bins, self.job.bins_per_user, steps)

    @property
    def movement(self) -> Fraction:
        """How far one person moves these numbers in a step, in the L1 norm."""
        rows = self.max_contribution
        return Fraction(rows) if self.measures is None else self.measures.movement(rows, self.job.most)[0]

    @property
    def measure(self) -> Measure:
        """What a released number counts."""
        counted = self._counted
        if not Traits.of(self.mechanism).cumulative:
            return counted
        decay = getattr(self.mechanism, "decay", None)
        return replace(counted, so_far="total so far" if decay is None else f"total that decays by {decay} a step")

    @property
    def _counted(self) -> Measure:
        sums = int(getattr(self.mechanism, "window", 1)) if Traits.of(self.mechanism).window_sums else 1
        if self.job.value is not None:
            return Measure.of_values(self.job.value, self.calendar.every, sums)
        if self.measures is not None:
            return Measure.of_values(" and ".join(self.measures.labels), self.calendar.every, sums)
        people = self.job.distinct_steps
        if people is not None:
            return Measure.of_people(people, self.calendar.every, sums, self.job.bins_per_user)
        return Measure.of_events(self.job.counts_per_user, self.calendar.every, sums)

    @property
    def read_options(self) -> ReadOptions:
        """How the source is written."""
        job = self.job
        return ReadOptions(job.delimiter, job.encoding, job.decimal, job.time_format)


def prepare(job: Job, source: Any = None, mechanism: StreamMechanism[Any] | None = None) -> PreparedJob:
    """Check everything that can be checked without private data.

    ``source`` is a table in memory, instead of the job's file, and ``mechanism`` one that is made already.
    """
    people = job.distinct_steps
    w = job.w if job.w is None or people is None else job.w + people - 1
    guarantee = Guarantee(job.epsilon, w, job.delta, presence=job.presence, per=job.blocks)
    rows = job.file if source is None else source
    for path, suffixes in ((job.out, tuple(WRITERS)), (job.plot, SUFFIXES)):
        if path is not None:
            check_writable(path, suffixes)
    refuse_overwriting(
        {"out": job.out, "plot": job.plot},
        {"file": rows, "domain": job.domain, "ledger": job.ledger, "key_file": job.key_file},
    )
    refuse_same_file_twice(rows)
    refuse_shared_column(job.user, job.time, Domain({}))
    if not job.public_from_data:
        if job.domain is None and job.by:
            raise _would_leak("domain", "--domain domain.json")
        if job.start is None or job.end is None:
            raise _would_leak("start" if job.start is None else "end", "--start and --end")
    domain, calendar = _domain(job, rows), _calendar(job, rows)
    check_names(domain, job.measures)
    refuse_shared_column(job.user, None, domain)
    if job.plot is not None:
        require_drawable(domain, job.plot_kind, job.plot_bins)
        PlotOptions(value_range=job.plot_range, size=job.plot_size)
    guarantee = _placed(guarantee, calendar)
    chosen = _mechanism(job, calendar) if mechanism is None else mechanism
    prepared = PreparedJob(job, guarantee, chosen, domain, calendar, rows)
    _check_start(job, prepared)
    return prepared


def _would_leak(name: str, option: str) -> InvalidInputError:
    return InvalidInputError(
        name=name, limit=LEAK, outcome="nothing was read", next_step=f"give {option}, or {DECLARE}"
    )


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


def _mechanism(job: Job, calendar: Calendar) -> StreamMechanism[Any]:
    settings = dict(job.settings)
    if job.distinct == SO_FAR:
        # Nobody counts twice, so that the stream may as well be planned to its end.
        settings.setdefault("horizon", calendar.steps)
        if not Traits.of(find_mechanism(job.mechanism)).cumulative:
            raise InvalidInputError(
                name="distinct",
                value=job.distinct,
                limit=f"mechanism '{job.mechanism}' publishes the counts of each step",
                outcome="nothing was read",
                next_step="leave the mechanism out, or give running-total",
            )
    if job.sums is not None:
        kind = find_mechanism(PLAIN if job.mechanism == AUTO else job.mechanism)
        if not Traits.of(kind).window_sums:
            sums = ", ".join(name for name, known in STREAMS.items() if Traits.of(known).window_sums)
            raise InvalidInputError(
                name="sums",
                value=job.sums,
                limit=f"mechanism '{job.mechanism}' publishes the counts of each step",
                outcome="nothing was read",
                next_step=f"choose a mechanism of sums: {sums}",
            )
        settings["window"] = job.sums
    if job.quantiles_by == "choice":
        return chosen_cuts(job.measures, job.mechanism, job.histogram, settings)
    return chosen_mechanism(job.mechanism, job.histogram, settings, calendar.every, counts=job.measures is None)


def _domain(job: Job, rows: Any) -> Domain:
    if job.domain is None:
        names = list(job.by or ())
        # In CSV files every column is text, so what is seen here is what will be read later.
        return Domain.from_public_data(_public_columns(job, rows, names), names) if names else Domain({})
    return chosen_axes(job.domain, job.by)


def chosen_axes(domain: str | dict[str, Any], by: tuple[str, ...] | None, kind: type[Domain] = Domain) -> Domain:
    """The domain of a JSON file (or of its content) with the attributes ``by`` alone."""
    known = kind.from_json(domain)
    if by is None:
        return known
    for name in by:
        if name not in known.axes:
            raise InvalidInputError(
                name="by",
                value=name,
                limit=f"not in the domain, its attributes are {', '.join(known.names)}",
                outcome="nothing was read",
            )
    return kind({name: known.axes[name] for name in by})


def _calendar(job: Job, rows: Any) -> Calendar:
    start, end, every = _whole_or_not(job.start, job.end, job.every)
    if start is not None and end is not None:
        return Calendar(start, end, every, job.zone)
    observed = Calendar.from_public_data(_public_columns(job, rows, [job.time])[job.time], every, job.zone)
    return Calendar(observed.start if start is None else start, observed.end if end is None else end, every, job.zone)


def _whole_or_not(
    start: Moment | None, end: Moment | None, every: str | int
) -> tuple[Moment | None, Moment | None, str | int]:
    """Whole numbers that came as text, if steps are counted in whole numbers."""
    if not isinstance(every, int) and not re.fullmatch(r"\d{1,18}", every):
        return start, end, every
    ends = [
        int(moment) if isinstance(moment, str) and re.fullmatch(r"-?\d{1,18}", moment) else moment
        for moment in (start, end)
    ]
    return ends[0], ends[1], int(every)


def _public_columns(job: Job, rows: Any, columns: list[str]) -> pl.DataFrame:
    """Distinct rows of columns that the holder has declared public."""
    from veilstream.data.readers import open_batches

    options = ReadOptions(job.delimiter, job.encoding, job.decimal, job.time_format)
    time = job.time if job.time in columns else None
    distinct = [batch.unique() for batch in open_batches(require_source(rows), columns, options, time=time)]
    if not distinct:
        raise InvalidInputError(
            name="file", limit="no rows, so no public values can be found in it", outcome="nothing was read"
        )
    return pl.concat(distinct).unique()


def require_source(rows: Any) -> Any:
    """The input, which a preview may do without."""
    if rows is None:
        raise InvalidInputError(
            name="file", limit="missing", outcome="nothing was read", next_step="name a CSV or Parquet file"
        )
    return rows


def require_ledger(job: Job) -> str:
    if job.ledger is None:
        raise InvalidInputError(
            name="ledger",
            limit="missing; without it nobody would remember what was spent",
            outcome="nothing was read",
            next_step="give --ledger budget.db",
        )
    return job.ledger


def database_file(ledger: str) -> Path | None:
    """The file of an SQLite ledger, by the one name it has; None for a server.

    >>> database_file("sqlite:///budget.db") == database_file("./budget.db"), database_file("postgresql://host/x")
    (True, None)
    """
    return locate(ledger).file


def _check_start(job: Job, prepared: PreparedJob) -> None:
    """Ask the mechanism whether it can run; a missing horizon is answered with the option that gives one."""
    try:
        prepared.mechanism.start(prepared.guarantee, prepared.numbers)
    except InvalidInputError as error:
        if not prepared.guarantee.endless and str(error).startswith("horizon") and "horizon" not in job.settings:
            raise InvalidInputError(
                name="horizon",
                of=job.mechanism,
                limit="missing; at --window user one budget lasts for the whole stream, however many steps it has",
                outcome="nothing was read",
                next_step=f"give --set horizon={prepared.calendar.steps} for this time range",
            ) from None
        raise
