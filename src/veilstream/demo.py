"""Three seasons of influenza in ten regions, published privately week by week: the whole way in one function."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from veilstream.cli.ledgers import account, print_account
from veilstream.cli.plan import Plan, make_plan
from veilstream.cli.publishing import run
from veilstream.cli.words import number, promise
from veilstream.config import Job
from veilstream.errors import InvalidInput
from veilstream.ledger import Ledger
from veilstream.plots import plot_releases
from veilstream.sinks import release_tables, write_table

if TYPE_CHECKING:
    from rich.console import Console

DATA: Final = "ilinet_regions.csv.gz"
STREAM: Final = "influenza"
DOMAIN: Final[dict[str, list[str]]] = {
    "region": [f"Region {number}" for number in range(1, 11)],
    "age": ["0-4", "5-24", "25-49", "50-64", "65+"],
}
TRUTH_NOTE: Final = "true counts: shown only because this is public demo data"
SHOWN_WEEKS: Final = 6


def run_demo(out: Path) -> None:
    """Publish the bundled CDC counts into ``out``: tables, pictures and the ledger that knows what was spent."""
    from rich.console import Console

    console = Console(highlight=False)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"output {out}: {error.strerror}; nothing was released") from None
    with ExitStack() as stack:
        data = stack.enter_context(as_file(files("veilstream") / "data" / DATA))
        plan = make_plan(_job(data, out))
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
            _draw(plan, releases, _truth(data, plan), out)
            _print_table(console, releases)
            print_account(account(ledger, ledger.streams()[0]), last=3)
    console.print(f"\nIn {out}/:")
    for name, words in WRITTEN.items():
        console.print(f"  {name:<24} {words}")


WRITTEN: Final = {
    "releases.parquet": "a row per week, region and age: value, low, high",
    "releases.csv": "the same as text",
    "releases.png": "the twelve largest series as anybody may see them",
    "heatmap.png": "all fifty series",
    "with_truth.png": "the same beside the truth (public data only)",
    "budget.db": "the ledger: veilstream ledger show budget.db",
    "budget.db.influenza.key": "which time a step is; keep it with the ledger",
}


def _job(data: Path, out: Path) -> Job:
    return Job.build(
        {
            "file": str(data),
            "time": "week_start",
            "value": "visits",
            "per_person": 1,
            "domain": DOMAIN,
            "every": "1w",
            "start": "2021-10-03",
            "end": "2024-09-29",
            "epsilon": "1/4",
            "window": 52,
            "mechanism": "uniform",
            "stream": STREAM,
            "ledger": str(out / "budget.db"),
            "out": str(out / "releases.parquet"),
        }
    )


def _explain(console: Console, plan: Plan) -> None:
    console.print("[bold]Influenza-like illness in the United States, published under differential privacy[/bold]")
    console.print(
        f"CDC ILINet, {plan.calendar.steps} weeks from {plan.calendar.label(0)[:10]}, ten HHS regions by five ages."
    )
    console.print(f"Guarantee: {plan.guarantee}. {promise(plan.guarantee, '1w')}")
    console.print(
        "Assumed, not checked: a person is counted at most once a week (l1 = 1). The data are counts of visits, so "
        "somebody with two visits in a week has half the protection, i.e. twice the epsilon, for that week.\n"
    )


def _truth(data: Path, plan: Plan) -> pl.DataFrame:
    """The exact counts, which only public data may show."""
    frame = pl.read_csv(data)
    steps = plan.calendar.step_of(frame["week_start"])
    return frame.select("region", "age", pl.col("visits").alias("value"), pl.Series("step", steps))


def _draw(plan: Plan, releases: pl.DataFrame, truth: pl.DataFrame, out: Path) -> None:
    write_table([releases], out / "releases.csv")
    title = "Weekly visits for influenza-like illness"
    words = f"CDC ILINet; {plan.guarantee} (weeks); the 12 largest of {plan.bins} region and age groups"
    plot_releases(releases, out / "releases.png", title=title, subtitle=words, heat_map=False)
    plot_releases(releases, out / "heatmap.png", title=title, subtitle=f"CDC ILINet; {plan.guarantee} (weeks)")
    plot_releases(
        releases,
        out / "with_truth.png",
        title=title,
        subtitle=words,
        heat_map=False,
        truth=truth,
        truth_note=TRUTH_NOTE,
    )


def _print_table(console: Console, releases: pl.DataFrame) -> None:
    """One age group around the highest week."""
    from rich.table import Table

    totals = releases.group_by("step", "time", maintain_order=True).agg(pl.col("value").sum())
    peak = int(totals.sort("value", descending=True)["step"][0])
    weeks = totals.filter(pl.col("step").is_between(peak - SHOWN_WEEKS // 2, peak + SHOWN_WEEKS // 2))
    peak_year = weeks["time"][0].year
    table = Table(title=f"released counts of ages 5-24 around the highest week ({peak_year})", title_justify="left")
    table.add_column("week of", style="bold", no_wrap=True)
    for moment in weeks["time"]:
        table.add_column(f"{moment:%d %b}", justify="right")
    for region in DOMAIN["region"]:
        cells = releases.filter(
            (pl.col("region") == region) & (pl.col("age") == "5-24") & pl.col("step").is_in(weeks["step"].implode())
        ).sort("step")
        shown = [f"{row['value']:,}" for row in cells.iter_rows(named=True)]
        table.add_row(region, *shown)
    half = releases.select(((pl.col("high") - pl.col("low")) / 2).mean()).item()
    table.caption = f"each count is within {number(half)} of the truth with probability 0.95"
    console.print(table)
