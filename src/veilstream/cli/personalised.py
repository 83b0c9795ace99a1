"""``veilstream personalised``: counts from a file in which everybody names their own epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilstream.cli.dry_run import tell_facts
from veilstream.cli.options import (
    AsJson,
    Decimal,
    Delimiter,
    DryRun,
    Encoding,
    Files,
    check_level,
    job_option,
    option,
    source_of,
)
from veilstream.cli.population import InPopulation
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.data import ReadOptions
from veilstream.errors import InvalidInputError

if TYPE_CHECKING:
    from fractions import Fraction

    import polars as pl

    from veilstream.data import Domain
    from veilstream.personalised import CountMechanism, CountRelease, Roster

METHODS = ("stretching", "checked", "utility", "waste", "sampling", "threshold", "minimum")


def personalised(
    files: Files,
    person: Annotated[str, option("--person", description="Column of the person's id.")],
    ledger: Annotated[str, job_option("ledger")],
    epsilon_column: Annotated[
        str, option("--epsilon-column", description="Column of everybody's own epsilon.")
    ] = "epsilon",
    by: Annotated[list[str] | None, option("--by", description="Attribute to count by; repeat for several.")] = None,
    domain: Annotated[str | None, job_option("domain")] = None,
    method: Annotated[str, typer.Option("--method", help=f"One of: {', '.join(METHODS)}.")] = "stretching",
    threshold: Annotated[
        str | None,
        option("--threshold", description="Epsilon of 'threshold' and 'sampling' (default there: the mean)."),
    ] = None,
    minimum: Annotated[int, typer.Option("--minimum", help="Fewest people of a group.")] = 100,
    groups: Annotated[
        int | None, option("--groups", description="Number of groups of 'waste'. Default: the best.")
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", help="Rounds of 'waste' and 'utility' on what is left.")] = 1,
    step: Annotated[
        str | None, option("--step", description="Round budgets down to multiples of this, to have fewer of them.")
    ] = None,
    unknown: Annotated[str, typer.Option("--unknown", help="Values outside the domain: 'error' or 'drop'.")] = "error",
    stream: Annotated[str, typer.Option("--stream", help="Name of the release in the ledger.")] = "counts",
    out: Annotated[
        str | None, option("--out", description="Table of counts: .parquet, .csv, .json or .ndjson.")
    ] = None,
    plot: Annotated[str | None, option("--plot", description="Picture of the counts: .png, .pdf or .svg.")] = None,
    level: Annotated[float, job_option("level")] = 0.95,
    population: InPopulation = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Publish counts once, each person protected by the epsilon in their own row; the epsilons are public.

    Of a --population it reserves the largest of them.
    """
    from veilstream.jobs.outputs import refuse_overwriting
    from veilstream.personalised import LedgerAccounts, Roster, count_people, release_counts
    from veilstream.release.sinks import WRITERS, check_writable, write_table
    from veilstream.storage.ledger import Ledger
    from veilstream.storage.requiring import require_population

    mechanism = _mechanism(method, threshold, minimum, groups, rounds)
    for path, suffixes in ((out, tuple(WRITERS)), (plot, (".png", ".pdf", ".svg"))):
        if path is not None:
            check_writable(path, suffixes)
    refuse_overwriting({"out": out, "plot": plot}, {"file": files, "domain": domain, "ledger": ledger})
    bins = _domain(domain, by or [])
    check_level(level)
    if dry_run:
        return tell_facts(as_json, {"epsilon": "everybody's own, at most", "bins": bins.bins, "method": method})
    require_population(ledger, population)
    read = ReadOptions(delimiter, encoding, decimal)
    table = _table(source_of(files), [person, epsilon_column, *bins.names], read, person)
    roster = Roster(_ids(table[person], person), table[epsilon_column].to_list(), step)
    x = count_people(roster, _ids(table[person], person), _places(bins, table, unknown), bins.bins)
    with Ledger.open(ledger) as opened:
        accounts = LedgerAccounts(roster, opened, stream=stream, population=population)
        release = release_counts(x, mechanism, accounts, bins.fingerprint()[:16])
        left = accounts.left()
    counts = _labelled(bins, release, level, method == "minimum")
    if out is not None:
        write_table([counts], out)
    if plot is not None:
        _draw(counts, plot, level)
    if as_json:
        outputs = [path for path in (out, plot) if path is not None]
        bias = _worst_bias(mechanism, roster)
        print_json({**_summary(roster, release, left, stream, counts), "worst_bias": bias, "outputs": outputs})
    else:
        _tell(roster, release, counts, mechanism, method, out, level)
        if plot is not None:
            typer.echo(f"wrote {plot}")
    return ExitCode.OK


