"""``veilstream synthesize``: a private synthetic table from a file."""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from veilstream.cli.dry_run import tell_dry_run
from veilstream.cli.options import (
    AsJson,
    Decimal,
    Delimiter,
    DryRun,
    Encoding,
    Files,
    RowPerPerson,
    job_option,
    require_people,
    source_of,
)
from veilstream.cli.population import DataFrom, DataTo, HowToDraw, InPopulation, membership_of
from veilstream.cli.progress import stages
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.cli.synthesize_page import write_page
from veilstream.cli.synthesize_steps import (
    End,
    Every,
    Start,
    TimeColumn,
    Window,
    Zone,
    steps_of,
    synthesize_steps,
    write_rows,
)

if TYPE_CHECKING:
    from veilstream.storage.ledger import Ledger
    from veilstream.synthesis import TableDomain
    from veilstream.synthesis.kinds import TableMechanism, TableModel

METHODS = ("auto", "pairs", "kendall", "mle", "hybrid")
COPULAS = ("normal", "choose")
DEFAULT_MARGINS = "noise-first"
SUFFIXES = (".parquet", ".csv", ".ndjson")


def synthesize(
    files: Files,
    domain: Annotated[Path, job_option("domain")],
    epsilon: Annotated[str, typer.Option(help="Privacy budget of the model, e.g. 1 or 1/2.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Drawn rows: .parquet, .csv or .ndjson.", show_default=False)],
    rows: Annotated[
        int | None, typer.Option(help="Rows to draw. Default: the table's noisy count.", show_default=False)
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Column of the person's id: further rows are left out.", show_default=False)
    ] = None,
    row_per_person: RowPerPerson = False,
    rows_per_user: Annotated[int, typer.Option(help="Most rows of one person.")] = 1,
    unknown: Annotated[str, typer.Option(help="Values outside the domain: 'error' or 'drop'.")] = "error",
    method: Annotated[
        str,
        typer.Option(
            help="auto, pairs (tables of them), or a copula by kendall, mle or hybrid (small attributes split)."
        ),
    ] = "auto",
    target: Annotated[
        str | None,
        typer.Option(help="Attribute that others will be used to predict: measured first.", show_default=False),
    ] = None,
    margins: Annotated[
        str, typer.Option(help="How margins are published; see 'veilstream mechanisms'.")
    ] = DEFAULT_MARGINS,
    copula: Annotated[str, typer.Option(help="normal, or choose among normal, t and empirical.")] = "normal",
    ledger: Annotated[
        str | None, typer.Option(help="The durable record. Default: FILE.ledger.db.", show_default=False)
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the table in the ledger.")] = "table",
    seed: Annotated[
        int | None, typer.Option(help="Draw the same rows again; noise has no seed.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Page about the quality: .html. It costs nothing.", show_default=False)
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="Extra budget that measures true errors for the page.", show_default=False)
    ] = None,
    every: Every = None,
    time: TimeColumn = None,
    window: Window = None,
    start: Start = None,
    end: End = None,
    zone: Zone = "UTC",
    population: InPopulation = None,
    draw: HowToDraw = "shared",
    data_from: DataFrom = None,
    data_to: DataTo = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = ".",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> int:
    """Publish a private model of a table and draw synthetic rows from it; run it again to draw more for nothing.

    With --every, a model for every step of a time range, each on the ground of the last one.
    """
    from veilstream.data import ReadOptions
    from veilstream.data.encoding import left_out
    from veilstream.data.readers import open_batches
    from veilstream.jobs.outputs import refuse_overwriting
    from veilstream.privacy.guarantee import Guarantee
    from veilstream.storage.ledger import Ledger
    from veilstream.storage.requiring import require_population
    from veilstream.synthesis import TableDomain, fit, read_rows
    from veilstream.synthesis.crowding import crowded_bins

    if row_per_person:
        require_people(user, row_per_person)
    _check(unknown, rows, measure, population, out, report)
    member = membership_of(population, draw, data_from, data_to)
    url = _default_ledger(files, out) if ledger is None else ledger
    refuse_overwriting({"out": out, "report": report}, {"file": files, "domain": domain, "ledger": url})
    schema = TableDomain.from_json(domain)
    mechanism = _mechanism(method, margins, copula, schema, target)
    steps = steps_of(epsilon, time, every, window, start, end, zone, report)
    if dry_run:
        guarantee = steps.guarantee if steps else Guarantee(epsilon, w=None)
        return tell_dry_run(guarantee, as_json, attributes=len(schema.names), method=method, ledger=url)
    require_population(url, population)
    mechanism = _as_begun(mechanism, method, margins, schema, url, name, over_time=steps is not None)
    options = ReadOptions(delimiter, encoding, decimal)
    policy: Literal["error", "drop"] = "drop" if unknown == "drop" else "error"
    if steps is not None:
        return synthesize_steps(
            source_of(files),
            schema,
            steps,
            mechanism,
            out,
            url,
            as_json,
            name=name,
            user=user,
            rows_per_user=rows_per_user,
            unknown=policy,
            options=options,
            population=member,
            rows=rows,
            seed=seed,
        )
    columns = [*schema.names] if user is None else [user, *schema.names]
    with ExitStack() as open_things:
        progress = open_things.enter_context(stages(3 + (report is not None), as_json))
        progress.begin("reading rows")
        # Every row is read and checked before the ledger is touched.
        source = open_batches(source_of(files), columns, options, user=user, dropped=left_out(policy))
        sealed = read_rows(source, schema, user=user, rows_per_user=rows_per_user, unknown=policy)
        progress.begin("fitting the model")
        book = open_things.enter_context(Ledger.open(url))
        before = _released(book, name)
        model = fit(sealed, schema, epsilon, mechanism, book, name=name, rows_per_user=rows_per_user, population=member)
        progress.begin("drawing rows")
        written = _draw(model, out, rows, seed)
        spent = {"model": Fraction(0) if before else model.spent}
        summary: dict[str, Any] = {
            "rows": written,
            "noisy_rows_of_the_table": model.rows,
            "copula": sorted(set(model.copulas)),
            "ledger": url,
            "outputs": [str(out)],
            "crowded_bins": [name for name, _, _ in crowded_bins(model)],
        }
        if report is not None:
            progress.begin("checking what can be trusted")
            measured_before = _released(book, f"{name} quality")
            errors = write_page(report, model, mechanism, epsilon, sealed, book, measure, name)
            summary["outputs"].append(str(report))
            summary["range_error"] = errors.all_attributes
            spent["page"] = Fraction(0) if measured_before else errors.epsilon
    _tell(summary, spent, len(schema.names), as_json)
    return ExitCode.OK


def _tell(summary: dict[str, Any], spent: dict[str, Fraction], attributes: int, as_json: bool) -> None:
    """Say what was drawn, what it cost and what was written."""
    from veilstream.jobs.wording import number

    now = sum(spent.values(), Fraction(0))
    summary |= {"spent_now": str(now), **{f"spent_on_{what}": str(amount) for what, amount in spent.items()}}
    if as_json:
        print_json(summary)
        return
    paid = " and ".join(f"{number(amount)} on the {what}" for what, amount in spent.items() if amount)
    cost = f"spent epsilon {number(now)} ({paid})" if now else "the stored model was used, nothing was spent"
    typer.echo(f"drew {summary['rows']:,} rows of {attributes} attributes; {cost} (ledger {summary['ledger']})")
    for path in summary["outputs"]:
        typer.echo(f"wrote {path}")
    if summary["crowded_bins"]:
        typer.echo(
            f"note: one bin holds most rows of {', '.join(summary['crowded_bins'])}; values are drawn anywhere in "
            'their bin. If many rows share one value there, such as 0, add "spikes": [0] to its bins in the domain; '
            "a table that is fitted again, under another --name, is charged again",
            err=True,
        )


def _check(
    unknown: str, rows: int | None, measure: str | None, population: str | None, out: Path, report: Path | None
) -> None:
    """Refuse options that could not be served, before a row is read."""
    from veilstream.errors import InvalidInputError, VeilstreamError
    from veilstream.extras import require
    from veilstream.privacy.guarantee import Guarantee
    from veilstream.release.sinks import check_writable

    if population is not None and measure is not None:
        raise InvalidInputError(
            "measure: what a page measures is not drawn from a population; leave it out", outcome="nothing was read"
        )
    if unknown not in ("error", "drop"):
        raise InvalidInputError(name="unknown", value=unknown, limit="'error' or 'drop'", outcome="nothing was read")
    if rows is not None and rows < 0:
        raise InvalidInputError(
            name="rows", value=rows, limit="a whole number of at least 0", outcome="nothing was read"
        )
    if measure is not None:
        try:
            Guarantee(measure, w=1)
        except VeilstreamError as error:
            raise InvalidInputError(
                name="measure", value=measure, limit=error.limit, outcome="nothing was read", next_step=error.next_step
            ) from None
    if measure is not None and report is None:
        raise InvalidInputError(
            name="measure",
            limit="it is for the page",
            outcome="nothing was read",
            next_step="give --report page.html too",
        )
    check_writable(out, SUFFIXES)
    if report is not None:
        require("matplotlib", "drawing pictures")
        check_writable(report, (".html",))


def _released(book: Ledger, name: str) -> bool:
    return name in [spec.name for spec in book.streams()] and book.release_at(name, 0) is not None


def _default_ledger(files: list[str], out: Path) -> str:
    """The ledger that goes with the table, so that whatever is drawn from it, it is paid for once."""
    from veilstream.errors import InvalidInputError

    table, former = Path(files[0]), out.with_name(out.name + ".ledger.db")
    named = files[0] != "-" and not any(mark in files[0] for mark in ("*", "?", "[", "://"))
    if len(files) == 1 and named and not table.exists():
        raise InvalidInputError(
            name="file",
            value=files[0],
            limit="there is no such file",
            outcome="nothing was read",
            next_step="give the path of a CSV or Parquet file",
        )
    if len(files) > 1 or not table.is_file():
        raise InvalidInputError(
            name="ledger",
            limit="missing; for input that is not one file it must be named",
            outcome="nothing was read",
            next_step="give --ledger budget.db",
        )
    ledger = table.with_name(table.name + ".ledger.db")
    if former.exists() and not ledger.exists():
        raise InvalidInputError(
            name="ledger",
            value=former,
            limit="it may hold the model of this table, by the name that ledgers once had by default",
            outcome="nothing was read",
            next_step=f"give --ledger {former} to draw from it",
        )
    return str(ledger)


def _as_begun(
    mechanism: TableMechanism,
    method: str,
    margins: str,
    domain: TableDomain,
    ledger: str,
    name: str,
    *,
    over_time: bool,
) -> TableMechanism:
    """With the automatic method, what a ledger records if its stream began when that was another."""
    from veilstream.mechanisms.streams.uniform import Uniform
    from veilstream.synthesis import refreshed
    from veilstream.synthesis.fitting import recorded_mechanism
    from veilstream.synthesis.kinds import as_begun

    if method != "auto":
        return mechanism
    former = _mechanism("kendall", margins, "normal", domain, None)
    recorded = recorded_mechanism(ledger, name)
    return as_begun(mechanism, domain, recorded, refreshed if over_time else Uniform, former)


def _mechanism(method: str, margins: str, copula: str, domain: TableDomain, target: str | None) -> TableMechanism:
    from veilstream.errors import InvalidInputError
    from veilstream.mechanisms.histograms import EFPA, HISTOGRAMS
    from veilstream.synthesis import BlockMLE, Choice, DPCopula, Kendall, MarginalGraph
    from veilstream.synthesis.kinds import aimed_at, for_domain

    for given, known, what in (
        (method, METHODS, "method"),
        (copula, COPULAS, "copula"),
        (margins, HISTOGRAMS, "margins"),
    ):
        if given not in known:
            raise InvalidInputError(
                name=what, value=given, limit=f"choose from {', '.join(known)}", outcome="nothing was read"
            )
    published = EFPA(fallback=True) if margins == "efpa" else HISTOGRAMS[margins]()
    if method in ("auto", "pairs"):
        if copula != "normal":
            raise InvalidInputError(
                name="copula",
                value=copula,
                limit="marginals have none; give --method kendall",
                outcome="nothing was read",
            )
        graph = MarginalGraph(margins=None if margins == DEFAULT_MARGINS else published, target=target)
        for_domain(graph, domain)
        return graph
    by_copula = DPCopula(
        dependence=BlockMLE() if method == "mle" else Kendall(),
        margins=published,
        copula=Choice() if copula == "choose" else None,
        split_below=10 if method == "hybrid" else 0,
    )
    return aimed_at(by_copula, target)


def _draw(model: TableModel, out: Path, rows: int | None, seed: int | None) -> int:
    from veilstream.release.sinks import replacing

    frame = model.sample(rows, seed=seed)
    with replacing(out) as unfinished:
        write_rows(frame, unfinished, out.suffix)
    return len(frame)
