"""Reading a ledger: what each stream promises, what was spent, and on what."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilstream.cli.reporting import print_json

if TYPE_CHECKING:
    from veilstream.privacy.charge import Charge
    from veilstream.privacy.guarantee import Guarantee
    from veilstream.storage.ledger import Ledger, StreamSpec

ledger_app = typer.Typer(help="Read a ledger: what was released, what it cost, what is left.", rich_markup_mode=None)

Where = Annotated[str, typer.Argument(help="The ledger: a file or a PostgreSQL URL.", show_default=False)]
Which = Annotated[str | None, typer.Option("--stream", help="One stream only.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; errors too.")]
Last = Annotated[int, typer.Option("--last", min=1, help="How many of the latest rows to show.")]


@contextmanager
def opened_ledger(url: str) -> Generator[Ledger]:
    """A ledger that must exist, for reading it."""
    from veilstream.errors import LedgerError
    from veilstream.jobs.prepare import database_file
    from veilstream.storage.ledger import Ledger

    database = database_file(url)
    if database is not None and not database.is_file():
        raise LedgerError(name="ledger", value=database, limit="there is no such file", outcome="nothing was read")
    with Ledger.open(url) as ledger:
        yield ledger


def _chosen(ledger: Ledger, stream: str | None) -> list[StreamSpec]:
    from veilstream.errors import InvalidInputError

    specs = ledger.streams()
    if stream is None:
        return specs
    found = [spec for spec in specs if spec.name == stream]
    if not found:
        known = ", ".join(spec.name for spec in specs) or "none"
        raise InvalidInputError(
            name="stream",
            value=stream,
            limit=f"not in this ledger, its streams are: {known}",
            outcome="nothing was read",
        )
    return found


def account(ledger: Ledger, spec: StreamSpec) -> dict[str, Any]:
    """What one stream promised and spent.

    ``windows`` has an entry per released step: what the fullest window that ends there had spent and had left.
    ``charges`` sums what was bought, by purpose and outcome.
    """
    from veilstream.mechanisms.session import newly_spent
    from veilstream.privacy.guarantee import Guarantee

    guarantee = Guarantee.from_json(spec.guarantee)
    mechanism = json.loads(spec.mechanism)
    words, promised = _in_words(guarantee, mechanism)
    windows = [
        {
            "t": release.t,
            "fresh": release.fresh,
            "spent_at_step": str(release.spent),
            "spent_in_window": str(guarantee.epsilon - release.left),
            "left_in_window": str(release.left),
        }
        for release in ledger.releases(spec.name)
    ]
    bought: dict[tuple[str, str, bool], tuple[int, Fraction]] = {}
    for _, rows in groupby(ledger.charges(spec.name), key=lambda row: row.t):
        together: dict[tuple[str, str, bool], list[Charge]] = {}
        for row in rows:
            together.setdefault((row.charge.purpose, row.outcome, row.charge.bins is not None), []).append(row.charge)
        for kind, charges in together.items():
            count, cost = bought.get(kind, (0, Fraction(0)))
            bought[kind] = count + len(charges), cost + newly_spent(charges, guarantee)
    return {
        "stream": spec.name,
        "guarantee": json.loads(spec.guarantee),
        "guarantee_in_words": words,
        "promise": promised,
        "mechanism": mechanism,
        "bins": spec.bins,
        "l1": spec.max_contribution,
        "releases": len(windows),
        "charges": [
            {"purpose": purpose, "outcome": outcome, "of_some_bins": some, "count": count, "epsilon": str(cost)}
            for (purpose, outcome, some), (count, cost) in bought.items()
        ],
        "windows": windows,
    }


def _in_words(guarantee: Guarantee, mechanism: dict[str, Any]) -> tuple[str, str]:
    """The guarantee and its promise; of points that move, where the unit is a move and not a person, in those terms."""
    from veilstream.jobs.wording import promise
    from veilstream.metric import MetricGuarantee

    name, settings = _name_and_settings(mechanism)
    if name.endswith("PointRelease"):
        metric = MetricGuarantee.from_record(settings["metric"])
        return str(metric), metric.promise()
    return str(guarantee), promise(guarantee)


def _name_and_settings(mechanism: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Of a recorded mechanism; schema 0001 gave the class and all settings side by side."""
    if "class" in mechanism:
        return mechanism["class"], {name: value for name, value in mechanism.items() if name != "class"}
    return mechanism["name"], mechanism["set"]


