"""``veilstream series``: one count series, filtered, with error bands."""

from __future__ import annotations

from typing import Annotated

from veilstream.cli.options import (
    AsJson,
    Decimal,
    Delimiter,
    Encoding,
    Files,
    RowPerPerson,
    job_option,
    moments_of,
    option,
    source_of,
)
from veilstream.cli.population import HowToDraw, InPopulation
from veilstream.cli.publish import publish_job
from veilstream.jobs.model import Job


def series(
    files: Files,
    time: Annotated[str, job_option("time")],
    every: Annotated[str, job_option("every")],
    epsilon: Annotated[str, job_option("epsilon")],
    value: Annotated[str | None, job_option("value")] = None,
    per_person: Annotated[
        int | None, option("--per-person", description="With --value: most that one person adds to a count of a step.")
    ] = None,
    count: Annotated[
        bool, option("--count", description="Count people: rows of events; needs --user or --row-per-person.")
    ] = False,
    user: Annotated[str | None, option("--user", description="With --count: column of the person's id.")] = None,
    row_per_person: RowPerPerson = False,
    start: Annotated[str | None, job_option("start")] = None,
    end: Annotated[str | None, job_option("end")] = None,
    zone: Annotated[str | None, option("--zone", description="Zone of times without one. Default: UTC.")] = None,
    time_format: Annotated[str | None, job_option("time_format")] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    unknown: Annotated[str, job_option("unknown")] = "error",
    missing_time: Annotated[str, job_option("missing_time")] = "error",
    allow_empty: Annotated[bool, job_option("allow_empty")] = False,
    again: Annotated[bool, job_option("again")] = False,
    public_from_data: Annotated[
        bool, option("--public-from-data", description="Declare the time range found in FILE public.")
    ] = False,
    window: Annotated[
        str, option("--window", description="Steps that share the budget: a number, or 'user' (default): all of them.")
    ] = "user",
    horizon: Annotated[
        int | None, option("--horizon", description="Steps of the whole series. Default: those from --start to --end.")
    ] = None,
    samples: Annotated[
        int | None, option("--samples", description="Looks at the data per window. Default: one at every step.")
    ] = None,
    kind: Annotated[str, option("--filter", description="'kalman' (default) or 'particle'.")] = "kalman",
    sampling: Annotated[str, option("--sampling", description="'pid' (default) or 'fixed'.")] = "pid",
    process_variance: Annotated[
        str | None, option("--process-variance", description="Q, how far a step moves the level. Default: estimated.")
    ] = None,
    ledger: Annotated[str | None, job_option("ledger")] = None,
    stream: Annotated[str | None, option("--stream", description="Name in the ledger. Default: default.")] = None,
    out: Annotated[str | None, job_option("out")] = None,
    plot: Annotated[str | None, job_option("plot")] = None,
    level: Annotated[float | None, option("--level", description="Level of the error bands. Default: 0.95.")] = None,
    population: InPopulation = None,
    draw: HowToDraw = "shared",
    dry_run: Annotated[
        bool, option("--dry-run", description="Show cost and expected error; read nothing private.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Publish one count series with FAST: few looks, a filter, and error bands."""
    from veilstream.errors import InvalidInputError

    if (value is None) is not count:
        raise InvalidInputError(
            name="value",
            limit="either counts of a column are published or people are counted",
            outcome="nothing was read",
            next_step="give either --value COLUMN or --count",
        )
    looks = {"samples": samples, "filter": kind, "sampling": sampling, "process_variance": process_variance}
    if window == "user":
        looks["horizon"] = horizon if horizon is not None else _steps(start, end, every, zone)
        if looks["horizon"] is None:
            raise InvalidInputError(
                "horizon: missing; at --window user one budget lasts for the whole series, so give --start "
                "and --end, or --horizon STEPS, or for a series without an end a --window of some steps",
                outcome="nothing was read",
            )
    given = {
        "file": source_of(files),
        "time": time,
        "user": user,
        "row_per_person": row_per_person,
        "value": value,
        "per_person": per_person,
        "every": every,
        "start": start,
        "end": end,
        "zone": zone,
        "time_format": time_format,
        "delimiter": delimiter,
        "encoding": encoding,
        "decimal": decimal,
        "unknown": unknown,
        "missing_time": missing_time,
        "allow_empty": allow_empty,
        "again": again,
        "public_from_data": public_from_data,
        "epsilon": epsilon,
        "window": window,
        "mechanism": "fast",
        "set": {name: setting for name, setting in looks.items() if setting is not None},
        "ledger": ledger,
        "stream": stream,
        "out": out,
        "plot": plot,
        "level": level,
        "population": population,
        "draw": draw,
    }
    return publish_job(Job.load(None, given), dry_run, as_json)


def _steps(start: str | None, end: str | None, every: str, zone: str | None) -> int | None:
    """The number of steps of a public time range, None if it is not known beforehand."""
    from veilstream.data import Calendar

    if start is None or end is None:
        return None
    return Calendar(*moments_of(start, end, every), zone or "UTC").steps
