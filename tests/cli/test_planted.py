"""No command tells an id, a value or the number of private rows: they are planted in its input and searched for.

The registry of commands drives the cases. Only lines of stderr that are marked for the operator may know of rows.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from veilstream.cli.app import COMMANDS
from veilstream.storage.ledger.schema import PUBLIC

from .support import Outcome, veilstream

ID = "zz.planted@id.example"
VALUE = "planted-value-90210"
NUMBER = "73.19171"
ROWS = 1237
MARK = re.compile(r"operator alone, do not publish")
PEOPLE = [
    f"2024-01-01T{i % 6:02d}:{i % 60:02d}:00,person-{i},{'ab'[i % 2]},{20 + i % 60},{1 + i % 3}" for i in range(ROWS)
]
HEADER = "ts,id,place,age,epsilon"
PUBLISH = (
    "--time ts --every 1h --start 2024-01-01 --end 2024-01-01T06:00 --epsilon 1 --ledger b.db "
    "--window 3 --mechanism uniform"
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """A command that reads private rows, and what is public about their number."""

    words: str
    count_is_public: bool = False

    def run(self, *more: str) -> Outcome:
        return veilstream(*self.words.split(), *more)


READERS = {
    "publish": Reader(f"publish rows.csv {PUBLISH} --user id --domain domain.json --out out.csv"),
    "series": Reader(
        "series rows.csv --time ts --count --user id --every 1h --start 2024-01-01 --end 2024-01-01T06:00 --epsilon 1 "
        "--ledger b.db --out out.csv"
    ),
    "histogram": Reader("histogram rows.csv --user id --epsilon 1 --domain domain.json --ledger b.db --out out.csv"),
    "synthesize": Reader(
        "synthesize rows.csv --user id --epsilon 1 --domain domain.json --ledger b.db --out out.csv --rows 20"
    ),
    "personalised": Reader(
        "personalised rows.csv --person id --domain domain.json --by place --ledger b.db --out out.csv "
        "--method minimum",
        count_is_public=True,
    ),
    "points": Reader(
        "points rows.csv --release median --at age --low 0 --high 120 --distance 5 --epsilon 1 --user id --ledger b.db "
        "--out out.csv",
        count_is_public=True,
    ),
    "bound": Reader(
        "bound rows.csv --time ts --user id --every 1h --start 2024-01-01 --end 2024-01-01T06:00 --ledger b.db"
    ),
    "presence": Reader(
        "presence choose rows.csv --time ts --user id --every 1h --start 2024-01-01 --end 2024-01-01T06:00 "
        "--ledger b.db --publish-epsilon 1 --window 3"
    ),
}  # fmt: skip
WITHOUT_ROWS = {
    "plan": "public weights", "advise": "public facts", "compare": "data declared public", "mechanisms": "a list",
    "ledger": "what is released; its tables are searched below", "serve": "rows over HTTP, in a test of its own",
    "token": "who may use the service", "audit": "its own data", "demo": "public data", "version": "nothing",
    "backup": "copies", "restore": "copies", "population": "a promise", "budget": "what is recorded of charges",
}  # fmt: skip

Spoil = Callable[[Path], list[str]]


def rows(*more: str, header: str = HEADER) -> Callable[[Path], list[str]]:
    def write(folder: Path) -> list[str]:
        (folder / "rows.csv").write_text("\n".join([header, *PEOPLE, *more]) + "\n")
        return []

    return write


def options(*words: str) -> Spoil:
    return lambda _folder: list(words)


def ledger_of_something_else(folder: Path) -> list[str]:
    (folder / "b.db").write_text("hello")
    return []


def other_bytes(folder: Path) -> list[str]:
    (folder / "rows.csv").write_bytes(f"{HEADER}\n{VALUE}\xff\xfe,{ID}\n".encode("latin-1"))
    return []


def a_frame_of_lists(folder: Path) -> list[str]:
    import polars as pl

    frame = pl.read_csv(folder / "rows.csv", infer_schema=False).with_columns(
        pl.concat_list("place", "id").alias("place")
    )
    frame.write_parquet(folder / "rows.csv.parquet")
    (folder / "rows.csv").unlink()
    (folder / "rows.csv.parquet").rename(folder / "rows.csv")
    return []


SPOILED: dict[str, Spoil] = {
    "an unknown value": rows(f"2024-01-01T01:00:00,{ID},{VALUE},30,1"),
    "a word for a number": rows(f"2024-01-01T01:00:00,{ID},a,{VALUE},{VALUE}"),
    "a number out of range": rows(f"2024-01-01T01:00:00,{ID},a,{NUMBER}9999,-{NUMBER}"),
    "a word for a time": rows(f"{VALUE},{ID},a,30,1"),
    "a time out of range": rows(f"2031-09-17T13:37:00,{ID},a,30,1"),
    "an offset on one row": rows(f"2024-01-01T01:00:00+13:00,{ID},a,30,1"),
    "a row without a person": rows(f"2024-01-01T01:00:00,,{VALUE},30,1"),
    "a person twice": rows(f"2024-01-01T01:00:00,{ID},a,30,1", f"2024-01-01T01:00:00,{ID},b,{NUMBER},2"),
    "a row too long": rows(f"2024-01-01T01:00:00,{ID},a,30,1,{VALUE}"),
    "a row too short": rows(f"{ID},{VALUE}"),
    "an open quote": rows(f'2024-01-01T01:00:00,"{ID},{VALUE},30,1'),
    "no header": rows(header=f"{VALUE},{ID},planted,{VALUE}x,one"),
    "a column twice": rows(header="ts,id,place,id,age"),
    "other bytes": other_bytes,
    "lists in a file of another name": a_frame_of_lists,
    "another column": options("--user", "nobody"),
    "a ledger that is none": ledger_of_something_else,
    "an output nowhere": options("--out", "nowhere/out.csv"),
    "no budget": options("--epsilon", "0"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.json").write_text('{"place": ["a", "b"], "age": {"edges": [0, 40, 120]}}')
    rows(f"2024-01-01T05:00:00,{ID},a,33,1")(tmp_path)
    return tmp_path


def told_in_public(outcome: Outcome) -> str:
    """Stdout, and of stderr what is not marked as the operator's."""
    return outcome.out + "\n".join(line for line in outcome.err.splitlines() if not MARK.search(line))