def _setting(value: Any) -> str:
    match value:
        case {"class": name} | {"name": name, "set": _}:
            return str(name)
        case _:
            return str(value)


@ledger_app.command()
def show(ledger: Where, stream: Which = None, last: Last = 12, as_json: Json = False) -> None:
    """Each stream's guarantee in words, what every window spent and has left, and who was charged for what."""
    with opened_ledger(ledger) as opened:
        accounts = [account(opened, spec) for spec in _chosen(opened, stream)]
    if as_json:
        print_json({"streams": accounts})
        return
    if not accounts:
        typer.echo("no streams: nothing was ever released from this ledger")
    for seen in accounts:
        print_account(seen, last)


def print_account(seen: dict[str, Any], last: int) -> None:
    """One stream's account for a person."""
    from veilstream.jobs.wording import number

    name, given = _name_and_settings(seen["mechanism"])
    settings = ", ".join(f"{setting}={_setting(value)}" for setting, value in given.items())
    typer.echo(f"stream '{seen['stream']}': {seen['guarantee_in_words']}")
    typer.echo(f"  {seen['promise']}")
    typer.echo(f"  mechanism {name}({settings}); {seen['bins']:,} bins; one person adds at most {seen['l1']} per step")
    spent = [
        (row["purpose"], row["outcome"], f"{row['count']:,}", number(Fraction(row["epsilon"])))
        for row in seen["charges"]
    ]
    _print_table(
        f"charged to '{seen['stream']}', whole history", ("purpose", "outcome", "charges", "sum of epsilon"), spent
    )
    if any(row["of_some_bins"] for row in seen["charges"]):
        typer.echo("  charges that name bins count for those bins alone: their sum is more than anybody has paid")
    rows = [
        (
            str(row["t"]),
            "fresh" if row["fresh"] else "repeated",
            number(Fraction(row["spent_at_step"])),
            number(Fraction(row["spent_in_window"])),
            number(Fraction(row["left_in_window"])),
        )
        for row in seen["windows"][-last:]
    ]
    shown = f"the latest {len(rows)} of {seen['releases']} releases"
    _print_table(shown, ("step", "release", "spent at step", "spent in its window", "left in its window"), rows)


def _print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("purpose", "outcome", "release", "stream") else "right")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)


