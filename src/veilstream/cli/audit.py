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

    A pass is no proof: it says that this attack, with so many runs, found no more than was claimed.
    """
    from veilstream.audit.catalogue import AUDITS
    from veilstream.audit.deep import audit as run
    from veilstream.audit.deep import write_table
    from veilstream.errors import InvalidInputError
    from veilstream.privacy.rationals import rational

    if list_only:
        return _tell_names(AUDITS, as_json)
    part: Fraction = rational(share, "share")
    if not 0 < confidence < 1 or (workers is not None and workers < 1):
        raise InvalidInputError(f"confidence {confidence} and workers {workers}: between 0 and 1, and at least 1")
    with ExitStack() as stack:
        directory = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        audited = run(
            mechanisms or [],
            directory,
            trials=trials,
            deep=deep,
            share=part,
            seed=seed,
            confidence=confidence,
            workers=workers,
            progress=stack.enter_context(progress_bar("attacking", as_json)),
        )
    if page is not None:
        write_table(audited, page)
    _tell(audited, as_json)
    return ExitCode.OK if all(claim.result.passed for claim in audited) else ExitCode.BUDGET


def _tell_names(names: Any, as_json: bool) -> int:
    if as_json:
        print_json({"mechanisms": list(names)})
    else:
        typer.echo("\n".join(names))
    return ExitCode.OK


def _tell(audited: list[AuditedClaim], as_json: bool) -> None:
    if not as_json:
        for claim in audited:
            typer.echo(f"{claim.mechanism}: {claim.result}")
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
    print_json({"findings": rows})
