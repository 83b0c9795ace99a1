"""What a slip of the hand must not lose or leak."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer

from veilstream.cli import app
from veilstream.cli.problems import UsageError
from veilstream.errors import InvalidInputError

from .support import City, Outcome, veilstream


@pytest.fixture
def city(tmp_path: Path) -> City:
    return City.make(tmp_path)


def refused(outcome: Outcome, code: int, name: str) -> None:
    assert outcome.code == code, (outcome.out, outcome.err)
    assert outcome.json["error"]["name"] == name
    assert outcome.json["error"]["next_step"]


def test_a_lost_ledger_with_a_surviving_key_is_refused(city: City) -> None:
    assert city.publish().code == 0
    before = city.released()
    lost = city.ledger.rename(city.folder / "lost.db")
    refused(city.publish("--json"), 4, "key file")
    assert not city.ledger.exists()
    lost.rename(city.ledger)
    assert city.publish().code == 0
    assert city.released() == before


def test_a_ledger_without_the_stream_of_a_surviving_key_is_refused(city: City) -> None:
    assert city.publish().code == 0
    assert city.publish("--again", stream="other").code == 0
    key = city.folder / "budget.db.other.key"
    city.ledger.unlink()
    for name in ("budget.db.default.key", "budget.db.default.mark"):
        (city.folder / name).unlink()
    assert city.publish().code == 0
    assert key.exists()
    refused(city.publish("--json", stream="other"), 4, "key file")


def test_starting_over_needs_the_key_and_the_mark_to_be_removed(city: City) -> None:
    assert city.publish().code == 0
    city.ledger.unlink()
    (city.folder / "budget.db.default.key").unlink()
    refused(city.publish("--json"), 4, "stream")
    for left_over in city.folder.glob("budget.db*"):
        left_over.unlink()
    assert city.publish().code == 0


@pytest.mark.parametrize("option", ["out", "plot"])
def test_an_output_never_overwrites_an_input(city: City, option: str) -> None:
    suffix = ".csv" if option == "out" else ".png"
    source = city.events.rename(city.folder / f"visits{suffix}")
    given = source.read_bytes()
    for name in (source, city.folder / "." / source.name):
        refused(veilstream("publish", source, *city.options(**{option: name}), "--json"), 2, option)
    link = city.folder / f"link{suffix}"
    link.hardlink_to(source)
    refused(veilstream("publish", source, *city.options(**{option: link}), "--json"), 2, option)
    elsewhere = {"out": None, option: city.folder / f"new{suffix}"}
    refused(veilstream("publish", city.folder, *city.options(**elsewhere), "--json"), 2, option)
    refused(veilstream("publish", city.folder / f"*{suffix}", *city.options(**elsewhere), "--json"), 2, option)
    assert source.read_bytes() == given
    assert city.untouched()


def test_outputs_never_overwrite_the_domain_or_each_other(city: City) -> None:
    refused(city.publish("--json", out=city.folder / "domain.json"), 2, "out")
    refused(city.publish("--json", out=city.folder / "x.csv", plot=city.folder / "x.csv"), 2, "output")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("histogram", ["--user", "id", "--epsilon", "1", "--domain", "domain.json"]),
        ("personalised", ["--person", "id", "--epsilon-column", "age"]),
        ("points", ["--release", "median", "--at", "age", "--low", "0", "--high", "120", "--distance", "5",
                    "--epsilon", "1", "--user", "id"]),
        ("synthesize", ["--user", "id", "--epsilon", "1", "--domain", "domain.json"]),
    ],
)  # fmt: skip
def test_one_time_releases_never_overwrite_their_input(
    city: City, command: str, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(city.folder)
    given = city.events.read_bytes()
    refused(veilstream(command, "visits.csv", *options, "--ledger", "b.db", "--out", "visits.csv", "--json"), 2, "out")
    assert city.events.read_bytes() == given
    assert not Path("b.db").exists()


def test_drawing_more_synthetic_rows_is_free_whatever_the_output_is_called(city: City) -> None:
    options = ["--domain", city.folder / "domain.json", "--epsilon", "1", "--user", "id", "--rows", "5", "--json"]
    first = veilstream("synthesize", city.events, *options, "--out", city.folder / "one.csv")
    second = veilstream("synthesize", city.events, *options, "--out", city.folder / "other.csv")
    assert first.code == second.code == 0, second.err
    assert (first.json["spent_now"], second.json["spent_now"]) == ("1", "0")
    assert first.json["ledger"] == second.json["ledger"]


def test_a_ledger_by_the_name_of_an_output_is_not_forgotten(city: City) -> None:
    options = ["--domain", city.folder / "domain.json", "--epsilon", "1", "--user", "id", "--rows", "5", "--json"]
    former = ["--out", city.folder / "one.csv", "--ledger", city.folder / "one.csv.ledger.db"]
    assert veilstream("synthesize", city.events, *options, *former).code == 0
    refused(veilstream("synthesize", city.events, *options, "--out", city.folder / "one.csv"), 2, "ledger")


def test_several_files_are_one_input(city: City) -> None:
    lines = city.events.read_text().splitlines()
    city.write(lines[1:16])
    later = city.folder / "later.csv"
    later.write_text("\n".join([lines[0], *lines[16:]]) + "\n")
    done = veilstream("publish", city.events, later, *city.options(), "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["released_now"] == 6


def test_sums_are_named_as_such(city: City) -> None:
    done = city.publish("--json", mechanism="sliding-window", sums=4)
    assert done.code == 0, done.err
    assert done.json["measure"] == "people, sum over 4 hours"
    refused(city.publish("--json", mechanism="uniform", sums=4), 2, "sums")


def test_rows_may_be_declared_to_be_people(city: City) -> None:
    done = city.publish("--json", user=None, row_per_person=True)
    assert done.code == 0, done.err
    assert city.publish(row_per_person=True, stream="both").code == 2


def test_a_decimal_comma_is_answered_with_a_point(city: City) -> None:
    outcome = city.publish("--json", epsilon="0,5")
    refused(outcome, 2, "epsilon")
    assert outcome.json["error"]["next_step"] == "write 0.5"


def test_a_mistyped_file_is_told_also_when_all_is_published(city: City) -> None:
    assert city.publish().code == 0
    before = city.released()
    city.events.rename(city.folder / "moved.csv")
    for name in ("visits.csv", "visits*.csv"):
        told = veilstream("publish", city.folder / name, *city.options(), "--json")
        assert (told.code, told.json["error"]["type"]) == (2, "InvalidInputError")
        assert name in told.json["error"]["message"]
    assert city.released() == before
    assert "nothing new" in veilstream("publish", city.folder / "moved.csv", *city.options()).out


def commands(group: Any) -> Iterator[Any]:
    context = group.make_context("veilstream", [], resilient_parsing=True)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield from commands(found) if hasattr(found, "list_commands") else [found]


def test_an_option_of_one_value_is_given_once() -> None:
    """Of two values the last would be taken without a word; options that may be repeated go on."""
    seen = {True: 0, False: 0}
    for command in commands(typer.main.get_command(app)):
        for option in command.params:
            if option.param_type_name != "option" or option.is_flag:
                continue
            seen[option.multiple] += 1
            given = [option.opts[-1], *["1"] * option.nargs]
            with pytest.raises(UsageError):
                command.make_context(command.name, [*given, *given, "--no-such-option"])
            if option.multiple:
                with suppress(UsageError):
                    command.make_context(command.name, [*given, *given])
                continue
            with pytest.raises(InvalidInputError) as told:
                command.make_context(command.name, [*given, *given])
            assert (told.value.name, told.value.next_step) == (option.name, f"give {option.opts[0]} once")
    assert seen[True] >= 10
    assert seen[False] >= 100


def test_a_repeated_option_is_told_in_one_line(city: City) -> None:
    told = city.publish("--epsilon", "2")
    assert told.code == 2
    assert (
        told.err
        == "error: epsilon: given 2 times, and it takes one value; nothing was read. Next: give --epsilon once\n"
    )
    assert city.untouched()