@ledger_app.command()
def releases(
    ledger: Where,
    stream: Which = None,
    after: Annotated[int, typer.Option(help="Only those with a larger sequence number.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """The releases in the order of their commits; values in full with --json."""
    import numpy as np

    from veilstream.jobs.wording import number

    with opened_ledger(ledger) as opened:
        _chosen(opened, stream)
        found = list(opened.releases(stream, after=after, limit=limit))
    if as_json:
        print_json(
            {
                "releases": [
                    {
                        "seq": r.seq,
                        "stream": r.stream,
                        "t": r.t,
                        "fresh": r.fresh,
                        "values": r.values.tolist(),
                        "std": None if np.isnan(r.std).all() else np.asarray(r.std).tolist(),
                        "law": r.law.value,
                        "spent": str(r.spent),
                        "left": str(r.left),
                    }
                    for r in found
                ]
            }
        )
        return
    rows = [
        (
            str(r.seq),
            r.stream,
            str(r.t),
            "fresh" if r.fresh else "repeated",
            number(float(np.mean(r.std))),
            number(r.spent),
            number(r.left),
            ", ".join(f"{value:g}" for value in r.values[:4]) + (", ..." if r.values.size > 4 else ""),
        )
        for r in found
    ]
    columns = ("seq", "stream", "step", "release", "noise std", "spent", "left", "values")
    _print_table(f"{len(rows)} releases", columns, rows)


@ledger_app.command()
def charges(ledger: Where, stream: Which = None, as_json: Json = False) -> None:
    """Every charge: which step made it, for what, over which steps, and whether it led to a release."""
    from veilstream.jobs.wording import number

    with opened_ledger(ledger) as opened:
        found = [(spec.name, row) for spec in _chosen(opened, stream) for row in opened.charges(spec.name)]
    if as_json:
        print_json(
            {
                "charges": [
                    {
                        "id": row.id,
                        "stream": name,
                        "t": row.t,
                        "purpose": row.charge.purpose,
                        "first": row.charge.span.first,
                        "last": row.charge.span.last,
                        "epsilon": str(row.charge.epsilon),
                        "mu_squared": str(row.charge.mu_squared),
                        "bins": None if row.charge.positions is None else row.charge.positions.tolist(),
                        "outcome": row.outcome,
                    }
                    for name, row in found
                ]
            }
        )
        return
    rows = [
        (
            str(row.id),
            name,
            str(row.t),
            row.charge.purpose,
            f"{row.charge.span.first}..{row.charge.span.last}",
            "all" if row.charge.positions is None else f"{row.charge.positions.size:,}",
            number(row.charge.epsilon),
            number(row.charge.mu_squared),
            row.outcome,
        )
        for name, row in found
    ]
    columns = ("id", "stream", "step", "purpose", "steps read", "bins", "epsilon", "mu squared", "outcome")
    _print_table(f"{len(rows)} charges", columns, rows)


@ledger_app.command()
def verify(
    ledger: Where,
    seen: Annotated[
        Path | None,
        typer.Option("--seen", help="An earlier export: refuse a ledger that is behind it.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """Check every row against the chain, every state, and every window by definition; exit code 4 if any is wrong."""
    from veilstream.cli.reporting import ExitCode
    from veilstream.storage.ledger.verifying import check_export
    from veilstream.storage.ledger.verifying import verify as verified

    with opened_ledger(ledger) as opened:
        found = verified(opened) + ([] if seen is None else check_export(opened, seen))
        names = [spec.name for spec in opened.streams()]
    if as_json:
        problems = [{"stream": finding.stream, "problem": finding.problem} for finding in found]
        print_json({"streams": names, "problems": problems})
    else:
        for finding in found:
            typer.echo(f"{finding.stream or 'ledger'}: {finding.problem}")
        typer.echo(f"{len(names)} stream(s), {len(found)} problem(s)")
    return ExitCode.LEDGER if found else ExitCode.OK


@ledger_app.command()
def backup(
    ledger: Where,
    copy: Annotated[Path, typer.Argument(help="A file that does not exist yet.", show_default=False)],
) -> None:
    """Copy an SQLite ledger as of one moment while publishers run; the copy is secret like the ledger."""
    with opened_ledger(ledger) as opened:
        opened.back_up(copy)
    typer.echo(f"wrote {copy}; to go on from it loses every step since: see docs/reliability.md", err=True)


@ledger_app.command("grant-reader")
def grant(
    ledger: Where,
    role: Annotated[str, typer.Option("--role", help="A role of the server.", show_default=False)],
) -> None:
    """Let a role of PostgreSQL read releases and charges, and nothing of the mechanisms' secret state."""
    with opened_ledger(ledger) as opened:
        for statement in opened.grant_reader(role):
            typer.echo(f"{statement};")


@ledger_app.command()
def export(
    ledger: Where,
    stream: Which = None,
    out: Annotated[Path | None, typer.Option(help="A file; by default stdout.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Releases and charges, one JSON object per line (one array with --json); never a mechanism's secret state.

    Each stream begins with what it is: guarantee and mechanism, which time each step is, the label of every bin.
    """
    from veilstream.release.sinks import replacing
    from veilstream.storage.ledger.exporting import export as export_stream
    from veilstream.storage.ledger.exporting import header

    with opened_ledger(ledger) as opened:
        specs = _chosen(opened, stream)
        rows = [
            {"stream": spec.name, **row}
            for spec in specs
            for row in (header(opened, spec), *export_stream(opened, spec.name))
        ]
    text = json.dumps(rows) + "\n" if as_json else "".join(json.dumps(row) + "\n" for row in rows)
    if out is None:
        typer.echo(text, nl=False)
        return
    with replacing(out) as partial:
        partial.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {out} ({len(rows):,} rows)", err=True)
