"""What each stream of a ledger promised and spent, and what all of them cost together."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

import typer

from veilstream.documents import read_json

if TYPE_CHECKING:
    from veilstream.privacy.charge import Charge
    from veilstream.privacy.guarantee import Guarantee
    from veilstream.storage.ledger import Ledger, StreamSpec


def account(ledger: Ledger, spec: StreamSpec) -> dict[str, Any]:
    """What one stream promised and spent.

    ``windows`` has an entry per released step: what the fullest window that ends there had spent and had left.
    ``charges`` sums what was bought, by purpose and outcome.
    """
    from veilstream.mechanisms.session import newly_spent
    from veilstream.privacy.guarantee import Guarantee

    guarantee = Guarantee.from_json(spec.guarantee)
    mechanism = spec.recorded_mechanism()
    words, promised = _in_words(guarantee, mechanism)
    windows = [
        {
            "t": release.t,
            "fresh": release.fresh,
            "spent_at_step": str(release.spent),
            "spent_in_window": str(guarantee.epsilon - release.left),
            "left_in_window": str(release.left),
        }
        for release in ledger.releases(spec.name)
    ]
    bought: dict[tuple[str, str, bool], tuple[int, Fraction]] = {}
    for _, rows in groupby(ledger.charges(spec.name), key=lambda row: row.t):
        together: dict[tuple[str, str, bool], list[Charge]] = {}
        for row in rows:
            together.setdefault((row.charge.purpose, row.outcome, row.charge.bins is not None), []).append(row.charge)
        for kind, charges in together.items():
            count, cost = bought.get(kind, (0, Fraction(0)))
            bought[kind] = count + len(charges), cost + newly_spent(charges, guarantee)
    return {
        "stream": spec.name,
        "guarantee": read_json(spec.guarantee),
        "guarantee_in_words": words,
        "promise": promised,
        "mechanism": mechanism,
        "bins": spec.bins,
        "l1": spec.max_contribution,
        "releases": len(windows),
        "charges": [
            {"purpose": purpose, "outcome": outcome, "of_some_bins": some, "count": count, "epsilon": str(cost)}
            for (purpose, outcome, some), (count, cost) in bought.items()
        ],
        "windows": windows,
        "fullest_window": str(_fullest(windows, guarantee, any(outcome == "lost" for _, outcome, _ in bought))),
    }


def _fullest(windows: list[dict[str, Any]], guarantee: Guarantee, lost: bool) -> Fraction:
    """What the fullest window that ended with a release has spent; lost steps count as all of it."""
    spent = [Fraction(window["spent_in_window"]) for window in windows]
    return guarantee.epsilon if lost else max(spent, default=Fraction(0))


def total(accounts: list[dict[str, Any]]) -> dict[str, Any]:
    """What one person who is in all of these streams has paid at most: the fullest window of each, added up.

    Releases of points are left out: what they promise is about places, unless they are about a number of people.
    """
    counted = [seen for seen in accounts if _about_people(*_name_and_settings(seen["mechanism"]))]
    return {
        "streams": len(counted),
        "epsilon": str(sum((Fraction(seen["fullest_window"]) for seen in counted), Fraction(0))),
        "promised": str(sum((Fraction(seen["guarantee"]["epsilon"]) for seen in counted), Fraction(0))),
    }


def print_total(accounts: list[dict[str, Any]]) -> None:
    """The same for a person, where there is more than one stream."""
    from veilstream.jobs.wording import number

    seen = total(accounts)
    if seen["streams"] > 1:
        spent, promised = number(Fraction(seen["epsilon"])), number(Fraction(seen["promised"]))
        typer.echo(
            f"together: if these {seen['streams']} streams are about the same people, their fullest windows cost one "
            f"person epsilon {spent} so far, and {promised} at most"
        )


def _about_people(name: str, settings: dict[str, Any]) -> bool:
    return not name.endswith("PointRelease") or settings.get("people") is not None


def _in_words(guarantee: Guarantee, mechanism: dict[str, Any]) -> tuple[str, str]:
    """The guarantee and its promise; of points that move, where the unit is a move and not a person, in those terms."""
    from veilstream.jobs.wording import promise
    from veilstream.metric import MetricGuarantee
    from veilstream.metric.release import person_words

    name, settings = _name_and_settings(mechanism)
    if name.endswith("PointRelease"):
        metric, people = MetricGuarantee.from_record(settings["metric"]), settings.get("people")
        return (str(metric), metric.promise()) if people is None else person_words(metric, guarantee, people)
    return str(guarantee), promise(guarantee)


def _name_and_settings(mechanism: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Of a recorded mechanism; schema 0001 gave the class and all settings side by side."""
    if "class" in mechanism:
        return mechanism["class"], {name: value for name, value in mechanism.items() if name != "class"}
    return mechanism["name"], mechanism["set"]


def _setting(value: Any) -> str:
    match value:
        case {"class": name} | {"name": name, "set": _}:
            return str(name)
        case _:
            return str(value)


def print_account(seen: dict[str, Any], last: int) -> None:
    """One stream's account for a person."""
    from veilstream.jobs.wording import number, plural

    name, given = _name_and_settings(seen["mechanism"])
    settings = ", ".join(f"{setting}={_setting(value)}" for setting, value in given.items())
    typer.echo(f"stream '{seen['stream']}': {seen['guarantee_in_words']}")
    typer.echo(f"  {seen['promise']}")
    typer.echo(
        f"  mechanism {name}({settings}); {plural(seen['bins'], 'bin')}; one person adds at most {seen['l1']} per step"
    )
    spent = [
        (row["purpose"], row["outcome"], f"{row['count']:,}", number(Fraction(row["epsilon"])))
        for row in seen["charges"]
    ]
    print_table(
        f"charged to '{seen['stream']}', all windows together",
        ("purpose", "outcome", "charges", "sum of epsilon"),
        spent,
    )
    if any(row["of_some_bins"] for row in seen["charges"]):
        typer.echo("  charges that name bins count for those bins alone: their sum is more than anybody has paid")
    rows = [
        (
            str(row["t"]),
            "fresh" if row["fresh"] else "repeated",
            number(Fraction(row["spent_at_step"])),
            number(Fraction(row["spent_in_window"])),
            number(Fraction(row["left_in_window"])),
        )
        for row in seen["windows"][-last:]
    ]
    shown = f"the latest {len(rows):,} of {seen['releases']:,} releases"
    print_table(shown, ("step", "release", "spent at step", "spent in its window", "left in its window"), rows)


def print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("purpose", "outcome", "release", "stream") else "right")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)
