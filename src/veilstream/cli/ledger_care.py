"""Looking after a ledger: verify, compact, start over, let others read; ``backup`` copies it and puts copies back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from veilstream.cli.ledger_opening import Json, Where, Which, chosen_streams, opened_ledger
from veilstream.cli.reporting import print_json

Apply = Annotated[bool, typer.Option("--apply", help="Do it; without this, only say what it would do.")]
DRY_RUN = "nothing was changed; to do it, add --apply"


def verify(
    ledger: Where,
    seen: Annotated[
        Path | None,
        typer.Option("--seen", help="An earlier export: refuse a ledger that is behind it.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:
    """Check every row against the chain, every state, every window by definition, the marks and the spool.

    The exit code is 4 if any is wrong.
    """
    from veilstream.cli.reporting import ExitCode
    from veilstream.live.backup import Place, disagreements
    from veilstream.storage.ledger.verifying import check_export
    from veilstream.storage.ledger.verifying import verify as verified

    with opened_ledger(ledger) as opened:
        found = verified(opened) + ([] if seen is None else check_export(opened, seen))
        names = [spec.name for spec in opened.streams()]
    found += disagreements(Place(ledger))
    if as_json:
        problems = [{"stream": finding.stream, "problem": finding.problem} for finding in found]
        print_json({"streams": names, "problems": problems})
    else:
        for finding in found:
            typer.echo(f"{finding.stream or 'ledger'}: {finding.problem}")
        typer.echo(f"{len(names)} stream(s), {len(found)} problem(s)")
    return ExitCode.LEDGER if found else ExitCode.OK


def grant(
    ledger: Where,
    role: Annotated[str, typer.Option("--role", help="A role of the server.", show_default=False)],
) -> None:
    """Let a role of PostgreSQL read releases and charges, and nothing of the mechanisms' secret state."""
    with opened_ledger(ledger) as opened:
        for statement in opened.grant_reader(role):
            typer.echo(f"{statement};")


def compact(
    ledger: Where,
    stream: Which = None,
    archive: Annotated[
        Path | None,
        typer.Option("--archive", help="Keep what is taken away in this new file.", show_default=False),
    ] = None,
    no_archive: Annotated[bool, typer.Option("--no-archive", help="Give up what is taken away.")] = False,
    releases: Annotated[
        str, typer.Option("--releases", help="keep: they stay readable here; archive: they go there as well.")
    ] = "keep",
    apply: Apply = False,
    as_json: Json = False,
) -> None:
    """Replace charges that no window can reach any more by an exact summary; by default only say what it would do.

    What is left can be verified, and the archive by itself: `veilstream ledger verify ARCHIVE`.
    """
    from veilstream.errors import InvalidInputError
    from veilstream.storage.ledger.archiving import archive as write_archive
    from veilstream.storage.ledger.compacting import compact as carry_out
    from veilstream.storage.ledger.compacting import plan_compaction

    if releases not in ("keep", "archive"):
        raise InvalidInputError(name="releases", value=releases, limit="keep or archive")
    if apply and (archive is None) != no_archive:
        raise InvalidInputError(name="archive", limit="say where to keep what is taken away, or --no-archive")
    if releases == "archive" and no_archive:
        raise InvalidInputError(name="releases", value=releases, limit="they need an archive to go to")
    with opened_ledger(ledger) as opened:
        plans = [plan_compaction(opened, spec.name) for spec in chosen_streams(opened, stream)]
        wanted = [plan for plan in plans if plan.through]
        if apply and wanted:
            if archive is not None:
                write_archive(opened, wanted, archive)
            for plan in wanted:
                carry_out(opened, plan, keep_releases=releases == "keep", archived=archive is not None)
            opened.shrink()
    if as_json:
        print_json({"applied": apply, "streams": [asdict(plan) for plan in plans]})
        return
    for plan in plans:
        typer.echo(str(plan))
    if wanted:
        typer.echo("done" if apply else DRY_RUN, err=True)


def reset(
    ledger: Where,
    stream: Annotated[str, typer.Option("--stream", help="The stream to start over.", show_default=False)],
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded.", show_default=False)],
    key_file: Annotated[str | None, typer.Option(help="Where its key is, if not beside.", show_default=False)] = None,
    apply: Apply = False,
    as_json: Json = False,
) -> None:
    """Start a stream over whose ledger is lost: everybody in it may be charged a second whole budget.

    The decision is recorded in the ledger and beside the stream's key, which is replaced by a new one.
    """
    from veilstream.storage.resetting import plan_reset
    from veilstream.storage.resetting import reset as carry_out

    plan = plan_reset(ledger, stream, key_file)
    if apply:
        carry_out(plan, reason)
    if as_json:
        print_json({"applied": apply, "stream": stream, "key_file": str(plan.key_file), "last_seen": plan.last_seen})
        return
    typer.echo(str(plan))
    typer.echo("done" if apply else DRY_RUN, err=True)
