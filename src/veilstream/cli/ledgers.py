"""Reading a ledger: what each stream promises, what was spent, and on what; ``ledger_care`` looks after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from veilstream.cli import ledger_care
from veilstream.cli.groups import command_group
from veilstream.cli.ledger_opening import Json, Where, Which, chosen_streams, opened_ledger
from veilstream.cli.ledger_revisions import revisions
from veilstream.cli.reporting import print_json

ledger_app = command_group("Read a ledger: what was released, what it cost, what is left.")

Last = Annotated[int, typer.Option("--last", min=1, help="How many of the latest rows to show.")]


@ledger_app.command()
def show(ledger: Where, stream: Which = None, last: Last = 12, as_json: Json = False) -> None:
    """Each stream's guarantee in words, what every window spent and has left, and who was charged for what."""
    from veilstream.cli.ledger_accounts import account, print_account, print_total, total
    from veilstream.storage.ledger.rows import rows_of

    with opened_ledger(ledger) as opened:
        specs = chosen_streams(opened, stream)
        with rows_of(opened.label):
            accounts = [account(opened, spec) for spec in specs]
    if as_json:
        print_json({"streams": accounts, "total": total(accounts)})
        return
    if not accounts:
        typer.echo("no streams: nothing was ever released from this ledger")
    for seen in accounts:
        print_account(seen, last)
    print_total(accounts)


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

    from veilstream.cli.ledger_accounts import print_table
    from veilstream.jobs.wording import number
    from veilstream.storage.ledger.as_of import with_as_of

    with opened_ledger(ledger) as opened:
        chosen_streams(opened, stream)
        found = list(with_as_of(opened.releases(stream, after=after, limit=limit), opened))
    if as_json:
        print_json(
            {
                "releases": [
                    {
                        "seq": r.seq,
                        "stream": r.stream,
                        "t": r.t,
                        "fresh": r.fresh,
                        "as_of": as_of,
                        "values": r.values.tolist(),
                        "std": None if np.isnan(r.std).all() else np.asarray(r.std).tolist(),
                        "law": r.law.value,
                        "spent": str(r.spent),
                        "left": str(r.left),
                    }
                    for r, as_of in found
                ]
            }
        )
        return
    rows = [
        (
            str(r.seq),
            r.stream,
            str(r.t),
            "fresh" if r.fresh else f"as of {as_of}",
            number(float(np.mean(r.std))),
            number(r.spent),
            number(r.left),
            ", ".join(f"{value:g}" for value in r.values[:4]) + (", ..." if r.values.size > 4 else ""),
        )
        for r, as_of in found
    ]
    columns = ("seq", "stream", "step", "release", "noise std", "spent", "left", "values")
    print_table(f"{len(rows)} releases", columns, rows)


@ledger_app.command()
def charges(ledger: Where, stream: Which = None, as_json: Json = False) -> None:
    """Every charge: which step made it, for what, over which steps, and whether it led to a release."""
    from veilstream.cli.ledger_accounts import print_table
    from veilstream.jobs.wording import number

    with opened_ledger(ledger) as opened:
        found = [(spec.name, row) for spec in chosen_streams(opened, stream) for row in opened.charges(spec.name)]
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
    print_table(f"{len(rows)} charges", columns, rows)


@ledger_app.command()
def export(
    ledger: Where,
    stream: Which = None,
    out: Annotated[Path | None, typer.Option(help="A file; by default stdout.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Releases, revisions and charges, one JSON object per line (one array with --json); never a mechanism's state.

    Each stream begins with what it is: guarantee and mechanism, which time each step is, the label of every bin.
    """
    from veilstream.release.sinks import replacing
    from veilstream.storage.ledger.exporting import export as export_stream
    from veilstream.storage.ledger.exporting import header
    from veilstream.storage.ledger.rows import rows_of

    with opened_ledger(ledger) as opened:
        specs = chosen_streams(opened, stream)
        with rows_of(opened.label):
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


for command, name in (
    (revisions, "revisions"),
    (ledger_care.verify, "verify"),
    (ledger_care.compact, "compact"),
    (ledger_care.reset, "reset"),
    (ledger_care.grant, "grant-reader"),
):
    ledger_app.command(name)(command)
