"""``veilstream audit``: attack privacy claims."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilstream.cli.options import AsJson
from veilstream.cli.progress import progress_bar
from veilstream.cli.reporting import ExitCode, print_json

if TYPE_CHECKING:
    from veilstream.audit.deep import AuditedClaim
    from veilstream.audit.exact.search import ProgramAudit

ACCOUNTANT = "accountant"
"""The name under which the exact losses of random programs are audited."""
QUICK_PROGRAMS, DEEP_PROGRAMS = 200, 20_000


def audit(
    mechanisms: Annotated[
        list[str] | None,
        typer.Argument(metavar="MECHANISM...", help="Names as in --list. Default: all.", show_default=False),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Runs with and without the person. Default: seconds' worth.", show_default=False)
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="As many runs as for the page on privacy: minutes.")] = False,
    share: Annotated[str, typer.Option(help="Part of the planned runs to make, e.g. 1/10.")] = "1",
    confidence: Annotated[float, typer.Option(help="Of every bound.")] = 0.999,
    seed: Annotated[int, typer.Option(help="Another seed, other runs.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Directory that keeps finished attacks: run again to go on.", show_default=False)
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Markdown page whose table to write, between its markers.", show_default=False)
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: one per core.", show_default=False)] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List what can be audited and run nothing.")] = False,
    as_json: AsJson = False,
) -> int:
    """Try to refute the privacy claims of mechanisms: a lower bound on epsilon above the claim is a failure (exit 3).

    A pass is no proof: it says that this attack, with so many runs, found no more than was claimed. "accountant" is the
    exact loss of random programs (as many as --trials), against what the accountant admits.
    """
    from veilstream.audit.catalogue import AUDITS
    from veilstream.audit.deep import audit as run
    from veilstream.audit.deep import write_table
    from veilstream.audit.exact.search import attack_in_parallel
    from veilstream.errors import InvalidInputError
    from veilstream.privacy.rationals import rational

    if list_only:
        return _tell_names([*AUDITS, ACCOUNTANT], as_json)
    part: Fraction = rational(share, "share")
    if not 0 < confidence < 1 or (workers is not None and workers < 1):
        raise InvalidInputError(f"confidence {confidence} and workers {workers}: between 0 and 1, and at least 1")
    named = mechanisms or [*AUDITS, ACCOUNTANT]
    others = [name for name in named if name != ACCOUNTANT]
    audited: list[AuditedClaim] = []
    programs: ProgramAudit | None = None
    with ExitStack() as stack:
        progress = stack.enter_context(progress_bar("attacking", as_json))
        if others:
            directory = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            audited = run(
                others,
                directory,
                trials=trials,
                deep=deep,
                share=part,
                seed=seed,
                confidence=confidence,
                workers=workers,
                progress=progress,
            )
        if ACCOUNTANT in named:
            planned = max(1, int((DEEP_PROGRAMS if deep else QUICK_PROGRAMS) * part))
            programs = attack_in_parallel(trials or planned, seed, workers)
    if page is not None:
        write_table(audited, page)
    _tell(audited, programs, as_json)
    passed = all(claim.result.passed for claim in audited) and (programs is None or programs.passed)
    return ExitCode.OK if passed else ExitCode.BUDGET


def _tell_names(names: Any, as_json: bool) -> int:
    if as_json:
        print_json({"mechanisms": list(names)})
    else:
        typer.echo("\n".join(names))
    return ExitCode.OK


def _tell(audited: list[AuditedClaim], programs: ProgramAudit | None, as_json: bool) -> None:
    if not as_json:
        for claim in audited:
            typer.echo(f"{claim.mechanism}: {claim.result}")
        if programs is not None:
            typer.echo(f"{ACCOUNTANT}: {programs}")
        return
    rows = [
        {
            "mechanism": claim.mechanism,
            "claim": claim.result.claim,
            "claimed": str(claim.result.epsilon),
            "bound": claim.result.bound.epsilon,
            "event": claim.result.bound.event,
            "hits": [claim.result.bound.left_hits, claim.result.bound.right_hits],
            "trials": claim.result.bound.trials,
            "passed": claim.result.passed,
        }
        for claim in audited
    ]
    answer: dict[str, Any] = {"findings": rows}
    if programs is not None:
        answer[ACCOUNTANT] = {
            "programs": programs.programs,
            "largest": programs.largest,
            "attacked": dict(programs.attacked),
            "refutations": [str(refutation) for refutation in programs.refutations],
            "passed": programs.passed,
        }
    print_json(answer)
