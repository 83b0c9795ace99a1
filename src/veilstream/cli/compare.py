"""``veilstream compare``: all applicable mechanisms on one public stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from veilstream.cli.options import AsJson, job_option, option
from veilstream.cli.progress import progress_bar
from veilstream.cli.reporting import ExitCode, print_json
from veilstream.jobs.window import steps_of_window

if TYPE_CHECKING:
    from veilstream.data.measures import ValueMeasures
    from veilstream.data.public import PublicCounts
    from veilstream.evaluate.compare import Comparison

EPSILONS: Final = ("1/10", "1/2", "1")
MOST_ROWS: Final = 8


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
    measure: Annotated[
        str | None,
        option("--measure", description="What to compare of the column --value, e.g. mean=0..100; not its counts."),
    ] = None,
    smooth: Annotated[
        bool, option("--smooth/--no-smooth", description="With a median: lean on earlier releases, as publish does.")
    ] = True,
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
    histogram: Annotated[
        list[str] | None,
        option(
            "--histogram", description="Histograms for the best mechanism; repeatable, 'none' for none. Default: all."
        ),
    ] = None,
    time_format: Annotated[str | None, job_option("time_format")] = None,
    delimiter: Annotated[str | None, job_option("delimiter")] = None,
    encoding: Annotated[str | None, job_option("encoding")] = None,
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
    from veilstream.data import ReadOptions
    from veilstream.data.public import read_public_counts
    from veilstream.errors import InvalidInputError
    from veilstream.evaluate.compare import REFUSAL
    from veilstream.evaluate.comparison_picture import draw_comparison
    from veilstream.jobs.command import publish_command
    from veilstream.jobs.measured import measures_of_texts
    from veilstream.release.sinks import write_table

    if not public:
        raise InvalidInputError(
            name="public",
            limit=REFUSAL.format(how="--public"),
            outcome="nothing was read",
            next_step="if the file is public, declare it with --public",
        )
    measures = None if measure is None else measures_of_texts([measure])
    data = read_public_counts(
        file,
        time=time,
        every=int(every) if every.isdigit() else every,
        by=by or (),
        value=value,
        zone=zone,
        options=ReadOptions(delimiter, encoding, time_format=time_format),
        measures=measures,
    )
    w = steps_of_window(window, every)
    found = _run(
        data,
        tuple(epsilon or EPSILONS),
        w,
        as_json,
        directory=out,
        sums=sums,
        per_person=per_person,
        runs=runs,
        metric=metric,
        mechanisms=mechanism,
        histograms=[] if histogram == ["none"] else histogram,
        workers=workers,
        measures=measures,
        smooth=smooth,
    )
    table, picture = out / "comparison.csv", out / "comparison.png"
    write_table([found.ranking], table)
    draw_comparison(found, metric, picture, Path(file).name, measure)
    command = publish_command(
        found.recommended,
        every=every,
        window=w,
        epsilon=epsilon[0] if epsilon and len(epsilon) == 1 else "EPSILON",
        sums=sums,
        per_person=per_person,
        counted_before=value is not None and measure is None,
        measured="" if measure is None else _asked(measure, value, smooth),
    )
    if as_json:
        print_json(
            {
                "recommended": found.recommended,
                "parameters": repr(found.mechanism),
                "reason": found.reason,
                "command": command,
                "ranking": found.ranking.to_dicts(),
                "outputs": [str(table), str(picture)],
            }
        )
    else:
        _tell(found, metric, measure)
        typer.echo(f"wrote {table} and {picture}")
        typer.echo(f"to publish your private stream (words in capitals are yours):\n\n  {command}\n")
    return ExitCode.OK


def _run(data: PublicCounts, epsilons: tuple[str, ...], w: int | None, quiet: bool, **settings: Any) -> Comparison:
    from veilstream.evaluate.compare import compare as run

    with progress_bar("simulating", quiet) as advance:
        return run(
            data.counts,
            epsilons,
            w,
            declared_public=True,
            shape=_shape(data, settings["measures"]),
            progress=advance,
            **settings,
        )


def _shape(data: PublicCounts, measures: ValueMeasures | None) -> tuple[int, ...] | None:
    return (data.domain.shape or None) if measures is None else (*data.domain.shape, measures.parts)


def _asked(measure: str, column: str | None, smooth: bool) -> str:
    """The options of ``publish`` for what was compared."""
    statistic, ends = measure.split("=", 1)
    low, high = ends.split("..", 1)
    plain = " --no-smooth" if not smooth and statistic.strip() == "median" else ""
    return f"--{statistic.strip()} {column} --between {low.strip()} {high.strip()}{plain}"


def _tell(found: Comparison, metric: str, measure: str | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from veilstream.evaluate.comparison_picture import name_of_error
    from veilstream.jobs.wording import number

    table = Table(title=f"{name_of_error(metric, measure)}, on the public stream", title_justify="left")
    for name in ("epsilon", "mechanism", "error", "± 95 %", "× best", "released"):
        table.add_column(name, justify="left" if name == "mechanism" else "right", no_wrap=True)
    for row in found.ranking.group_by("epsilon", maintain_order=True).head(MOST_ROWS).iter_rows(named=True):
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
    if found.ranking["mechanism"].n_unique() > MOST_ROWS:
        typer.echo(f"the best {MOST_ROWS} of each epsilon are shown, all are in the table that is written")
    typer.echo(f"recommended: {found.recommended} ({found.reason})")
    typer.echo("this is advice from a public stream; a private stream that moves otherwise may be served otherwise")
