"""The mistakes of a first hour: each is one line, with a type, the setting to blame and a next step, and costs nothing.

No row of the file is quoted: every file of this page holds secrets, and a row number or a count of rows is for stderr.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .support import SECRET_PLACE, SECRET_USER, City, rows, veilstream

PEOPLE = 7
"""An unusual number of people, so that a count of rows can be told from other numbers."""


@dataclass(frozen=True)
class Mistake:
    """What somebody did, and by which error they learn of it."""

    what: str
    options: dict[str, Any]
    name: str
    kind: str = "InvalidInputError"
    code: int = 2
    rows: list[str] = field(default_factory=list)
    before: Callable[[City], object] = lambda _city: None
    next_step: str = ""
    says: str = ""


def write_domain(text: str) -> Callable[[City], object]:
    return lambda city: (city.folder / "domain.json").write_text(text)


def published_and(forget: bool = False) -> Callable[[City], object]:
    def act(city: City) -> None:
        assert city.publish(unknown="drop", missing_time="drop").code == 0
        city.table.unlink()
        if forget:
            city.ledger.unlink()

    return act


BUDGET, DOMAIN, UNKNOWN = "InvalidBudgetError", "InvalidDomainError", "UnknownValueError"
MISMATCH, LEDGER = "LedgerMismatchError", "LedgerError"
UNIFORM = {"mechanism": "uniform"}
FIXED = {"mechanism": "fixed-rate"}
COUNTS: dict[str, Any] = {"user": None, "value": "age", "per_person": 1, "by": ["place"]}
MISTAKES = [
    Mistake("no budget", {"epsilon": "0"}, "epsilon", BUDGET),
    Mistake("negative budget", {"epsilon": "-1"}, "epsilon", BUDGET),
    Mistake("a word for a budget", {"epsilon": "one"}, "epsilon", BUDGET),
    Mistake("an infinite budget", {"epsilon": "inf"}, "epsilon", BUDGET),
    Mistake("a decimal comma", {"epsilon": "0,5"}, "epsilon", BUDGET, next_step="0.5"),
    Mistake("a window of nothing", {"window": "0"}, "window", BUDGET),
    Mistake("a word for a window", {"window": "person"}, "window", BUDGET),
    Mistake("a fractional window", {"window": "1.5"}, "window", BUDGET),
    Mistake("a window between steps", {"window": "90m"}, "window", BUDGET),
    Mistake("certain failure", {"delta": "1"}, "delta", BUDGET),
    Mistake("a misspelt mechanism", {"mechanism": "unifrom"}, "mechanism"),
    Mistake("a misspelt histogram", {"histogram": "geometrical"}, "histogram"),
    Mistake("a parameter without a value", {"set": "interval", **FIXED}, "set"),
    Mistake("a misspelt parameter", {"set": "intervall=3", **FIXED}, "intervall", next_step="interval"),
    Mistake("a parameter of another type", {"set": "interval=often", **FIXED}, "interval", next_step="int"),
    Mistake("sums of a mechanism of counts", {"sums": 3}, "sums", next_step="sliding-window"),
    Mistake("user level without an end", {"window": "user", **UNIFORM}, "horizon", next_step="--set horizon=6"),
    *[Mistake(f"no {name}", {name: None}, name, next_step=f"--{name}") for name in
      ("time", "user", "every", "epsilon", "window", "ledger", "start", "end")],
    Mistake("bins from private data", {"domain": None, "by": ["place"]}, "domain", next_step="--public-from-data"),
    Mistake("another column of times", {"time": "when"}, "when"),
    Mistake("another column of people", {"user": "person"}, "person"),
    Mistake("an attribute without bins", {"by": ["size"]}, "by"),
    Mistake("a word for a step", {"every": "hourly"}, "duration", next_step="1h"),
    Mistake("a word for a start", {"start": "yesterday"}, "time", next_step="2024-03-01"),
    Mistake("an end before the start", {"start": "2024-01-02"}, "calendar"),
    Mistake("a zone of another planet", {"zone": "Mars/Base"}, "zone"),
    Mistake("a place that is not public", {}, "place", UNKNOWN, next_step="--unknown drop",
            rows=[f"2024-01-01T03:00:00,{SECRET_USER},{SECRET_PLACE},30"]),
    Mistake("rows after the end", {"end": "2024-01-01T03:00"}, "ts", UNKNOWN, next_step="--unknown drop"),
    Mistake("a word for a time", {}, "ts", rows=[f"soon,{SECRET_USER},market,30"]),
    Mistake("a row without a time", {}, "ts", rows=[f",{SECRET_USER},market,30"], next_step="--missing-time drop"),
    Mistake("a row that is too long", {}, "file", "UnreadableFileError",
            rows=[f"2024-01-01T03:00:00,{SECRET_USER},market,30,{SECRET_PLACE}"]),
    Mistake("an end beyond the data", {"end": "2024-01-02"}, "file", next_step="--allow-empty"),
    Mistake("a header and no rows", {}, "file", next_step="--allow-empty", before=lambda city: city.write([])),
    Mistake("counts without a bound", {**COUNTS, "per_person": None}, "per_person"),
    Mistake("counts and people", {**COUNTS, "user": "id"}, "user"),
    Mistake("a bound on events", {"per_person": 1}, "per_person"),
    Mistake("text for counts", {**COUNTS, "value": "place", "by": ["age"]}, "place"),
    Mistake("an output of unknown kind", {"out": "x.docx"}, "output"),
    Mistake("an output nowhere", {"out": "/nowhere/x.csv"}, "output"),
    Mistake("a picture of unknown kind", {"plot": "x.gif"}, "output"),
    Mistake("a level in per cent", {"level": "95"}, "level"),
    Mistake("people in no bin", {"bins_per_user": "0"}, "bins_per_user"),
    Mistake("people of negative size", {"counts_per_user": "-2"}, "counts_per_user"),
    Mistake("an unknown policy", {"unknown": "ignore"}, "unknown"),
    Mistake("a file that is not there", {}, "file", before=lambda city: city.events.unlink()),
    Mistake("a domain that is not there", {"domain": "nowhere.json"}, "domain file", DOMAIN),
    Mistake("a domain that is no JSON", {}, "domain file", DOMAIN, before=write_domain("{")),
    Mistake("a domain without values", {}, "categories", DOMAIN, before=write_domain('{"place": []}')),
    Mistake("two characters between fields", {"delimiter": "::"}, "delimiter"),
    Mistake("an unknown encoding", {"encoding": "klingon"}, "encoding"),
    Mistake("an unknown format of times", {"time_format": "whenever"}, "time format"),
    Mistake("a ledger that is none", {}, "ledger", LEDGER, 4, before=lambda city: city.ledger.write_text("hello")),
    *[Mistake(f"another {name} on the same stream", changed, name, MISMATCH, 4, before=published_and(),
              next_step="both promises") for name, changed in (
        ("guarantee", {"epsilon": "2", "unknown": "drop"}),
        ("mechanism", {"mechanism": "sample"}),
        ("calendar", {"start": "2024-01-01T01:00", "unknown": "drop"}),
    )],
    Mistake("the time for an id", {"user": "ts"}, "user", next_step="--row-per-person"),
    Mistake("an id for an attribute", {"user": "place"}, "user", next_step="--row-per-person"),
    Mistake("no mechanism by a wrong name", {"mechanism": "atuo"}, "mechanism"),
    Mistake("bins that are none", {"plot": "x.png", "plot_bins": "nowhere"}, "plot_bins", next_step="label"),
    Mistake("a plane of one attribute", {"plot": "x.png", "plot_kind": "grid", "by": ["place"]}, "plot_kind"),
    Mistake("a pie", {"plot": "x.png", "plot_kind": "pie"}, "plot_kind", next_step="--plot-kind"),
    Mistake("a picture of no size", {"plot": "x.png", "plot_size": ("0", "5")}, "size"),
    Mistake("an axis upside down", {"plot": "x.png", "plot_range": ("5", "1")}, "value_range"),
    Mistake("a step of no length", {"every": "0h"}, "duration", next_step="1h"),
    Mistake("one and a half hours", {"every": "1.5h"}, "duration", next_step="15m"),
    Mistake("whole steps of dates", {"every": "1"}, "calendar"),
    Mistake("the thirteenth month", {"start": "2024-13-01"}, "time", next_step="2024-03-01"),
    Mistake("a budget in per cent", {"epsilon": "5%"}, "epsilon", BUDGET, next_step="1/2"),
    Mistake("a window in words", {"window": "24 hours"}, "window", BUDGET, next_step="24h"),
    Mistake("nobody present", {"presence": "0"}, "presence", BUDGET),
    Mistake("a block and a window", {"per": "1d"}, "per", next_step="--per"),
    Mistake("a list for a domain", {}, "domain", DOMAIN, before=write_domain("[1]"), next_step="edges"),
    Mistake("a number for bins", {}, "attribute 'place'", DOMAIN, before=write_domain('{"place": 3}')),
    Mistake("a value twice", {}, "categories", DOMAIN, before=write_domain('{"place": ["a", "a"]}')),
    Mistake("a grid upside down", {}, "grid from 9.0 to 1.0", DOMAIN,
            before=write_domain('{"age": {"low": 9, "high": 1, "cells": 2}}')),
    Mistake("a folder for a domain", {"domain": "."}, "domain file", DOMAIN),
    Mistake("a folder for a job", {"config": "."}, "config"),
    Mistake("a database of another kind", {"ledger": "mysql://host/x"}, "ledger url scheme 'mysql'"),
    Mistake("a folder for a ledger", {"ledger": "."}, "ledger", LEDGER, 4),
    Mistake("a sum without a range", {"sum": "age", "by": ["place"]}, "between", next_step="--between"),
    Mistake("a range upside down", {"sum": "age", "by": ["place"], "between": ("9", "1")}, "between"),
    Mistake("a changed budget in words", {"epsilon": "2", "unknown": "drop"}, "guarantee", MISMATCH, 4,
            before=published_and(), next_step="both promises", says="recorded as epsilon 1, given epsilon 2"),
    Mistake("a changed mechanism in words", {"mechanism": "uniform"}, "mechanism", MISMATCH, 4,
            before=published_and(), says="recorded as 'model', given 'uniform'"),
    Mistake("a changed window in words", {"window": "user", "unknown": "drop"}, "guarantee", MISMATCH, 4,
            before=published_and(), says="recorded as window 3, given window 'user'"),
    Mistake("a changed limit", {"counts_per_user": 2, "unknown": "drop"}, "max_contribution", MISMATCH, 4,
            before=published_and(), says="recorded as 1, given 2"),
    Mistake("the rows for a ledger", {"ledger": "EVENTS"}, "ledger", LEDGER, 4, next_step="path or URL"),
    Mistake("a table without an ending", {"out": "releases"}, "output", next_step="releases.parquet"),
    Mistake("a picture without an ending", {"plot": "releases"}, "output", next_step="releases.png"),
    Mistake("the input for an output", {"out": "EVENTS"}, "out", next_step="name of its own"),
    Mistake("the domain for an output", {"plot": "x.png", "out": "DOMAIN"}, "out", next_step="name of its own"),
    Mistake("half a domain in place", {"domain": '{"place": ['}, "domain", DOMAIN, next_step="list of values"),
    Mistake("rows for a domain", {"domain": "EVENTS"}, "domain file", DOMAIN, next_step="edges"),
    Mistake("another spelling of an attribute", {"by": ["Place"]}, "by", next_step="--by"),
    Mistake("a capital mechanism", {"mechanism": "Uniform"}, "mechanism", next_step="--mechanism"),
    Mistake("no interval at all", {"set": "interval=0", **FIXED}, "interval", next_step="--set interval"),
    Mistake("a capital hour", {"every": "1H"}, "duration", next_step="1h"),
    Mistake("minutes by another name", {"every": "60min"}, "duration", next_step="15m"),
    Mistake("a slashed start", {"start": "01/01/2024"}, "time", next_step="2024-03-01"),
    Mistake("a window of events", {"window": "event"}, "window", BUDGET, next_step="24h"),
    Mistake("a median of places", {"median": "place", "between": ("0", "9"), "by": ["place"]}, "place"),
    Mistake("a share above one", {"quantiles": "age", "at": "1.5", "between": ("0", "99"), "by": ["place"]}, "at",
            next_step="--at"),
    Mistake("a stream without a name", {"stream": ""}, "stream", next_step="--stream"),
    Mistake("times without signs", {}, "ts", rows=["20240101,ann,market,30"], next_step="--time-format %Y%m%d"),
    Mistake("times of minutes without signs", {}, "ts", rows=["202401010105,ann,market,30"],
            next_step="--time-format %Y%m%d%H%M"),
    Mistake("a lost ledger", {}, "key file", LEDGER, 4, before=published_and(forget=True), next_step="backup"),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_a_mistake_is_answered_with_its_cure(mistake: Mistake, tmp_path: Path) -> None:
    city = City.make(tmp_path, [*rows(people=PEOPLE), *mistake.rows])
    mistake.before(city)
    known = city.ledger.exists() and city.ledger.read_bytes()
    files = {"EVENTS": city.events, "DOMAIN": city.folder / "domain.json"}
    content = {name: path.exists() and path.read_bytes() for name, path in files.items() if path.is_file()}
    options = {name: str(files.get(str(value), value)) if str(value) in files else value
               for name, value in mistake.options.items()}  # fmt: skip
    outcome = city.publish("--json", **options)
    assert outcome.code == mistake.code, outcome.err
    error = outcome.json["error"]
    assert (error["type"], error["name"]) == (mistake.kind, mistake.name)
    assert error["outcome"].startswith("nothing")
    assert mistake.next_step in error["next_step"]
    assert error["next_step"].strip()
    assert outcome.err.startswith(f"error: {error['message']}")
    assert error["next_step"] in outcome.err
    assert mistake.says in error["message"]
    assert not city.table.exists()
    assert content == {name: files[name].read_bytes() for name in content}
    assert (city.ledger.exists() and city.ledger.read_bytes()) == known
    folder = str(city.folder)
    assert_nothing_private(outcome.out.replace(folder, ""), outcome.err.replace(folder, ""))


def assert_nothing_private(out: str, err: str) -> None:
    line, *notes = err.splitlines()
    for secret in (SECRET_PLACE, SECRET_USER):
        assert secret not in out + err
    # Six hours of seven people: no count of rows and no number of a row.
    count = 6 * PEOPLE
    for number in (count, count + 1, count + 2):
        assert not re.search(rf"(?<!\d){number}(?!\d)", out + line)
    assert all(note.startswith("for the operator alone, do not publish: ") for note in notes)


LEDGER_AND_DOMAIN = "--domain domain.json --ledger b.db"
HISTOGRAM = f"histogram visits.csv --user id --epsilon 1 {LEDGER_AND_DOMAIN}"
POINTS = "points visits.csv --at age --distance 5 --epsilon 1 --user id --ledger b.db"
RANGE = "--time ts --every 1h --start 2024-01-01 --end 2024-01-01T06:00 --ledger b.db"
ELSEWHERE = {
    "publsh visits.csv": ("UsageError", "publsh", "publish"),
    "ledger shw b.db": ("UsageError", "shw", "ledger show"),
    "publish visits.csv --epsiln 1": ("NoSuchOption", "--epsiln", "publish --help"),
    "plan --epsilon 1 --window 3": ("MissingParameter", "weights", "plan --help"),
    "advise --count many --epsilon 1": ("BadParameter", "count", "advise --help"),
    f"publish visits.csv visits.csv --user id --epsilon 1 --window 3 {RANGE}": ("InvalidInputError", "file", "once"),
    f"{HISTOGRAM} --level 95": ("InvalidInputError", "level", "0.95"),
    f"{HISTOGRAM} --method magic": ("InvalidInputError", "histogram", ""),
    f"{HISTOGRAM} --post magic": ("InvalidInputError", "post", "--post"),
    f"{HISTOGRAM} --row-per-person": ("InvalidInputError", "user", "--row-per-person"),
    f"{HISTOGRAM} --plot x.html": ("InvalidInputError", "output", ""),
    f"histogram visits.csv --epsilon 1 {LEDGER_AND_DOMAIN}": ("InvalidInputError", "user", "--user"),
    f"{POINTS} --release mode --low 0 --high 9": ("InvalidInputError", "release", "--release"),
    f"{POINTS} --release median --low 9 --high 0": ("InvalidDomainError", "side 9..0", ""),
    f"{POINTS} --release median --low 0 --high 9 --quantile 2": ("InvalidInputError", "quantile", "--quantile"),
    f"{POINTS} --release grid --low 0 --high 9 --plot x.html": ("InvalidInputError", "output", ""),
    f"series visits.csv {RANGE} --epsilon 1": ("InvalidInputError", "value", "--count"),
    f"series visits.csv {RANGE} --count --epsilon 1": ("InvalidInputError", "user", "--user"),
    "series visits.csv --time ts --every 1 --start a --end b --count --user id --epsilon 1 --ledger b.db": (
        "InvalidInputError", "every", "whole numbers"),
    f"bound visits.csv {RANGE}": ("InvalidInputError", "user", "--row-per-person"),
    f"bound visits.csv --user ts {RANGE}": ("InvalidInputError", "user", "--row-per-person"),
    f"bound visits.csv --user id {RANGE} --publish-epsilon 1": ("InvalidInputError", "publish_epsilon", "--count"),
    "synthesize visits.csv --domain domain.json --epsilon 1 --out o.csv --measure 1": (
        "InvalidInputError", "measure", "--report"),
    "synthesize visits.csv --domain domain.json --epsilon 1 --out visits.csv": ("InvalidInputError", "out", "own"),
    "advise": ("InvalidInputError", "count", "--population"),
    "advise --count 100": ("InvalidInputError", "epsilon", "--error"),
    "advise --count 100 --epsilon 1 --error 5": ("InvalidInputError", "epsilon", "not both"),
    "histogram visits.csv --user id --epsilon 1 --ledger b.db": ("MissingParameter", "domain", "JSON file"),
    "histogram visits.csv --user id --domain domain.json --epsilon 1": ("MissingParameter", "ledger", "--ledger"),
    "compare visits.csv": ("MissingParameter", "time", "--time"),
    "token add": ("UsageError", "add", "create"),
    "population create people": ("UsageError", "create", ""),
    "mechanisms uniform": ("UsageError", "command", "--help"),
    "ledger releases b.db": ("LedgerError", "ledger", "check its name"),
    "advise --count 5 --epsilon 1 --every 7x": ("InvalidInputError", "duration", "1h"),
    "advise --count 5 --error much": ("InvalidInputError", "error", "--error"),
    "compare visits.csv --time ts --every 1h --window 3": ("InvalidInputError", "public", "--public"),
    "plan --weights '1 -1' --epsilon 1 --window 3": ("InvalidInputError", "weights[1] -1", ""),
    "audit nonsense": ("InvalidInputError", "mechanism", ""),
    "ledger show nowhere.db": ("LedgerError", "ledger", "publish --ledger"),
    "budget visits.csv": ("LedgerError", "ledger", "docs/ledger.md"),
}  # fmt: skip
"""A command line -> the type of its error, what it blames, and a part of the next step."""


@pytest.mark.parametrize("line", ELSEWHERE)
def test_a_mistake_with_another_command_is_answered_too(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    city = City.make(tmp_path, rows(people=PEOPLE))
    city.events.rename(tmp_path / "visits.csv")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    outcome = veilstream(*shlex.split(line), "--json")
    error = outcome.json["error"]
    kind, name, next_step = ELSEWHERE[line]
    assert (error["type"], error["name"]) == (kind, name)
    assert outcome.code == (4 if kind == "LedgerError" else 2)
    assert error["outcome"].startswith("nothing")
    assert next_step in error["next_step"]
    assert error["next_step"].strip()
    assert sorted(tmp_path.iterdir()) == before
    assert_nothing_private(outcome.out.replace(str(tmp_path), ""), outcome.err.replace(str(tmp_path), ""))


def test_there_are_many_mistakes_and_most_have_a_cure_of_their_own() -> None:
    assert len(MISTAKES) + len(ELSEWHERE) >= 150
    assert len({mistake.what for mistake in MISTAKES}) == len(MISTAKES)
    assert sum(bool(mistake.next_step) for mistake in MISTAKES) >= 20