def assert_nothing_planted(text: str, *, count_is_public: bool = True) -> None:
    for planted in (ID, VALUE, NUMBER):
        assert planted not in text
    if not count_is_public:
        for count in (ROWS, ROWS + 1, ROWS + 2):
            assert not re.search(rf"(?<![\d.]){count}(?!\d)|(?<![\d.]){count:,}(?!\d)", text)


def written(folder: Path) -> str:
    """Everything that a command wrote, except keys: outputs, and the ledger's public tables."""
    texts = [path.read_text(errors="replace") for path in folder.glob("out*")]
    if (folder / "b.db").exists() and (folder / "b.db").read_bytes()[:6] == b"SQLite":
        connection = sqlite3.connect(folder / "b.db")
        texts += [str(connection.execute(f'SELECT * FROM "{table.name}"').fetchall()) for table in PUBLIC]
        connection.close()
    return "\n".join(texts)


@pytest.mark.parametrize("spoiled", SPOILED)
@pytest.mark.parametrize("name", READERS)
def test_an_error_tells_nothing_of_the_rows(
    name: str, spoiled: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    reader = READERS[name]
    more = SPOILED[spoiled](folder)
    done = reader.run(*more, "--json")
    if done.code:
        assert not reader.count_is_public or done.code in (2, 3, 4)
        assert_nothing_planted(told_in_public(done), count_is_public=reader.count_is_public)
    # A release may hold any number; what it holds of texts is the domain's.
    assert_nothing_planted(told_in_public(done) + written(folder) + caplog.text)


@pytest.mark.parametrize("name", READERS)
def test_a_release_tells_no_id_and_no_number_of_rows(name: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    done = READERS[name].run()
    assert done.code == 0, done.err
    words = re.sub(r"[\d,.]+ to [\d,.]+|\d+ number", "", told_in_public(done))
    assert_nothing_planted(words, count_is_public=READERS[name].count_is_public)
    assert_nothing_planted(written(folder) + caplog.text)


def test_the_registry_knows_every_command() -> None:
    assert set(READERS) | set(WITHOUT_ROWS) == set(COMMANDS)
