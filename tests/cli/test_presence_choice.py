"""``veilstream presence``: a c that is chosen is charged once, recorded, and shown again for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from veilstream.errors import InvalidInputError
from veilstream.jobs.advice import advise
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.verifying import verify

from .support import Outcome, overridden, veilstream

DAYS = 12
RANGE = ("--time", "day", "--user", "id", "--every", "1d", "--start", "2024-01-01", "--end", f"2024-01-{DAYS + 1}")


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Three thousand people who come once in six days: two of them a day would need as much noise as all.

    The choice is another one only where noise makes up five people, whose scale is a tenth of one at an epsilon of 40
    (and not half of one at the 10 of renewals): a chance below 1e-9.
    """
    lines = [f"p{who},2024-01-{day + 1:02d}" for who in range(3000) for day in (who % 6, 6 + who % 6)]
    file = tmp_path / "visits.csv"
    file.write_text("\n".join(["id,day", *lines]) + "\n")
    return file


def choose(visits: Path, *more: object) -> Outcome:
    ledger = visits.parent / "budget.db"
    return veilstream("presence", "choose", visits, *RANGE, "--ledger", ledger, "--publish-epsilon", 1, *more)


@pytest.mark.parametrize(
    "promise", [("--window", 6), ("--per", "6d"), ("--window", "user", "--horizon", 12)], ids=["window", "per", "ever"]
)
def test_a_choice_is_charged_once_and_ends_in_options_to_paste(visits: Path, promise: tuple[object, ...]) -> None:
    picture = visits.parent / "presence.png"
    told = choose(visits, *promise, "--epsilon", 40, "--most", 4, "--plot", picture)
    assert told.code == 0, told.err
    c = 2 if "user" in promise else 1
    assert f"to publish: {promise[0]} {promise[1]} --presence {c}" in told.out
    assert "spent: epsilon 40" in told.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = choose(visits, *promise, "--epsilon", 40, "--most", 4, "--json").json
    assert again["released_before"] is True
    assert again["presence"] == c
    assert again["errors"][c - 1] < again["error_without"]
    with Ledger.open(visits.parent / "budget.db") as ledger:
        (spec,) = ledger.streams()
        assert spec.name == "presence"
        assert verify(ledger) == []


def test_regulars_are_told_that_no_bound_pays(tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text(
        "\n".join(["id,day", *(f"p{w},2024-01-{day:02d}" for w in range(900) for day in range(1, 13))]) + "\n"
    )
    told = choose(file, "--window", 6, "--epsilon", 40, "--most", 6)
    assert told.code == 0, told.err
    assert "no bound on presence pays" in told.out


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ((), "window"),
        (("--window", 3, "--per", 3), "window"),
        (("--window", "user"), "horizon"),
        (("--window", 3, "--horizon", 9), "horizon"),
        (("--window", 5), "end"),
        (("--window", 3, "--most", 0), "most"),
        (("--window", 3, "--most", 2**64), "most"),
        (("--window", 3, "--counts-per-user", 0), "steps"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(
    visits: Path, more: tuple[object, ...], name: str
) -> None:
    refused = choose(visits, *more, "--json")
    assert refused.code == 2
    assert refused.json["error"]["name"] == name
    assert not (visits.parent / "budget.db").exists()


def renew(visits: Path, *more: object) -> Outcome:
    ledger = visits.parent / "budget.db"
    usual = ("--epsilon", 1, "--per", 3, "--presence", 2, "--blocks", 2, "--mechanism", "uniform", "--ledger", ledger)
    return veilstream("presence", "renew", visits, *overridden([*RANGE, *usual], *more))


def test_a_renewal_is_recorded_and_its_table_goes_over_all_epochs(visits: Path) -> None:
    out, picture = visits.parent / "out.csv", visits.parent / "out.png"
    told = renew(visits, "--choice-epsilon", 10, "--stream", "s", "--out", out, "--plot", picture, "--json")
    assert told.code == 0, told.err
    found: dict[str, Any] = told.json
    assert found["epochs"] == ["s.0", "s.1"]
    assert found["presence"] == [2, 1]
    assert found["published"] == DAYS
    assert "epsilon 11 for what one person contributes in one block of 3 steps" in found["promise"]
    table = pl.read_csv(out)
    assert table["step"].to_list() == list(range(DAYS))
    assert table["presence"].to_list() == [2] * 6 + [1] * 6
    assert picture.read_bytes().startswith(b"\x89PNG")
    with Ledger.open(visits.parent / "budget.db") as ledger:
        assert [spec.name for spec in ledger.streams()] == ["s.0", "s.choice.0", "s.1", "s.choice.1"]
        assert verify(ledger) == []
    again = renew(visits, "--choice-epsilon", 10, "--stream", "s")
    assert again.code == 0, again.err
    assert "released 0 steps now; c of the 2 epochs: 2, 1" in again.out


def test_a_dry_run_of_a_renewal_says_what_it_promises(visits: Path) -> None:
    told = renew(visits, "--dry-run", "--json").json
    assert told["dry_run"] is True
    assert told["epochs"] == 2
    assert "epsilon 11/10" in told["promise"]
    assert not (visits.parent / "budget.db").exists()


@pytest.mark.parametrize(
    ("more", "name"),
    [(("--population", "residents"), "population"), (("--blocks", 0), "blocks"), (("--blocks", 9), "end")],
)
def test_renewals_that_cannot_be_are_refused(visits: Path, more: tuple[object, ...], name: str) -> None:
    refused = renew(visits, *more, "--json")
    assert refused.code == 2
    assert refused.json["error"]["name"] == name


def test_renewal_needs_blocks(visits: Path) -> None:
    given = ("--epsilon", 1, "--window", 3, "--presence", 2, "--ledger", visits.parent / "b.db", "--json")
    assert veilstream("presence", "renew", visits, *RANGE, *given).json["error"]["name"] == "per"


def test_advice_by_public_facts_names_a_presence_where_it_pays() -> None:
    stream: dict[str, Any] = {"count": 150, "every": "1d", "window": "40d", "epsilon": 1, "change": 2, "runs": 1}
    rarely = advise(**stream, visits=1.2)
    assert rarely.bounded_presence in (2, 3, 4)
    assert f"--presence {rarely.bounded_presence}" in rarely.command
    assert advise(**stream, visits=35).bounded_presence is None
    for wrong in (0.5, [1, -2], [1] * 41):
        with pytest.raises(InvalidInputError) as caught:
            advise(**stream, visits=wrong)
        assert caught.value.name == "visits"


def test_visits_are_an_average_or_numbers_of_people() -> None:
    given = ("advise", "--count", 150, "--every", "1d", "--window", 12, "--epsilon", 1)
    told = veilstream(*given, "--visits", "1600,90,10")
    assert told.code == 0, told.err
    assert "with --presence" in told.out
    assert veilstream(*given, "--visits", "x", "--json").json["error"]["name"] == "visits"