def _draw(counts: pl.DataFrame, path: str, level: float) -> None:
    import polars as pl

    from veilstream.release.plots import plot_releases

    once = counts.drop("counted").with_columns(
        pl.lit(0).alias("step"), pl.lit(0).alias("time"), pl.lit(value=True).alias("fresh")
    )
    plot_releases(once, path, title="Counts, each person by their own epsilon", level=level, measure="people")


def _mechanism(method: str, threshold: str | None, minimum: int, groups: int | None, rounds: int) -> CountMechanism:
    from veilstream.personalised import Checked, Minimum, Partitioned, Sampling, Stretching, Threshold

    if threshold is not None and method not in ("threshold", "sampling"):
        raise InvalidInputError(
            name="threshold", value=threshold, limit=f"method '{method}' has none", outcome="nothing was read"
        )
    if rounds != 1 and method not in ("waste", "utility"):
        raise InvalidInputError(
            name="rounds", value=rounds, limit=f"method '{method}' has one", outcome="nothing was read"
        )
    match method:
        case "stretching":
            return Stretching()
        case "checked":
            return Checked()
        case "utility":
            return Partitioned(by="utility", k=groups, minimum=minimum, number=rounds)
        case "waste":
            return Partitioned(by="waste", k=groups, minimum=minimum, number=rounds)
        case "sampling":
            return Sampling(threshold)
        case "threshold" if threshold is None:
            raise InvalidInputError(
                "threshold: missing; method 'threshold' needs --threshold", outcome="nothing was read"
            )
        case "threshold":
            assert threshold is not None
            return Threshold(threshold)
        case "minimum":
            return Minimum()
        case _:
            raise InvalidInputError(
                name="method", value=method, limit=f"one of {', '.join(METHODS)}", outcome="nothing was read"
            )


def _domain(path: str | None, by: list[str]) -> Domain:
    from veilstream.data import Domain

    if path is None:
        if by:
            raise InvalidInputError(
                f"by '{by[0]}': its public bins are needed, give --domain", outcome="nothing was read"
            )
        return Domain({})
    known = Domain.from_json(path)
    for name in by:
        if name not in known.axes:
            raise InvalidInputError(
                f"by '{name}': not in the domain, its attributes are {', '.join(known.names)}",
                outcome="nothing was read",
            )
    return Domain({name: known.axes[name] for name in by}) if by else known


def _table(file: str | tuple[str, ...], columns: list[str], options: ReadOptions, person: str) -> pl.DataFrame:
    import polars as pl

    from veilstream.data.readers import open_batches

    batches = list(open_batches(file, columns, options, user=person))
    if not batches or not sum(len(batch) for batch in batches):
        raise InvalidInputError(
            name="file", limit="no rows, at least 1 person is needed", outcome="nothing was released"
        )
    return pl.concat(batches)


def _ids(column: pl.Series, name: str) -> list[Any]:

    if column.null_count():
        raise InvalidInputError(
            f"column '{name}': a row has no person; each needs one", operator_note=f"{column.null_count()} such rows"
        )
    return column.to_list()


