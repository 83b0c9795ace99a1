"""``veilstream series``: one count series, filtered, with error bands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from veilstream.cli.app import publish


def _option(*names: str, words: str) -> Any:
    return typer.Option(*names, help=words, show_default=False)


def series(
    file: Annotated[str, typer.Argument(help="CSV, CSV.gz or Parquet: a file, a directory or a quoted glob.")],
    time: Annotated[str, _option("--time", words="Column of the time of a row.")],
    every: Annotated[str, _option("--every", words="Length of a step: 15m, 1h, 1d, 1w, 1mo, or a number.")],
    epsilon: Annotated[str, _option("--epsilon", words="Privacy budget of a window, e.g. 1 or 1/2.")],
    value: Annotated[str | None, _option("--value", words="Column of counts that are aggregated already.")] = None,
    per_person: Annotated[
        int | None, _option("--per-person", words="With --value: most that one person adds to a count of a step.")
    ] = None,
    count: Annotated[bool, _option("--count", words="Count people: rows of events; needs --user.")] = False,
    user: Annotated[str | None, _option("--user", words="With --count: column of the person's id.")] = None,
    start: Annotated[str | None, _option("--start", words="Public start of the time range, included.")] = None,
    end: Annotated[str | None, _option("--end", words="Public end of the time range, excluded.")] = None,
    zone: Annotated[str | None, _option("--zone", words="Zone of times without one. Default: UTC.")] = None,
    public_from_data: Annotated[
        bool, _option("--public-from-data", words="Declare the time range found in FILE public.")
    ] = False,
    window: Annotated[
        str, _option("--window", words="Steps that share the budget: a number, or 'user' (default): all of them.")
    ] = "user",
    horizon: Annotated[
        int | None, _option("--horizon", words="Steps of the whole series. Default: those from --start to --end.")
    ] = None,
    samples: Annotated[
        int | None, _option("--samples", words="Looks at the data per window. Default: 15 % of its steps.")
    ] = None,
    kind: Annotated[str, _option("--filter", words="'kalman' (default) or 'particle'.")] = "kalman",
    sampling: Annotated[str, _option("--sampling", words="'pid' (default) or 'fixed'.")] = "pid",
    process_variance: Annotated[
        str | None, _option("--process-variance", words="Q, how far a step moves the level. Default: estimated.")
    ] = None,
    ledger: Annotated[str | None, _option("--ledger", words="The durable record: a file or a PostgreSQL URL.")] = None,
    stream: Annotated[str | None, _option("--stream", words="Name in the ledger. Default: default.")] = None,
    out: Annotated[str | None, _option("--out", words="Table of releases: .parquet, .csv, .json or .ndjson.")] = None,
    plot: Annotated[str | None, _option("--plot", words="Picture with error bands: .png, .pdf or .svg.")] = None,
    level: Annotated[float | None, _option("--level", words="Level of the error bands. Default: 0.95.")] = None,
    dry_run: Annotated[bool, _option("--dry-run", words="Show cost and expected error; read nothing private.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; errors too.")] = False,
) -> int:
    """Publish one count series with FAST: few looks, a filter, and error bands."""
    from veilstream.errors import InvalidInputError

    if (value is None) is not count:
        raise InvalidInputError(
            "series: give either --value COLUMN of counts or --count of people", outcome="nothing was read"
        )
    chosen = {"samples": samples, "filter": kind, "sampling": sampling, "process_variance": process_variance}
    if window == "user":
        chosen["horizon"] = horizon if horizon is not None else _steps(start, end, every, zone)
        if chosen["horizon"] is None:
            raise InvalidInputError(
                "horizon: missing; at --window user one budget lasts for the whole series, so give --start "
                "and --end, or --horizon STEPS, or for a series without an end a --window of some steps",
                outcome="nothing was read",
            )
    return publish(
        file=file,
        time=time,
        user=user,
        value=value,
        per_person=per_person,
        every=every,
        start=start,
        end=end,
        zone=zone,
        public_from_data=public_from_data,
        epsilon=epsilon,
        window=window,
        mechanism="fast",
        setting=[f"{name}={setting}" for name, setting in chosen.items() if setting is not None],
        ledger=ledger,
        stream=stream,
        out=out,
        plot=plot,
        level=level,
        dry_run=dry_run,
        as_json=as_json,
    )


def _steps(start: str | None, end: str | None, every: str, zone: str | None) -> int | None:
    """The number of steps of a public time range, None if it is not known beforehand."""
    from veilstream.data import Calendar

    if start is None or end is None:
        return None
    if every.isdigit():
        return Calendar(int(start), int(end), int(every)).steps
    return Calendar(start, end, every, zone or "UTC").steps
