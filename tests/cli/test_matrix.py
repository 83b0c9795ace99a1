"""The same options on every command where they make sense, and they do what they say."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from fuzz.commands import model
from tests.cli.support import City, Outcome, overridden, rows, veilstream

READERS = {"publish", "series", "histogram", "synthesize", "personalised", "points", "bound"}
"""Commands that read private rows and release something."""
REPORTS = {*READERS, "plan", "advise", "compare", "mechanisms", "audit", "ledger show", "ledger releases",
           "ledger revisions", "ledger charges", "ledger verify", "ledger export"}  # fmt: skip
HAS = {
    "--json": REPORTS,
    "--dry-run": READERS,
    "--ledger": READERS,
    "--delimiter": {*READERS, "compare"},
    "--encoding": {*READERS, "compare"},
    "--decimal": READERS - {"bound"},
    "--unknown": READERS - {"points"},
    "--time-format": {"publish", "series", "bound", "compare"},
    "--level": {"publish", "series", "histogram", "personalised", "points"},
    "--out": {*READERS, "plan", "compare", "ledger export"} - {"bound"},
    "--plot": {*READERS, "plan", "advise"} - {"synthesize"},
    "--row-per-person": READERS - {"personalised"},
    "--population": READERS,
}
"""Which commands have an option. Left out on purpose: a look at bounds counts rows and writes no table; points are
clipped instead of dropped; synthetic tables have a page; a comparison draws always; personal
budgets need ids."""


def test_every_command_has_the_options_that_make_sense_for_it() -> None:
    known = {name: {option.flag for option in options} for name, options in model().items()}
    for flag, commands in HAS.items():
        assert commands <= {name for name, flags in known.items() if flag in flags}, flag
    assert known.keys() >= REPORTS


@pytest.fixture
def city(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> City:
    monkeypatch.chdir(tmp_path)
    made = City.make(tmp_path, rows(people=9))
    lines = [line.replace(",", ";") for line in made.events.read_text().splitlines()]
    people = ["id;epsilon;place;age", *(f"{i};0,5;{'harbour' if i % 2 else 'market'};{20 + i},5" for i in range(40))]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-16")
    (tmp_path / "people.csv").write_text("\n".join(people) + "\n", encoding="utf-16")
    return made


RANGE = "--time ts --user id --every 1h --start 2024-01-01 --end 2024-01-01T06:00"
RUNS = {
    "publish": f"visits.csv {RANGE} --epsilon 1 --window 3 --ledger b.db --mechanism uniform",
    "series": f"visits.csv --count {RANGE} --epsilon 1 --ledger b.db",
    "histogram": "people.csv --user id --epsilon 1 --domain domain.json --ledger b.db --decimal ,",
    "synthesize": "people.csv --user id --epsilon 1 --domain domain.json --ledger b.db --rows 5 --out out.csv "
    "--decimal ,",
    "personalised": "people.csv --person id --domain domain.json --by place --ledger b.db --method minimum --decimal ,",
    "points": "people.csv --release median --at age --low 0 --high 120 --distance 5 --epsilon 1 --user id "
    "--ledger b.db --decimal ,",
    "bound": f"visits.csv {RANGE} --ledger b.db",
}  # fmt: skip


def run(name: str, *more: str) -> Outcome:
    usual = [*RUNS[name].split(), "--delimiter", ";", "--encoding", "utf-16"]
    return veilstream(name, *overridden(usual, *more))


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_dry_run_reads_and_writes_nothing(name: str, city: City) -> None:
    for file in ("visits.csv", "people.csv"):
        (city.folder / file).write_text("not a table\n")
    before = sorted(city.folder.iterdir())
    for told in (run(name, "--dry-run"), run(name, "--dry-run", "--json")):
        assert told.code == 0, told.err
    assert told.json["dry_run"] is True
    assert sorted(city.folder.iterdir()) == before


@pytest.mark.parametrize("name", sorted(READERS))
def test_other_delimiters_encodings_and_decimal_signs_are_read(name: str, city: City) -> None:
    picture = ["--plot", "picture.svg"] if name in HAS["--plot"] else []
    done = run(name, "--json", *picture)
    assert done.code == 0, done.err
    assert set(picture[1:]) <= set(done.json["outputs"])
    assert all((city.folder / path).stat().st_size > 1000 for path in picture[1:])


def test_a_median_has_an_interval_of_ranks(city: City) -> None:
    done = run("points", "--json", "--level", "0.9", "--out", "median.csv")
    assert done.code == 0, done.err
    assert done.json["interval"] == {"low": 1, "high": 40, "covers": "rank among the points"}
    assert pl.read_csv(city.folder / "median.csv").columns == ["age", "low", "high", "covers"]


def test_one_time_tables_have_no_columns_of_steps(city: City) -> None:
    for name in ("histogram", "personalised", "points", "synthesize"):
        assert run(name, "--out", f"{name}.csv", "--ledger", f"{name}.db").code == 0
        assert not {"step", "time", "fresh", "as_of"} & set(pl.read_csv(city.folder / f"{name}.csv").columns)


@pytest.mark.parametrize("name", sorted(READERS))
def test_files_of_an_unquoted_glob_are_one_input(name: str, city: City) -> None:
    whole = RUNS[name].split()[0]
    header, *lines = (city.folder / whole).read_text(encoding="utf-16").splitlines()
    for part, some in (("one.csv", lines[::2]), ("two.csv", lines[1::2])):
        (city.folder / part).write_text("\n".join([header, *some]) + "\n", encoding="utf-16")
    words = RUNS[name].replace(whole, "one.csv two.csv")
    done = veilstream(name, *words.split(), "--delimiter", ";", "--encoding", "utf-16", "--json")
    assert done.code == 0, done.err
    words = words.replace("two.csv", "one.csv")
    twice = veilstream(name, *overridden(words.split(), "--ledger", "c.db", "--json"))
    if name in ("publish", "series", "histogram", "bound"):
        assert (twice.code, twice.json["error"]["name"]) == (2, "file")


@pytest.mark.parametrize("name", sorted(HAS["--row-per-person"]))
def test_every_row_may_be_declared_another_person(name: str, city: City) -> None:
    declared = RUNS[name].replace("--user id", "--row-per-person")
    done = veilstream(name, *declared.split(), "--delimiter", ";", "--encoding", "utf-16", "--json")
    assert done.code == 0, done.err
    both = run(name, "--row-per-person", "--json")
    assert (both.code, both.json["error"]["type"]) == (2, "InvalidInputError")
    if name == "bound":
        assert (done.json["suggested"], done.json["spent"]) == (1, "0")
        assert not (city.folder / "b.db").exists()