def _places(domain: Domain, table: pl.DataFrame, unknown: str) -> Any:
    from veilstream.errors import UnknownValueError

    if unknown not in ("error", "drop"):
        raise InvalidInputError(name="unknown", value=unknown, limit="'error' or 'drop'")
    places = domain.encode(table)
    if unknown == "error" and (places < 0).any():
        raise UnknownValueError(
            name="attributes",
            value=", ".join(domain.unknown_attributes(table)),
            limit="a value lies outside the public domain; widen it or give --unknown drop",
        )
    return places


def _labelled(domain: Domain, release: CountRelease, level: float, plain: bool) -> pl.DataFrame:
    import polars as pl

    from veilstream.values.values import half_width

    values = release.values
    width = half_width(level, values.std, values.law, integer=False)
    numbers = pl.Series("value", values.numbers)
    # Other methods count some people more than others, and of what that adds nothing is known.
    before = "" if plain else "noise_"
    columns = [numbers, (numbers - width).alias(f"{before}low"), (numbers + width).alias(f"{before}high")]
    labels = domain.labels().get_columns() if domain.names else []
    told = [pl.Series("counted", ["people"]), pl.Series("covers", [values.law.covers])]
    return pl.DataFrame([*labels, *columns, *(one.new_from_index(0, len(numbers)) for one in told)])


def _summary(
    roster: Roster, release: CountRelease, left: list[Fraction], stream: str, counts: pl.DataFrame
) -> dict[str, Any]:
    return {
        "people": roster.people,
        "levels": roster.levels,
        "noise_std": float(release.values.std),
        "stream": stream,
        "seq": release.seq,
        "charged": [
            {"epsilon": str(own), "people": int(size), "charged": str(paid), "left": str(rest)}
            for own, size, paid, rest in zip(roster.budgets, roster.sizes, release.charged, left, strict=True)
        ],
        "counts": counts.to_dicts(),
    }


def _worst_bias(mechanism: CountMechanism, roster: Roster) -> float | None:
    """The most people by which counts are wrong besides noise if budgets follow the data; None where nobody knows."""
    from veilstream.personalised import Minimum, Stretching

    if isinstance(mechanism, Minimum):
        return 0.0
    return mechanism.worst_bias(roster) if isinstance(mechanism, Stretching) else None


def _warning(mechanism: CountMechanism, roster: Roster, bins: int) -> str:
    """What is not in the intervals, from public numbers alone."""
    from veilstream.jobs.wording import number
    from veilstream.personalised import Checked

    if isinstance(mechanism, Checked):
        unnoticed = mechanism.unnoticed(roster, bins)
        said = f"budgets that follow the data may have biased counts by about {number(unnoticed)} people"
        return f"{said}, which it cannot notice" if unnoticed else ""
    bias = _worst_bias(mechanism, roster)
    if bias == 0:
        return ""
    most = "" if bias is None else f" by up to {number(bias)} people"
    return (
        f"where people with large budgets differ from the others, counts are wrong{most} besides noise: if that is "
        "likely, --method checked asks first, --method minimum assumes nothing"
    )


def _tell(
    roster: Roster,
    release: CountRelease,
    counts: pl.DataFrame,
    mechanism: CountMechanism,
    method: str,
    out: str | None,
    level: float,
) -> None:
    from veilstream.jobs.wording import number

    ends = f"{number(roster.lowest)} to {number(roster.highest)}"
    typer.echo(f"{roster.people:,} people with {roster.levels:,} different budgets from {ends}; method '{method}'")
    typer.echo(
        "nobody was charged more than their own epsilon; noise: standard deviation "
        f"{number(float(release.values.std))} per count"
    )
    warning = _warning(mechanism, roster, len(counts))
    if warning:
        typer.echo(warning)
    if out is not None:
        typer.echo(f"wrote {out} ({len(counts):,} rows)")
        return
    held = "the count" if "low" in counts.columns else "the value before noise, not the count,"
    typer.echo(f"intervals hold {held} with probability {level:.0%}")
    for row in counts.iter_rows():
        *labels, value, low, high, _, _ = row
        typer.echo(f"{' '.join(map(str, labels))} {number(value)} ({number(low)} to {number(high)})".strip())
