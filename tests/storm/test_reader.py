"""The reader that judges the storm accepts what the ledger writes, and catches every violation that is planted."""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storm import reader
from storm.children import Notes
from storm.kills import examine, table_problems
from storm.subjects import Accounts, Groups, OneStream, OneTime, Place, Subject, Threads
from veilstream.mechanisms.streams import STREAMS

Tables = dict[str, list[dict[str, Any]]]
STEPS = 8


def written(subject: Subject, folder: Path) -> Place:
    place = Place(str(folder / "ledger.db"), folder)
    subject.work(place, Notes(folder / "seen").see)
    return place


def problems(tables: Tables, subject: Subject | None = None) -> list[str]:
    streams = reader.examine(tables, None if subject is None else subject.budgets)
    return [problem for stream in streams.values() for problem in stream.problems]


@pytest.mark.parametrize("w", [1, 5])
@pytest.mark.parametrize("mechanism", STREAMS)
def test_what_mechanisms_release_is_accepted(mechanism: str, w: int, tmp_path: Path) -> None:
    subject = OneStream(mechanism, steps=STEPS, w=w)
    place = written(subject, tmp_path)
    assert examine(subject, place, Notes(tmp_path / "seen")) == []
    assert len(reader.examine(reader.read(place.ledger))["default"].steps) == STEPS


def test_a_step_whose_bins_pay_apart_spends_what_the_dearest_of_them_pays(tmp_path: Path) -> None:
    """Groups of some bins end while others are only watched, in nearly every stream of constant counts."""
    subject = Threads("retroactive-grouping", threads=1)
    place = written(subject, tmp_path)
    assert examine(subject, place, Notes(tmp_path / "seen")) == []


@pytest.mark.parametrize("subject", [OneTime(3), Accounts(3), Groups(3)], ids=lambda subject: subject.name)
def test_what_is_released_otherwise_is_accepted(subject: Subject, tmp_path: Path) -> None:
    place = written(subject, tmp_path)
    assert examine(subject, place, Notes(tmp_path / "seen")) == []


def test_a_ledger_that_is_not_there_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        reader.read(str(tmp_path / "ledger.db"))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The rows of a ledger with blocks of comparisons in it."""
    place = written(OneStream("dsat", steps=30), tmp_path_factory.mktemp("good"))
    return reader.read(place.ledger)


def _deleted(name: str, place: int) -> Callable[[Tables], None]:
    def plant(tables: Tables) -> None:
        del tables[name][place]

    return plant


def _doubled(name: str) -> Callable[[Tables], None]:
    def plant(tables: Tables) -> None:
        tables[name].append(dict(tables[name][-1]))

    return plant


def _changed(name: str, column: str, value: Any) -> Callable[[Tables], None]:
    def plant(tables: Tables) -> None:
        tables[name][-1][column] = value

    return plant


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (_deleted("charges", 0), "its charges are"),
        (_deleted("charges", -1), "its charges are"),
        (_deleted("steps", 7), "not one after the other"),
        (_deleted("blocks", 0), "blocks were opened"),
        (_deleted("chain", -1), "the chain has entries"),
        (_deleted("arrays", 0), "cannot be read"),
        (_doubled("steps"), "is there twice"),
        (_doubled("blocks"), "blocks were opened"),
        (_changed("charges", "epsilon", "3/2"), "the window from"),
        (_changed("charges", "epsilon", "-1"), "cannot be read"),
        (_changed("charges", "outcome", "failed"), "was charged, and is not there"),
        (_changed("arrays", "bytes", b"\0" * 40), "cannot be read"),
        (_changed("counter", "seq", 99), "the counter"),
        (_changed("secret_states", "t", 3), "the state is of step"),
    ],
)
def test_planted_violations_are_caught(good: Tables, plant: Callable[[Tables], None], found: str) -> None:
    assert problems(good) == []
    tables = copy.deepcopy(good)
    plant(tables)
    assert any(found in problem for problem in problems(tables))


def test_people_who_pay_more_than_their_own_budget_are_noticed(tmp_path: Path) -> None:
    subject = Accounts(4)
    tables = reader.read(written(subject, tmp_path).ledger)
    assert problems(tables, subject) == []
    lower = [budget / 2 for budget in subject.budgets]
    assert any("of 1/16" in problem for problem in reader.examine(tables, lower)["personal"].problems)


def test_what_was_seen_and_is_not_in_the_ledger_is_noticed(tmp_path: Path) -> None:
    subject = OneStream("uniform", steps=4, with_table=True)
    place, notes = written(subject, tmp_path), Notes(tmp_path / "seen")
    stream = reader.examine(reader.read(place.ledger))["default"]
    notes.add("default\t4\t5 1/5 0 abc")
    notes.add(f"default\t3\t{stream.steps[2].print}")
    table = place.table.read_text(encoding="utf-8")
    place.table.write_text(table + table.splitlines()[-1].replace("3,", "9,", 1) + "\n", encoding="utf-8")
    found = "\n".join(examine(subject, place, notes))
    assert "step 4 was seen and is not in the ledger" in found
    assert "step 3 was seen as" in found
    assert "the table shows step 9" in found


def test_a_table_with_other_values_is_noticed(tmp_path: Path) -> None:
    place = written(OneStream("uniform", steps=2, with_table=True), tmp_path)
    stream = reader.examine(reader.read(place.ledger))["default"]
    stream.steps[1].values[0] += 1
    assert list(table_problems(place.table, stream)) == ["the table shows other values for step 1 than the ledger"]
