"""The demo of populations: three streams of different step lengths and a synthetic table under one promise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from veilstream.cli.budget import print_statement
from veilstream.data import Grid
from veilstream.errors import BudgetExceededError
from veilstream.jobs.call import publish
from veilstream.privacy.population import Membership, Population
from veilstream.release.budget import BudgetStatement
from veilstream.release.budget_picture import write_picture
from veilstream.release.officer_page import write_officer_page
from veilstream.storage.ledger import Ledger
from veilstream.synthesis import TableDomain, fit

if TYPE_CHECKING:
    from rich.console import Console

START: Final = datetime(2026, 3, 2, tzinfo=UTC)
DAYS: Final = 14
PEOPLE: Final = 1500
PLACES: Final = ("harbour", "market", "station", "park")
RESIDENTS: Final = Population("residents", 2, window="7d", every="1d")
WRITTEN: Final = {
    "population.db": "the ledger: veilstream budget population.db",
    "budget.png": "what every window of seven days cost, under the cap",
    "officer.html": "the page for the privacy officer, with every release",
    "people.parquet": "rows drawn from the synthetic table",
}


def made_up_visits() -> pl.DataFrame:
    """Visits of people who do not exist, the same in every run.

    >>> made_up_visits().columns
    ['person', 'time', 'place', 'age']
    """
    rows = [
        (person, START + timedelta(days=day, hours=8 + (31 * person + 17 * day) % 12), place, 5 + 37 * person % 80)
        for person in range(PEOPLE)
        for day in range(DAYS)
        if (7919 * person + 104729 * day) % 5 < 3
        for place in [PLACES[(person + day * (person % 3)) % 4]]
    ]
    return pl.DataFrame(rows, schema=["person", "time", "place", "age"], orient="row")


def publish_for_residents(ledger: Path, visits: pl.DataFrame) -> TableDomain:
    """Three streams and a table, each drawing on the one budget."""
    common: dict[str, Any] = {
        "user": "person",
        "time": "time",
        "start": START.date(),
        "end": START.date() + timedelta(days=DAYS),
        "ledger": ledger,
        "population": RESIDENTS.name,
    }
    places, ages = {"place": list(PLACES)}, {"age": {"edges": [0, 18, 65, 100]}}
    publish(
        visits,
        by=["place"],
        domain=places,
        every="6h",
        epsilon="1/2",
        window=28,
        stream="six-hourly",
        draw="reserved",
        **common,
    )
    publish(visits, by=["place"], domain=places, every="1d", epsilon="1/2", window=7, stream="daily", **common)
    publish(visits, by=["age"], domain=ages, every="1w", epsilon="1/4", window=1, stream="weekly", **common)
    return TableDomain({"age": Grid(0, 100, 20), "visits": Grid(0, DAYS + 1, DAYS + 1)})


def demo_population(console: Console, out: Path) -> None:
    """Publish, show the budget, and have an over-draw refused."""
    visits = made_up_visits()
    people = visits.group_by("person", maintain_order=True).agg(pl.col("age").first(), pl.len().alias("visits"))
    ledger = out / "population.db"
    console.print("[bold]One budget for a population[/bold]")
    console.print(f"{PEOPLE:,} made-up people in {len(PLACES)} places over {DAYS} days. Promised: {RESIDENTS}.\n")
    with Ledger.open(ledger) as book:
        book.populations.define(RESIDENTS)
    table = publish_for_residents(ledger, visits)
    fortnight = (START.isoformat(), (START + timedelta(days=DAYS)).isoformat())
    member = Membership(RESIDENTS.name, data=fortnight)
    with Ledger.open(ledger) as book:
        model = fit(people, table, "1/4", ledger=book, name="people", user="person", population=member)
        model.sample(seed=1).write_parquet(out / "people.parquet")
        statement = BudgetStatement.of(book, RESIDENTS.name)
        print_statement(statement)
        write_picture(statement, out / "budget.png")
        made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        write_officer_page([statement], out / "officer.html", ledger=ledger.name, made=made)
        console.print("\nA second table for epsilon 1 would be too much:")
        try:
            fit(people, table, 1, ledger=book, name="second table", user="person", population=member)
        except BudgetExceededError as refused:
            console.print(f"refused: {refused}\nnext step: {refused.next_step}", markup=False)
    console.print(f"\nIn {out}/:")
    for name, description in WRITTEN.items():
        console.print(f"  {name:<24} {description}")
