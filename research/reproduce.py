"""``python -m research reproduce``: the papers' figures, run again."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from veilstream.cli.progress import progress_bar
from veilstream.cli.reporting import ExitCode, print_json

if TYPE_CHECKING:
    from research.experiments import Figure, Paper, Setting
    from research.experiments.reproduce import Reproduced

DATA: Final = "VEILSTREAM_DATA"


def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(help="Names of figures (dsat-2) or papers (dsat). Default: all.", show_default=False),
    ] = None,
    scale: Annotated[str, typer.Option(help="'small' (minutes) or 'paper' (as the papers, hours).")] = "small",
    out: Annotated[Path, typer.Option(help="Directory of pictures, pages and results.")] = Path("experiments"),
    data: Annotated[
        Path | None,
        typer.Option(help=f"Directory of real datasets. Default: ${DATA}.", show_default=False),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: one per core.", show_default=False)] = None,
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Take finished measurements of other versions of the library too.")
    ] = False,
    list_only: Annotated[bool, typer.Option("--list", help="List the figures and run nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; errors too.")] = False,
) -> int:
    """Run figures of the papers under this library's guarantees, draw them, and say whether their claims hold.

    Finished measurements are kept: the same command goes on after an interruption. Those of another version of the
    library are made again. Figures that need real data are left out, by name, where the data are not there.
    """
    from research.experiments import Scale, Setting, chosen
    from research.experiments import reproduce as run
    from veilstream.errors import InvalidInputError

    if scale not in list(Scale):
        raise InvalidInputError(name="scale", value=scale, limit=f"choose from {', '.join(Scale)}")
    if workers is not None and workers < 1:
        raise InvalidInputError(name="workers", value=workers, limit="at least 1 is needed")
    place = data or (Path(os.environ[DATA]) if DATA in os.environ else None)
    setting = Setting(Scale(scale), place)
    wanted = chosen(figures or [])
    if list_only:
        return _tell(wanted, setting, as_json)
    ready = partial(run, setting=setting, directory=out, workers=workers, any_code=any_code)
    done: dict[str, dict[str, str]] = {}
    for paper, figure in wanted:
        missing = figure.missing(setting)
        if missing:
            typer.echo(f"{figure.name}: left out, {', '.join(missing)} not found (--data)", err=True)
            continue
        done[figure.name] = _one(paper, figure, ready, as_json)
    if as_json:
        print_json(done)
    return ExitCode.OK if done else ExitCode.USAGE


def _one(paper: Paper, figure: Figure, run: Callable[..., Reproduced], quiet: bool) -> dict[str, str]:
    with progress_bar(figure.name, quiet) as advance:
        result = run(paper, figure, progress=advance)
    if not quiet:
        typer.echo(f"{figure.name}: the claim {result.finding.verdict}. {result.finding.words}")
        typer.echo(f"  {result.picture}, {result.page}, {result.results}")
    return {
        "verdict": str(result.finding.verdict),
        "words": result.finding.words,
        "picture": str(result.picture),
        "page": str(result.page),
        "results": str(result.results),
    }


def _tell(wanted: list[tuple[Paper, Figure]], setting: Setting, as_json: bool) -> int:
    if as_json:
        print_json({figure.name: {"title": figure.title, "needs": figure.needs} for _, figure in wanted})
        return ExitCode.OK
    for _, figure in wanted:
        missing = figure.missing(setting)
        typer.echo(f"{figure.name:24} {figure.title}" + (f" (needs {', '.join(missing)})" if missing else ""))
    return ExitCode.OK
