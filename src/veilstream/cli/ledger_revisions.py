"""``veilstream ledger revisions``: how values of earlier steps were revised."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from veilstream.cli.ledger_opening import Json, Where, Which, chosen_streams, opened_ledger
from veilstream.cli.reporting import print_json

MOST_SHOWN = 4
"""Values of a revision that the table shows."""


def revisions(
    ledger: Where,
    stream: Which = None,
    first: Annotated[int | None, typer.Option("--from", help="First step.", show_default=False)] = None,
    last: Annotated[int | None, typer.Option("--to", help="Last step.", show_default=False)] = None,
    latest: Annotated[bool, typer.Option("--latest", help="Only the newest version of each step.")] = False,
    as_json: Json = False,
) -> None:
    """New values that later releases gave earlier steps, version by version; values in full with --json."""
    import numpy as np

    from veilstream.cli.ledger_accounts import print_table
    from veilstream.jobs.wording import number
    from veilstream.release.vintages import latest_versions
    from veilstream.storage.ledger.exporting import revision_row

    with opened_ledger(ledger) as opened:
        made = [
            (spec.name, list(opened.revisions(spec.name, first=first, last=last)))
            for spec in chosen_streams(opened, stream)
        ]
    rows: list[dict[str, Any]] = [
        {"stream": name, **revision_row(revision)}
        for name, found in made
        for revision in (latest_versions(found).values() if latest else found)
    ]
    if as_json:
        print_json({"revisions": rows})
        return
    shown = [
        (
            row["stream"],
            str(row["t"]),
            str(row["version"]),
            str(row["made"]),
            number(float(np.asarray(row["std"], dtype=np.float64).mean())),
            ", ".join(f"{value:g}" for value in row["values"][:MOST_SHOWN])
            + (", ..." if len(row["values"]) > MOST_SHOWN else ""),
        )
        for row in rows
    ]
    print_table(f"{len(shown)} revisions", ("stream", "step", "version", "made at", "std", "values"), shown)
