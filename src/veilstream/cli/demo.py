"""The demo: influenza counts published privately, shown as a table, pictures and a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import polars as pl
import typer

from veilstream.cli.demo_data import DOMAIN, JOB, STREAM, bundled_data, draw, mean_errors, true_counts
from veilstream.cli.ledger_accounts import account, print_account
from veilstream.errors import InvalidInputError
from veilstream.extras import require
from veilstream.jobs.model import Job
from veilstream.jobs.prepare import PreparedJob, prepare
from veilstream.jobs.run import run
from veilstream.jobs.wording import number, promise
from veilstream.release.sinks import release_tables, write_table
from veilstream.storage.ledger import Ledger

if TYPE_CHECKING:
    from rich.console import Console

AGE: Final = "5-24"
WEEKS_AROUND_PEAK: Final = 3
WRITTEN: Final = {
    "releases.parquet": "a row per week, region and age: value, low, high",
    "releases.csv": "the same as text",
    "releases.png": "the twelve largest series as anybody may see them",
    "heatmap.png": "all fifty series",
    "releases.html": "a page to explore them, in any browser",
    "with_truth.png": "the same beside the truth (public data only)",
    "budget.db": "the ledger: veilstream ledger show budget.db",
    "budget.db.influenza.key": "which rows count; keep it with the ledger",
    "budget.db.influenza.mark": "how far the ledger was seen, so that an old copy is noticed",
}


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the results.")] = Path("demo-output"),
    population: Annotated[
        bool, typer.Option("--population", help="Three streams and a table under one budget instead.")
    ] = False,
) -> None:
    """Publish three seasons of CDC influenza counts privately: a table, pictures and a ledger."""
    from rich.console import Console

    require("matplotlib", "drawing pictures")
    console = Console(highlight=False)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(
            name="output",
            value=out,
            limit=f"no folder can be made there ({error.strerror})",
            next_step="give --out the name of a folder, new or your own",
        ) from None
    if population:
        from veilstream.cli.demo_population import demo_population

        demo_population(console, out)
        return
    with bundled_data() as data:
        paths = {"file": str(data), "ledger": str(out / "budget.db"), "out": str(out / "releases.parquet")}
        prepared = prepare(Job.build({**JOB, **paths}))
        _explain(console, prepared)
        summary = run(prepared, console.print, lambda _done, _steps: None)
        if summary.published:
            console.print(f"Released {summary.published} weeks x {prepared.bins} bins.")
        else:
            console.print(
                f"All {summary.steps} weeks were released by an earlier run into {out}; nothing was spent again. "
                "Delete the directory for a fresh start."
            )
        with Ledger.open(out / "budget.db") as ledger:
            releases = pl.concat(release_tables(ledger, STREAM, prepared.domain, prepared.calendar))
            write_table([releases], out / "releases.csv")
            truth = true_counts(data, prepared.calendar)
            draw(releases, truth, prepared.guarantee, out)
            _print_peak(console, releases)
            ours, uniform = mean_errors(releases, truth, prepared.guarantee)
            console.print(
                f"Mean error against the truth, which only public data can show: {number(ours)} a count; with noise on "
                f"every step (mechanism uniform) it would be {number(uniform)}.\n"
            )
            print_account(account(ledger, ledger.streams()[0]), last=3)
    console.print(f"\nIn {out}/:")
    for name, description in WRITTEN.items():
        console.print(f"  {name:<24} {description}")


def _explain(console: Console, prepared: PreparedJob) -> None:
    calendar = prepared.calendar
    console.print("[bold]Influenza-like illness in the United States, published privately[/bold]")
    console.print(f"CDC ILINet, {calendar.steps} weeks from {calendar.label(0)[:10]}, ten HHS regions by five ages.")
    console.print(f"Guarantee: {prepared.guarantee}. {promise(prepared.guarantee, '1w')}")
    console.print(
        "Assumed, not checked: a person is counted at most once a week (l1 = 1). The data are counts of visits, so "
        "somebody with two visits in a week has half the protection, i.e. twice the epsilon, for that week.\n"
    )


def _print_peak(console: Console, releases: pl.DataFrame) -> None:
    """One age group around the week with the highest total."""
    from rich.table import Table

    totals = releases.group_by("step", "time", maintain_order=True).agg(pl.col("value").sum())
    peak = int(totals.sort("value", descending=True)["step"][0])
    weeks = totals.filter(pl.col("step").is_between(peak - WEEKS_AROUND_PEAK, peak + WEEKS_AROUND_PEAK))
    year = weeks["time"][0].year
    table = Table(title=f"released counts of ages {AGE} around the highest week ({year})", title_justify="left")
    table.add_column("week of", style="bold", no_wrap=True)
    for moment in weeks["time"]:
        table.add_column(f"{moment:%d %b}", justify="right")
    group = releases.filter(pl.col("age") == AGE).join(weeks.select("step"), on="step").sort("step")
    for region in DOMAIN["region"]:
        table.add_row(region, *[f"{value:,.0f}" for value in group.filter(pl.col("region") == region)["value"]])
    half = releases.select(((pl.col("high") - pl.col("low")) / 2).mean()).item()
    table.caption = f"each count is within {number(half)} of the truth with probability 0.95"
    console.print(table)
