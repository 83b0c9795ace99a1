"""The demo: influenza counts published privately, shown as a table, pictures and a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from veilstream.cli.demo_data import DOMAIN, JOB, STREAM, bundled_data, draw, true_counts
from veilstream.cli.job import Job
from veilstream.cli.ledgers import account, print_account
from veilstream.cli.plan import Plan, make_plan
from veilstream.cli.publishing import run
from veilstream.cli.words import number, promise
from veilstream.errors import InvalidInputError
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
    "budget.db.influenza.key": "which time a step is; keep it with the ledger",
}


def run_demo(out: Path) -> None:
    """Publish the bundled CDC counts into ``out``: tables, pictures and the ledger that knows what was spent."""
    from rich.console import Console

    console = Console(highlight=False)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(name="output", value=out, limit=f"{error.strerror}") from None
    with bundled_data() as data:
        paths = {"file": str(data), "ledger": str(out / "budget.db"), "out": str(out / "releases.parquet")}
        plan = make_plan(Job.build({**JOB, **paths}))
        _explain(console, plan)
        summary = run(plan, console.print, lambda _done, _steps: None)
        if summary.published:
            console.print(f"Released {summary.published} weeks x {plan.bins} bins.")
        else:
            console.print(
                f"All {summary.steps} weeks were released by an earlier run into {out}; nothing was spent again. "
                "Delete the directory for a fresh start."
            )
        with Ledger.open(out / "budget.db") as ledger:
            releases = pl.concat(release_tables(ledger, STREAM, plan.domain, plan.calendar))
            write_table([releases], out / "releases.csv")
            draw(releases, true_counts(data, plan.calendar), plan.guarantee, out)
            _print_peak(console, releases)
            print_account(account(ledger, ledger.streams()[0]), last=3)
    console.print(f"\nIn {out}/:")
    for name, words in WRITTEN.items():
        console.print(f"  {name:<24} {words}")


def _explain(console: Console, plan: Plan) -> None:
    calendar = plan.calendar
    console.print("[bold]Influenza-like illness in the United States, published privately[/bold]")
    console.print(f"CDC ILINet, {calendar.steps} weeks from {calendar.label(0)[:10]}, ten HHS regions by five ages.")
    console.print(f"Guarantee: {plan.guarantee}. {promise(plan.guarantee, '1w')}")
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
        table.add_row(region, *[f"{value:,}" for value in group.filter(pl.col("region") == region)["value"]])
    half = releases.select(((pl.col("high") - pl.col("low")) / 2).mean()).item()
    table.caption = f"each count is within {number(half)} of the truth with probability 0.95"
    console.print(table)
