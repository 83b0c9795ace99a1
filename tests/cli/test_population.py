"""One budget for a population on the command line: defined, drawn on, shown, refused."""

from __future__ import annotations

import json
import re
import shlex
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.verifying import verify

from .support import veilstream

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "population.md"


def blocks(language: str) -> list[str]:
    text = DOCUMENT.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def city(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two days of visits, as the document has them."""
    monkeypatch.chdir(tmp_path)
    hours = [f"2026-03-0{2 + hour // 24}T{hour % 24:02}:10:00" for hour in range(48)]
    rows = "".join(f"{person},{hours[(7 * person) % 48]},{'abc'[person % 3]}\n" for person in range(200))
    (tmp_path / "visits.csv").write_text(f"id,ts,place\n{rows}", encoding="utf-8")
    (tmp_path / "places.json").write_text('{"place": ["a", "b", "c"]}', encoding="utf-8")
    return tmp_path


def test_the_commands_of_the_document(city: Path) -> None:
    script = blocks("sh")[1].replace("\\\n", " ")
    lines = [shlex.split(line) for line in script.splitlines() if line.strip()]
    assert len(lines) == 5
    for line in lines:
        assert line[0] == "veilstream"
        outcome = veilstream(*line[1:])
        assert outcome.code == 0, outcome.err
    assert (city / "budget.png").read_bytes().startswith(b"\x89PNG")
    assert "Everything published" in (city / "officer.html").read_text(encoding="utf-8")
    (shown,) = veilstream("budget", "budget.db", "--json").json["populations"]
    assert (shown["reserved"], shown["pool"]) == ("1/2", "3/2")
    spent = {one["stream"]: one["spent_in_fullest_window"] for one in shown["streams"]}
    # A window of 24 hours can touch five shifts of six hours.
    assert spent == {"hourly": "1/2", "shifts": "5/8", "places": "1/4"}
    with Ledger.open("budget.db") as ledger:
        assert verify(ledger) == []
    listed = veilstream("population", "list", "budget.db")
    assert "residents: epsilon 2 for all that one of the people contributes within any 24 hours" in listed.out
    assert "shifts: shared" in listed.out


@pytest.fixture
def taxis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Places of 300 taxis in a city of 40 by 30 km."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{taxi},{7 * taxi % 40},{11 * taxi % 30}\n" for taxi in range(300))
    (tmp_path / "taxis.csv").write_text(f"id,x,y\n{rows}", encoding="utf-8")
    return tmp_path


def test_the_points_of_the_document(taxis: Path) -> None:
    """A person pays for the four moves of 10 km that cross 40 km, in the pool and on the page."""
    lines = [shlex.split(line) for line in blocks("sh")[2].replace("\\\n", " ").splitlines() if line.strip()]
    assert [line[:2] for line in lines] == [["veilstream", "population"], ["veilstream", "points"]]
    assert veilstream(*lines[0][1:]).code == 0
    outcome = veilstream(*lines[1][1:])
    assert outcome.code == 0, outcome.err
    assert "for epsilon 0.8" in outcome.out
    assert "Whether one person is among the 500" in outcome.out
    assert "whoever is missing of the 500 people is at the lower or the upper corner" in outcome.out
    dry = veilstream(*lines[1][1:], "--dry-run", "--json")
    assert (dry.json["epsilon"], dry.json["epsilon_of_one_person"]) == ("1/5", "4/5")
    finer = {"--stream": "finer", "--distance": "1/10"}
    given = [finer.get(before, word) for before, word in pairwise(lines[1])]
    refused = veilstream(*given)
    told = " ".join(refused.err.split())
    assert refused.code != 0
    assert "of stream 'finer': a window of population 'drivers' would cost 404/5 of the 2" in told
    assert "spent there by 'middle' 4/5" in told
    assert "a person pays for 400 moves by 1/10 across the space" in told
    (shown,) = veilstream("budget", "points.db", "--json", "--page", "officer.html").json["populations"]
    spent = {one["stream"]: one["spent_in_fullest_window"] for one in shown["streams"]}
    assert spent == {"middle": "4/5", "finer": "0"}
    assert "2026-03-02 to 2026-03-03" in (taxis / "officer.html").read_text(encoding="utf-8")
    assert "4/5 for one of 500 people, there or not" in " ".join(veilstream("ledger", "show", "points.db").out.split())
    with Ledger.open("points.db") as ledger:
        assert verify(ledger) == []


def test_every_command_draws_on_the_population(city: Path) -> None:
    """A look at limits and a series draw from the pool, at the time of their data; own budgets reserve the largest."""
    veilstream("population", "define", "b.db", "residents", "--epsilon", "3", "--window", "24h")
    rows = "".join(f"{person},1/2,{'abc'[person % 3]}\n" for person in range(200))
    (city / "own.csv").write_text(f"id,epsilon,place\n{rows}", encoding="utf-8")
    dates = "--user id --time ts --start 2026-03-02 --end 2026-03-04"
    for line in (
        f"bound visits.csv {dates} --every 1h --epsilon 1/4",
        f"series visits.csv --count {dates} --every 6h --epsilon 1 --stream people",
        "personalised own.csv --person id --domain places.json --by place --stream own",
    ):
        done = veilstream(*shlex.split(line), "--ledger", "b.db", "--population", "residents")
        assert done.code == 0, done.err
    (shown,) = veilstream("budget", "b.db", "--json").json["populations"]
    seen = {one["stream"]: (one["draw"], Fraction(one["spent_in_fullest_window"])) for one in shown["streams"]}
    assert seen.keys() == {"bound", "people", "own"}
    assert seen["bound"] == ("shared", Fraction(1, 4))
    assert seen["people"][0] == "shared"
    assert 0 < seen["people"][1] <= 1
    assert seen["own"][0] == "reserved"
    assert shown["reserved"] == "1/2"
    refused = veilstream(
        *shlex.split("personalised own.csv --person id --domain places.json --by place --stream more"),
        "--ledger", "b.db", "--population", "nobody",
    )  # fmt: skip
    assert "population 'nobody'" in refused.err
    with Ledger.open("b.db") as ledger:
        assert verify(ledger) == []


def test_points_without_a_number_of_people_leave_nothing_behind(taxis: Path) -> None:
    line = shlex.split("points taxis.csv --release sorted --at x --low 0 --high 40 --distance 1 --epsilon 1 --user id")
    refused = veilstream(*line, "--ledger", "b.db", "--population", "drivers")
    assert refused.code != 0
    assert "tells how many there are, and so whether one person is among them" in " ".join(refused.err.split())
    assert "--people" in refused.err
    assert {path.name for path in taxis.iterdir()} == {"taxis.csv"}


def test_the_python_of_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (source,) = blocks("python")
    made: dict[str, Any] = {}
    exec(source, made)
    assert made["release"].spent == made["fullest"] == Fraction(1, 4)
    made["ledger"].close()


@pytest.mark.parametrize("defined", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        "publish visits.csv --user id --time ts --by place --domain places.json --every 1h --start 2026-03-02 "
        "--end 2026-03-04 --epsilon 1 --window 24",
        "histogram visits.csv --user id --domain places.json --epsilon 1",
        "synthesize visits.csv --user id --domain places.json --epsilon 1 --out rows.csv",
        "points visits.csv --user id --at id --low 0 --high 200 --distance 9 --epsilon 1 --release median --people 200",
    ],
)
def test_a_population_that_does_not_exist_leaves_nothing_behind(command: str, defined: bool, city: Path) -> None:
    if defined:
        veilstream("population", "define", "b.db", "residents", "--epsilon", "2", "--window", "24h", "--every", "1h")
    before = {path.name for path in city.iterdir()}
    refused = veilstream(*shlex.split(command), "--ledger", "b.db", "--population", "nobody")
    assert refused.code != 0
    assert "population 'nobody'" in refused.err
    assert {path.name for path in city.iterdir()} == before


def test_an_overdraw_is_refused_with_a_next_step(city: Path) -> None:
    assert veilstream("population", "define", "b.db", "residents", "--epsilon", "1", "--window", "24h").code == 0
    common = ("visits.csv", "--user", "id", "--by", "place", "--domain", "places.json", "--ledger", "b.db")
    first = veilstream("histogram", *common, "--epsilon", "3/4", "--population", "residents", "--json")
    assert first.code == 0, first.err
    refused = veilstream("histogram", *common, "--epsilon", "1/2", "--population", "residents", "--stream", "second")
    assert refused.code != 0
    assert "of the 1 that its streams share; spent there by 'histogram' 3/4" in " ".join(refused.err.split())
    assert "never comes back" in " ".join(refused.err.split())
    with Ledger.open("b.db") as ledger:
        assert list(ledger.charges("second")) == []


def test_a_stream_that_may_repeat_goes_on(city: Path) -> None:
    """What others took of a window is not there for a stream, which repeats its last release until it is."""
    assert veilstream("population", "define", "b.db", "residents", "--epsilon", "1/2", "--window", "24h").code == 0
    publish = (
        "publish", "visits.csv", "--user", "id", "--time", "ts", "--by", "place", "--domain", "places.json",
        "--start", "2026-03-02", "--end", "2026-03-04", "--mechanism", "uniform", "--ledger", "b.db",
        "--population", "residents", "--json",
    )  # fmt: skip
    first = veilstream(*publish, "--every", "6h", "--epsilon", "1/2", "--window", "8", "--stream", "shifts")
    assert first.code == 0, first.err
    second = veilstream(
        *publish, "--every", "1h", "--epsilon", "1/2", "--window", "12", "--stream", "hours", "--exhausted", "repeat"
    )
    assert second.code == 0, second.err
    with Ledger.open("b.db") as ledger:
        fresh = [release.fresh for release in ledger.releases("hours")]
    assert len(fresh) == 48
    assert 0 < sum(fresh) < 48
    (shown,) = veilstream("budget", "b.db", "residents", "--json").json["populations"]
    assert Fraction(1, 4) < Fraction(shown["pool_fullest"]) <= Fraction(1, 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--data-from", "2026-03-02"), "give --population"),
        (("--population", "residents", "--data-from", "2026-03-02"), "--data-from and --data-to together"),
        (("--population", "residents", "--draw", "borrowed"), "'shared' or 'reserved' is needed"),
        (("--population", "nobody"), "has no such population; it has: none"),
    ],
)
def test_what_makes_no_sense_is_refused(city: Path, options: tuple[str, ...], words: str) -> None:
    outcome = veilstream(
        "histogram", "visits.csv", "--user", "id", "--by", "place", "--domain", "places.json", "--ledger", "b.db",
        "--epsilon", "1", *options,
    )  # fmt: skip
    assert outcome.code != 0
    assert words in " ".join(outcome.err.split())


def test_a_ledger_without_populations_says_so(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "b.db"):
        pass
    assert "no populations" in veilstream("budget", tmp_path / "b.db").out
    assert "no populations" in veilstream("population", "list", tmp_path / "b.db").out
    plotted = veilstream("budget", tmp_path / "b.db", "--plot", tmp_path / "x.png")
    assert plotted.code != 0
    assert not (tmp_path / "x.png").exists()


def test_the_demo_keeps_its_promise_and_spends_once(tmp_path: Path) -> None:
    first = veilstream("demo", "--population", "--out", tmp_path)
    assert first.code == 0, first.err
    told = " ".join(first.out.split())
    assert "refused: charge 1 for 'one step' of stream 'second table'" in told
    assert "next step: ask for less epsilon, or about data from 2026-03-22" in told
    assert len(pl.read_parquet(tmp_path / "people.parquet"))
    shown = veilstream("budget", tmp_path / "population.db", "--json").json
    again = veilstream("demo", "--population", "--out", tmp_path)
    assert again.code == 0
    assert veilstream("budget", tmp_path / "population.db", "--json").json == shown
    streams = {one["stream"]: one for one in shown["populations"][0]["streams"]}
    assert [streams[name]["releases"] for name in ("six-hourly", "daily", "weekly", "people")] == [56, 14, 2, 1]
    assert Fraction(json.loads(json.dumps(shown))["populations"][0]["pool_fullest"]) <= Fraction(3, 2)


def test_advice_stays_within_what_is_left(city: Path) -> None:
    assert veilstream("population", "define", "b.db", "residents", "--epsilon", "2", "--window", "24h").code == 0
    wanted = ("advise", "--count", "500", "--every", "1d", "--window", "1", "--ledger", "b.db", "--within", "residents")
    # 24 hours can touch two days.
    found = veilstream(*wanted, "--json")
    assert found.code == 0, found.err
    assert found.json["epsilon"] == "1"
    assert "--ledger b.db --population residents --draw reserved" in found.json["command"]
    refused = veilstream(*wanted, "--epsilon", "3/2")
    assert refused.code != 0
    assert "can give such a stream 1 to reserve" in " ".join(refused.err.split())
    assert veilstream("advise", "--count", "500", "--within", "residents").code != 0
