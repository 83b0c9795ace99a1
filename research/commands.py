"""The commands of ``python -m research``: list the papers' figures, and run them again."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from veilstream.cli.progress import progress_bar
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.errors import InvalidInputError

if TYPE_CHECKING:
    from research.figure import Figure, Paper
    from research.reproduce import Reproduced

DATA: Final = "VEILSTREAM_DATA"

Names = Annotated[
    list[str] | None,
    typer.Argument(help="Names of figures (dsat-2) or papers (dsat). Default: all.", show_default=False),
]
Data = Annotated[
    Path | None,
    typer.Option(help=f"Directory of real datasets. Default: ${DATA}.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; errors too.")]


def list_figures(figures: Names = None, data: Data = None, as_json: AsJson = False) -> int:
    """List the figures, and the files of real data that they lack."""
    from research.catalogue import chosen
    from research.figure import Scale, Setting

    setting = Setting(Scale.SMALL, _directory(data))
    wanted = chosen(figures or [])
    if as_json:
        print_json({figure.name: {"title": figure.title, "needs": figure.needs} for _, figure in wanted})
        return ExitCode.OK
    for _, figure in wanted:
        missing = figure.missing(setting)
        typer.echo(f"{figure.name:24} {figure.title}" + (f" (needs {', '.join(missing)})" if missing else ""))
    return ExitCode.OK


def reproduce(
    figures: Names = None,
    scale: Annotated[str, typer.Option(help="'small' (minutes) or 'paper' (as the papers, hours).")] = "small",
    out: Annotated[Path, typer.Option(help="Directory of pictures, pages and results.")] = Path("experiments"),
    data: Data = None,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: one per core.", show_default=False)] = None,
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Take finished measurements of other versions of the code too.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Run figures of the papers under this library's guarantees, draw them, and say whether their claims hold.

    Finished measurements are recorded: the same command goes on after an interruption. Those of another version of the
    code are made again. Figures that need real data are left out, by name, where the data are not there.
    """
    from research.catalogue import chosen
    from research.figure import Scale, Setting
    from research.reproduce import reproduce as run

    if scale not in list(Scale):
        raise InvalidInputError(name="scale", value=scale, limit=f"choose from {', '.join(Scale)}")
    if workers is not None and workers < 1:
        raise InvalidInputError(name="workers", value=workers, limit="at least 1 is needed")
    setting = Setting(Scale(scale), _directory(data))
    ready = partial(run, setting=setting, directory=out, workers=workers, any_code=any_code)
    results: dict[str, dict[str, str]] = {}
    for paper, figure in chosen(figures or []):
        missing = figure.missing(setting)
        if missing:
            typer.echo(f"{figure.name}: left out, {', '.join(missing)} not found (--data)", err=True)
            continue
        results[figure.name] = _one(paper, figure, ready, as_json)
    if as_json:
        print_json(results)
    return ExitCode.OK if results else ExitCode.USAGE


def _directory(data: Path | None) -> Path | None:
    return data or (Path(os.environ[DATA]) if DATA in os.environ else None)


def _one(paper: Paper, figure: Figure, run: Callable[..., Reproduced], quiet: bool) -> dict[str, str]:
    with progress_bar(figure.name, quiet) as advance:
        result = run(paper, figure, progress=advance)
    if not quiet:
        typer.echo(f"{figure.name}: the claim {result.finding.verdict}. {result.finding.explanation}")
        typer.echo(f"  {result.picture}, {result.page}, {result.results}")
    return {
        "verdict": str(result.finding.verdict),
        "explanation": result.finding.explanation,
        "picture": str(result.picture),
        "page": str(result.page),
        "results": str(result.results),
    }
