"""What must be refused: with one line, an exit code, nothing in the ledger and no private value in sight."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .support import SECRET_PLACE, SECRET_USER, City, Outcome, rows, veilstream


@pytest.fixture
def city(tmp_path: Path) -> City:
    return City.make(tmp_path)


def refused(city: City, outcome: Outcome, code: int, *words: str) -> None:
    assert outcome.code == code, (outcome.out, outcome.err)
    assert outcome.err.startswith("error: ")
    _, *notes = outcome.err.splitlines()
    assert all(note.startswith("for the operator alone, do not publish: ") for note in notes)
    assert not any(note in outcome.out for note in notes)
    for word in words:
        assert word in outcome.err
    for secret in (SECRET_PLACE, SECRET_USER):
        assert secret not in outcome.err + outcome.out
    assert city.untouched()
    assert not city.table.exists()


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "1e9", "one", "1/0", ""])
def test_epsilon(city: City, epsilon: str) -> None:
    refused(city, city.publish(epsilon=epsilon), 2, "epsilon")


@pytest.mark.parametrize("window", ["0", "-3", "1.5", "person"])
def test_window(city: City, window: str) -> None:
    refused(city, city.publish(window=window), 2, "window")


@pytest.mark.parametrize("delta", ["-0.1", "1", "nan"])
def test_delta(city: City, delta: str) -> None:
    refused(city, city.publish(delta=delta), 2, "delta")


def test_bins_and_ranges_are_not_learned_from_private_data(city: City) -> None:
    refused(city, city.publish(domain=None, by=["place"]), 2, "--domain", "--public-from-data", "tell who is in them")
    refused(city, city.publish(start=None), 2, "start: missing", "--public-from-data")
    refused(city, city.publish(end=None), 2, "end: missing")


def test_names_that_are_nearly_right(city: City) -> None:
    refused(city, city.publish(mechanism="unifrom"), 2, "did you mean 'uniform'?")
    refused(city, city.publish(histogram="geometrical"), 2, "did you mean 'geometric'")
    refused(city, city.publish(set="intervall=3", mechanism="fixed-rate"), 2, "interval (int, default 10)")
    refused(city, city.publish(set="interval=often", mechanism="fixed-rate"), 2, "'often' is not int")
    refused(city, city.publish(set="interval", mechanism="fixed-rate"), 2, "name=value")
    refused(city, city.publish(by=["place", "size"]), 2, "by 'size'", "place, age")
    refused(city, city.publish("--epsilonn", "1"), 2, "--epsilonn")


def test_options_that_must_be_there(city: City) -> None:
    for name in ("time", "user", "every", "epsilon", "window", "ledger"):
        refused(city, city.publish(**{name: None}), 2, f"{name}: missing")
    refused(city, veilstream("publish", *city.options()), 2, "file: missing")


def test_user_level_needs_a_horizon(city: City) -> None:
    refused(city, city.publish(window="user", mechanism="uniform"), 2, "--set horizon=6")


def test_counts_need_a_declared_bound(city: City) -> None:
    refused(city, city.publish(user=None, value="age"), 2, "per_person: missing")
    refused(city, city.publish(value="age", per_person=1), 2, "user: not allowed")
    refused(city, city.publish(per_person=1), 2, "per_person")
    refused(city, city.publish(user=None, value="age", per_person=0, by=["place"]), 2, "max_contribution 0")


def test_missing_file_and_column(city: City) -> None:
    refused(city, city.publish(time="when"), 2, "column 'when' is missing", "ts, id, place, age")
    refused(city, city.publish(domain=city.folder / "none.json"), 2, "no such file")
    city.events.unlink()
    refused(city, city.publish(), 2, "no such file")


def test_empty_and_broken_files(city: City) -> None:
    good = rows()
    city.write([*good[:7], f"2024-01-01T02:00:00,{SECRET_USER}", *good[7:]])
    refused(city, city.publish(), 2, "row 9")
    city.events.write_bytes(b"")
    refused(city, city.publish(), 2, "0 bytes")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (f"2024-01-01T01:00:00,3,{SECRET_PLACE},30", "attribute 'place'"),
        ("2024-01-01T01:00:00,3,market,121", "attribute 'age'"),
        ("2024-01-01T01:00:00,3,,30", "attribute 'place'"),
        (f"2024-02-01T01:00:00,{SECRET_USER},market,30", "outside the public range"),
        (f",{SECRET_USER},market,30", "has no time"),
        (f"yesterday,{SECRET_USER},market,30", "time column 'ts'"),
        (f"2024-01-01T01:00:00+02:00,{SECRET_USER},market,30", "time column 'ts'"),
    ],
    ids=["unknown place", "unknown age", "no place", "too late", "no time", "no date", "zones on some rows only"],
)
def test_one_bad_row(city: City, row: str, words: str) -> None:
    city.write([*rows(), row])
    refused(city, city.publish(), 2, words)


def test_bad_rows_may_be_dropped_and_are_counted_for_the_operator(city: City) -> None:
    strange = [
        f"2024-01-01T01:00:00,3,{SECRET_PLACE},30",
        "2024-01-01T01:00:00,,market,30",
        "2024-02-01T01:00:00,3,market,30",
        ",3,market,30",
    ]
    city.write([*rows(), *strange])
    outcome = city.publish(unknown="drop", missing_time="drop")
    assert outcome.code == 0, outcome.err
    for words in ("1 without a person", "1 with a value outside", "1 outside the time", "1 without a time"):
        assert words in outcome.err
    assert "left out" not in outcome.out
    assert SECRET_PLACE not in outcome.out + outcome.err


def test_ids_of_several_types_are_one_person_each(city: City) -> None:
    city.write(["2024-01-01T00:00:00,7,market,30", "2024-01-01T00:10:00,seven,market,30", *rows()[:1]])
    assert city.publish(epsilon="1000", by=["place"], end="2024-01-01T01:00").code == 0
    # Laplace noise of scale 3/1000 on whole numbers is not 0 with probability below 1e-140.
    assert city.released() == [[0, 3]]


def test_outputs_are_checked_before_anything_is_spent(city: City) -> None:
    refused(city, city.publish(out=city.folder / "releases.xlsx"), 2, ".parquet")
    refused(city, city.publish(out=city.folder / "nowhere" / "releases.csv"), 2, "cannot be written")
    refused(city, city.publish(plot=city.folder / "releases.gif"), 2, ".png")
    refused(city, city.publish(level="1"), 2, "level")


def test_attributes_must_not_take_the_names_of_the_table(city: City) -> None:
    (city.folder / "domain.json").write_text('{"value": ["a"]}')
    refused(city, city.publish(), 2, "attribute 'value'")


def test_a_ledger_of_another_guarantee_mechanism_or_domain(city: City) -> None:
    assert city.publish().code == 0
    before, table = city.released(), city.table.read_bytes()
    for changes in ({"epsilon": "2"}, {"window": "4"}, {"mechanism": "sample"}, {"by": ["place"]}):
        outcome = city.publish(**changes)
        assert outcome.code == 4
        assert "is recorded as" in outcome.err
    assert city.released() == before
    assert city.table.read_bytes() == table


def test_a_file_that_is_no_ledger(city: City) -> None:
    city.ledger.write_text("this is not a database, but it is long enough to look like one to nobody")
    outcome = city.publish()
    assert outcome.code == 4
    assert not city.table.exists()
    assert city.ledger.read_text().startswith("this is not")


def test_a_server_needs_a_key_file(city: City) -> None:
    outcome = city.publish(ledger="postgresql://user:hunter2@localhost:1/none")
    assert outcome.code == 2
    assert "--key-file" in outcome.err
    assert "hunter2" not in outcome.err


def test_spent_budgets_have_their_own_code(city: City) -> None:
    assert city.publish(window="user", set="horizon=3", end="2024-01-01T03:00", unknown="drop").code == 0
    outcome = city.publish(window="user", set="horizon=3")
    assert outcome.code == 3
    assert "nothing was released" in outcome.err
    assert len(city.released()) == 3


def test_ledger_commands_refuse_what_is_not_there(city: City) -> None:
    missing = veilstream("ledger", "show", city.ledger)
    assert missing.code == 4
    assert not city.ledger.exists()
    city.publish()
    stranger = veilstream("ledger", "releases", city.ledger, "--stream", "other", "--json")
    assert stranger.code == 2
    assert stranger.json["error"]["type"] == "InvalidInputError"
    assert "default" in stranger.json["error"]["message"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epsilom = 1", "epsilom: no such setting"),
        ("epsilon = [1]", "epsilon"),
        ("epsilon = ", "not valid TOML"),
        ('unknown = "ignore"', "unknown 'ignore'"),
        ("window = nan", "window"),
    ],
)
def test_job_files(city: City, text: str, words: str) -> None:
    job = city.folder / "job.toml"
    job.write_text(text)
    name = text.partition(" ")[0]
    refused(city, city.publish("--config", job, **({name: None} if name != "epsilom" else {})), 2, words)


def test_errors_for_machines(city: City) -> None:
    outcome = city.publish("--json", epsilon="0")
    assert outcome.code == 2
    assert outcome.json["error"]["type"] == "InvalidBudgetError"
    assert outcome.json["error"]["message"] in outcome.err
    assert city.publish("--json", "--nonsense").json["error"]["type"]


def test_an_unexpected_error_keeps_its_text_to_itself(city: City, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object, **__: object) -> None:
        raise RuntimeError(f"row of {SECRET_USER}")

    monkeypatch.setattr("veilstream.jobs.rows.bound", explode)
    monkeypatch.delenv("VEILSTREAM_DEBUG", raising=False)
    refused(city, city.publish(), 1, "internal error of type RuntimeError")


def test_the_installed_command(city: City) -> None:
    command = [sys.executable, "-m", "veilstream.cli", "publish", city.events, *city.options(), "--json"]
    published = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert (published.returncode, published.stderr) == (0, "")
    assert '"released_now": 6' in published.stdout
    mismatch = city.publish(epsilon="2")
    assert mismatch.code == 4
    assert "Traceback" not in mismatch.err
