"""``veilstream backup`` and ``veilstream restore``: ledger, spool, keys and marks as one checked unit."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from veilstream.cli.ledger_care import DRY_RUN, Apply
from veilstream.cli.ledger_opening import Json, Where, require_file
from veilstream.cli.reporting import print_json

SpoolPlace = Annotated[
    str | None, typer.Option("--spool", help="Where rows wait. Default: LEDGER.spool.", show_default=False)
]


def backup(
    ledger: Where,
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet.", show_default=False)],
    spool: SpoolPlace = None,
    key_file: Annotated[
        list[Path] | None,
        typer.Option("--key-file", help="A stream's key that is not beside the ledger; repeat.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy ledger, spool, keys and marks as of one moment, while servers and publishers run.

    The copy is as secret as they are. Its files are listed with their digests, which `veilstream restore` checks.
    """
    from veilstream.live.backup import Place, back_up
    from veilstream.server.tokens import metadata

    require_file(ledger)
    manifest = back_up(Place(ledger, spool, tuple(key_file or ())), folder, metadata.sorted_tables)
    if as_json:
        print_json(manifest)
        return
    files, streams = manifest["files"], manifest["marks"]
    typer.echo(f"wrote {folder}: {len(streams)} stream(s), {len(files)} file(s)")
    typer.echo("to go on from it loses every step since: see docs/reliability.md", err=True)


def restore(
    source: Annotated[str, typer.Argument(help="A backup, or a ledger that was put back already.", show_default=False)],
    ledger: Annotated[
        str | None,
        typer.Argument(help="An empty place for it; left out, what was lost is recorded in place.", show_default=False),
    ] = None,
    spool: SpoolPlace = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", help="Folder for files of keys. Default: beside a ledger file.", show_default=False),
    ] = None,
    last_step: Annotated[
        list[str] | None,
        typer.Option(
            "--last-step", help="STREAM=T: the last step of a stream that was published or tried.", show_default=False
        ),
    ] = None,
    apply: Apply = False,
    as_json: Json = False,
) -> None:
    """Go on from a backup: steps that it has forgotten count as spent, and their streams go on one window later.

    How far each stream had come is known from the marks beside the ledger, or stated with --last-step.
    """
    from veilstream.errors import LedgerError
    from veilstream.live.backup import Place, restore_here
    from veilstream.live.backup import restore as put_back
    from veilstream.server.tokens import metadata

    stated = _last_steps(last_step or [])
    if ledger is None:
        if Path(source).is_dir():
            raise LedgerError(
                name="restore",
                value=source,
                limit="a backup needs a place to go to",
                outcome="nothing was restored",
                next_step="name the ledger that it is to become: veilstream restore BACKUP LEDGER",
            )
        require_file(source)
        found = restore_here(Place(source, spool), stated, apply=apply)
    else:
        place = Place(ledger, spool)
        found = put_back(Path(source), place, stated, keys=keys, beside=metadata.sorted_tables, apply=apply)
    if as_json:
        losses = [asdict(loss) for loss in found.ledger.losses]
        print_json({"applied": apply, "losses": losses, "gone": found.ledger.gone, "spool": found.spool})
        return
    for line in found.lines():
        typer.echo(line)
    typer.echo("done" if apply else DRY_RUN, err=True)


def _last_steps(given: list[str]) -> dict[str, int]:
    from veilstream.errors import InvalidInputError

    found: dict[str, int] = {}
    for text in given:
        stream, _, step = text.rpartition("=")
        try:
            found[stream] = int(step)
        except ValueError:
            stream = ""
        if not stream:
            raise InvalidInputError(name="last-step", value=text, limit="STREAM=T, with a whole number T")
    return found
