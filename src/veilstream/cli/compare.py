"""``veilstream compare``: all applicable mechanisms on one public stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from veilstream.cli.options import AsJson, job_option, option
from veilstream.cli.progress import progress_bar
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.extras import drawing
from veilstream.jobs.window import steps_of_window

if TYPE_CHECKING:
    from veilstream.data.public import PublicCounts
    from veilstream.evaluate.compare import Comparison

EPSILONS: Final = ("1/10", "1/2", "1")
MOST_LINES: Final = 8


def compare(
    file: Annotated[str, typer.Argument(help="PUBLIC or synthetic CSV or Parquet: a file, directory or quoted glob.")],
    time: Annotated[str, job_option("time")],
    every: Annotated[str, job_option("every")],
    window: Annotated[
        str, option("--window", description="Steps that share the budget: 1 (event level), a number, or 'user'.")
    ],
    by: Annotated[list[str] | None, option("--by", description="Attribute to count by; repeat for several.")] = None,
    value: Annotated[
        str | None, option("--value", description="Column of counts; without it rows are counted.")
    ] = None,
    zone: Annotated[str, job_option("zone")] = "UTC",
    epsilon: Annotated[
        list[str] | None,
        option("--epsilon", description="Budget of a window; repeat for several. Default: 1/10, 1/2, 1."),
    ] = None,
    sums: Annotated[
        int | None, option("--sums", description="Publish the sums of this many last steps, not the counts of each.")
    ] = None,
    per_person: Annotated[int, typer.Option(help="Most that one person adds to the counts of a step.")] = 1,
    mechanism: Annotated[
        list[str] | None, option("--mechanism", description="Compare these alone; repeat for several.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="What decides: 'absolute', 'relative' (to the count) or 'ranges' (sums of bins).")
    ] = "absolute",
    runs: Annotated[int, typer.Option(help="Simulations of each mechanism and epsilon.")] = 5,
    workers: Annotated[int | None, typer.Option(help="Processes. Default: one per core.", show_default=False)] = None,
    out: Annotated[Path, typer.Option(help="Directory of the table, the picture and all runs.")] = Path("comparison"),
    public: Annotated[
        bool, typer.Option("--public", help="Declare FILE public or synthetic. Needed: see above.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Simulate all applicable mechanisms on a public stream and recommend one for your private stream.

    Never run this on private data: the choice of a mechanism by its error on them is a leak that no budget pays for.
    Take last year's published counts, a synthetic stream or another city's. Nothing is released or spent here.
    """
    from veilstream.data.public import read_public_counts
    from veilstream.errors import InvalidInputError
    from veilstream.evaluate.compare import REFUSAL

    if not public:
        raise InvalidInputError(f"{file}: " + REFUSAL.format(how="--public"), outcome="nothing was read")
    data = read_public_counts(
        file, time=time, every=int(every) if every.isdigit() else every, by=by or (), value=value, zone=zone
    )
    found = _run(
        data,
        tuple(epsilon or EPSILONS),
        steps_of_window(window, every),
        as_json,
        directory=out,
        sums=sums,
        per_person=per_person,
        runs=runs,
        metric=metric,
        mechanisms=mechanism,
        workers=workers,
    )
    table, picture = out / "comparison.csv", out / "comparison.png"
    _write(found, metric, table, picture, Path(file).name)
    if as_json:
        print_json(
            {
                "recommended": found.recommended,
                "parameters": repr(found.mechanism),
                "reason": found.reason,
                "ranking": found.ranking.to_dicts(),
                "outputs": [str(table), str(picture)],
            }
        )
    else:
        _tell(found, metric)
        typer.echo(f"wrote {table} and {picture}")
    return ExitCode.OK


def _run(data: PublicCounts, epsilons: tuple[str, ...], w: int | None, quiet: bool, **settings: Any) -> Comparison:
    from veilstream.evaluate.compare import compare as run

    with progress_bar("simulating", quiet) as advance:
        return run(
            data.counts,
            epsilons,
            w,
            declared_public=True,
            shape=data.domain.shape or None,
            progress=advance,
            **settings,
        )


def _tell(found: Comparison, metric: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from veilstream.jobs.wording import number

    table = Table(title=f"mean {metric} error on the public stream", title_justify="left")
    for name in ("epsilon", "mechanism", "error", "± 95 %", "× best", "released"):
        table.add_column(name, justify="left" if name == "mechanism" else "right", no_wrap=True)
    for row in found.ranking.iter_rows(named=True):
        table.add_row(
            number(row["epsilon"]),
            row["mechanism"],
            number(row[metric]),
            f"{row['high'] - row[metric]:.2g}",
            f"{row['times the best']:.3g}",
            f"{row['fresh']:.0%}",
        )
    Console().print(table)
    best = found.ranking.group_by("epsilon", maintain_order=True).first()
    for row in best.iter_rows(named=True):
        typer.echo(f"best at epsilon {number(row['epsilon'])}: {row['mechanism']}")
    typer.echo(f"recommended: {found.recommended} ({found.reason})")
    typer.echo("this is advice from a public stream; a private stream that moves otherwise may be served otherwise")


def _write(found: Comparison, metric: str, table: Path, picture: Path, name: str) -> None:
    import polars as pl

    from veilstream.evaluate.drawing import lines, panels
    from veilstream.release.sinks import replacing, write_table

    write_table([found.ranking], table)
    best = found.ranking.group_by("mechanism").agg(pl.col("times the best").log().mean()).sort("times the best")
    shown = best["mechanism"].head(MOST_LINES).to_list()
    if found.recommended not in shown:
        shown[-1] = found.recommended
    ticker: Any = drawing("ticker")
    figure, (axes,) = panels(1)
    figure.set_size_inches(8.2, 4.8)
    rows = found.table.filter(pl.col("mechanism").is_in(shown))
    labels = "epsilon", f"mean {metric} error"
    lines(axes, rows, "epsilon", by="mechanism", metric=metric, names=shown, labels=labels, log="xy", legend=False)
    ticks = sorted(found.ranking["epsilon"].unique())
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    for set_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        set_formatter(ticker.LogFormatter(minor_thresholds=(1.5, 0.7)))
    figure.legend(loc="outside right upper", fontsize=8.5)
    figure.suptitle(f"Recommended on {name}: {found.recommended}", fontsize=11.5, fontweight="bold", x=0.01, ha="left")
    with replacing(picture) as unfinished:
        figure.savefig(unfinished, dpi=150, format="png")
