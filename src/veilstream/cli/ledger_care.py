"""Looking after a ledger: verify, back up, compact, restore, start over, let others read."""

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


def backup(
    ledger: Where,
    copy: Annotated[Path, typer.Argument(help="A file that does not exist yet.", show_default=False)],
) -> None:
    """Copy an SQLite ledger as of one moment while publishers run; the copy is secret like the ledger."""
    with opened_ledger(ledger) as opened:
        opened.back_up(copy)
    typer.echo(f"wrote {copy}; to go on from it loses every step since: see docs/reliability.md", err=True)


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


def restore(
    backup: Annotated[str, typer.Argument(help="A backup, or a ledger that was put back already.", show_default=False)],
    ledger: Annotated[
        Path | None,
        typer.Argument(help="Where it is to go; left out, what was lost is recorded in place.", show_default=False),
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

    How far each stream had come is known from the marks beside LEDGER, or stated with --last-step.
    """
    from veilstream.errors import LedgerError
    from veilstream.storage.ledger.restoring import restore_file, restore_in_place

    stated = _last_steps(last_step or [])
    if ledger is None:
        with opened_ledger(backup) as opened:
            found = restore_in_place(opened, stated, apply=apply)
    else:
        if not Path(backup).is_file():
            raise LedgerError(name="backup", value=backup, limit="there is no such file", outcome="nothing was read")
        found = restore_file(Path(backup), ledger.resolve(), stated, apply=apply)
    if as_json:
        print_json({"applied": apply, "losses": [asdict(loss) for loss in found.losses], "gone": found.gone})
        return
    for loss in found.losses:
        typer.echo(str(loss))
    for name in found.gone:
        typer.echo(f"stream '{name}': it began after the backup; nothing of it is here (veilstream ledger reset)")
    if found.gone:
        typer.echo("populations: what these streams drew is not known, so that nobody can draw on their pools any more")
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
