"""Whatever is changed in a ledger behind its back is refused when the stream goes on, and named by ``verify``."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

import veilstream as vs
from tests.storage.ledger.support import copy_of
from veilstream.errors import LedgerError
from veilstream.mechanisms.streams import DSAT
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.exporting import export
from veilstream.storage.ledger.marks import Marks
from veilstream.storage.ledger.records import Mark
from veilstream.storage.ledger.verifying import verify

COUNTS = np.array([40, 7, 0])
STEPS = 12
EDITS = {
    "a charge deleted": "DELETE FROM charges WHERE id = 3",
    "all charges deleted": "DELETE FROM charges",
    "the last charge deleted": "DELETE FROM charges WHERE id = (SELECT max(id) FROM charges)",
    "epsilon made small": "UPDATE charges SET epsilon = '1/1000000' WHERE id = 2",
    "epsilon made negative": "UPDATE charges SET epsilon = '-5' WHERE id = 2",
    "epsilon no number": "UPDATE charges SET epsilon = 'x' WHERE id = 2",
    "a span moved": "UPDATE charges SET first = first - 100, last = last - 100 WHERE id = 2",
    "a charge of another step": "UPDATE charges SET t = t + 1 WHERE id = 2",
    "a failed charge called released": "UPDATE charges SET outcome = 'failed' WHERE id = 2",
    "a purpose renamed": "UPDATE charges SET purpose = 'nothing' WHERE id = 2",
    "a block renamed": "UPDATE charges SET block = 77 WHERE block IS NOT NULL",
    "a charge added": "INSERT INTO charges SELECT 999, stream_id, t, first, last, purpose, epsilon, mu_squared, "
    "epsilon_decimal, block, outcome, bins_array, starts_array FROM charges WHERE id = 1",
    "the last step deleted": "DELETE FROM steps WHERE seq = (SELECT max(seq) FROM steps)",
    "a step in the middle deleted": "DELETE FROM steps WHERE seq = 4",
    "a step moved": "UPDATE steps SET t = t + 50 WHERE seq = 4",
    "values swapped between steps": "UPDATE steps SET values_array = CASE seq WHEN 1 THEN (SELECT values_array FROM "
    "steps WHERE seq = (SELECT max(seq) FROM steps)) ELSE (SELECT values_array FROM steps WHERE seq = 1) END "
    "WHERE seq = 1 OR seq = (SELECT max(seq) FROM steps)",
    "a release called fresh": "UPDATE steps SET fresh = NOT fresh WHERE seq = 2",
    "what is left raised": "UPDATE steps SET \"left\" = '1' WHERE seq = 6",
    "the law of the noise": "UPDATE steps SET law = 'gaussian' WHERE seq = 2",
    "a law that is none": "UPDATE steps SET law = 'x' WHERE seq = 2",
    "the noise made small": "UPDATE steps SET std = 0.5 WHERE seq = 2",
    "the state taken back": "UPDATE secret_states SET t = t - 1",
    "the header of the state": "UPDATE secret_states SET header = replace(header, 'step', 'stop')",
    "slots of the state": "UPDATE secret_states SET slots = '[]'",
    "the state deleted": "DELETE FROM secret_states",
    "arrays of the state deleted": "DELETE FROM secret_arrays",
    "the guarantee": "UPDATE streams SET guarantee = replace(guarantee, '\"w\": 7', '\"w\": 70')",
    "the bound per person": "UPDATE streams SET l1 = 5",
    "the mechanism": "UPDATE streams SET mechanism = 'x'",
    "an entry of the chain deleted": "DELETE FROM chain WHERE number = 3",
    "the chain deleted": "DELETE FROM chain",
    "a digest of the chain": "UPDATE chain SET digest = 'ff' WHERE number = 5",
    "the key deleted": "DELETE FROM secret_keys",
    "a failure hidden": "DELETE FROM failures",
    "the block list": "DELETE FROM blocks",
    "the counter": "UPDATE counter SET seq = 99",
    "a trigger that eats charges": "CREATE TRIGGER eat AFTER INSERT ON charges BEGIN DELETE FROM charges; END",
}
ONLY_VERIFIED = {"the counter", "the block list"}
"""What changes nothing that is charged or drawn next: the stream goes on, and ``verify`` names it."""


def publisher(path: Path) -> vs.Publisher[Any]:
    return vs.Publisher(3, vs.Guarantee(1, w=7), DSAT(), path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger in one file, with a failed step."""
    path = tmp_path_factory.mktemp("made") / "ledger.db"
    with publisher(path) as p:
        for _ in range(STEPS):
            p.feed(COUNTS)
        with p.ledger.transaction("default") as transaction:
            charge = vs.Charge(Fraction(0), vs.Span(STEPS, STEPS), "publish")
            transaction.commit_failure(STEPS, [charge], "RuntimeError")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return path


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """A copy with a mark that says nothing: the chain alone must tell."""
    path = tmp_path / "ledger.db"
    shutil.copy(made, path)
    path.chmod(0o600)
    Marks(path).replace("default", Mark())
    return path


def edit(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def problems(path: Path) -> list[str]:
    try:
        with Ledger.open(path, timeout=1) as ledger:
            return [finding.problem for finding in verify(ledger)]
    except LedgerError as error:
        return [str(error)]


def test_what_nobody_touched_is_in_order(copy: Path) -> None:
    assert problems(copy) == []
    with publisher(copy) as p:
        assert p.feed(COUNTS).t == STEPS
    assert problems(copy) == []


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_named_and_refused(name: str, copy: Path) -> None:
    before = copy.read_bytes()
    edit(copy, EDITS[name])
    assert copy.read_bytes() != before
    assert problems(copy) != []
    if name not in ONLY_VERIFIED:
        with pytest.raises(LedgerError), publisher(copy) as p:
            p.feed(COUNTS)


def history(path: Path) -> tuple[Any, ...]:
    """All that matters: what was released and charged, and what comes next."""
    with Ledger.open(path, timeout=1) as ledger:
        told = export(ledger, "default")
        with ledger.transaction("default") as transaction:
            state = transaction.state()
            assert state is not None
            return repr(told), transaction.head, state.header, [x.tobytes() for x in state.arrays]


@pytest.mark.parametrize("flips", [60, pytest.param(1000, marks=pytest.mark.audit)])
def test_no_flipped_byte_changes_history_unnoticed(flips: int, made: Path, tmp_path: Path) -> None:
    """Bytes of pages that hold nothing may change: then history is what it was. The rest is refused or named."""
    original, path = made.read_bytes(), tmp_path / "ledger.db"
    path.touch(0o600)
    path.write_bytes(original)
    Marks(path).replace("default", Mark())
    expected = history(path)
    state, silent, named = 20_150, [], 0
    for _ in range(flips):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        position, bit = (state >> 24) % len(original), 1 << (state >> 20) % 8
        flipped = bytearray(original)
        flipped[position] ^= bit
        path.write_bytes(flipped)
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        if problems(path):
            named += 1
        elif history(path) != expected:
            silent.append(position)
    assert silent == []
    assert named > flips // 100


def test_a_rolled_back_ledger_is_refused(made: Path, tmp_path: Path) -> None:
    path, yesterday = tmp_path / "ledger.db", tmp_path / "yesterday.db"
    with publisher(path) as p:
        for _ in range(3):
            p.feed(COUNTS)
        copy_of(p.ledger, yesterday)
        p.feed(COUNTS)
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    shutil.copy(yesterday, path)
    with pytest.raises(LedgerError, match="rolled back: 1 commits"), publisher(path) as p:
        p.feed(COUNTS)
    path.unlink()
    with pytest.raises(LedgerError, match="rolled back"), publisher(path) as p:
        p.feed(COUNTS)


def test_a_ledger_that_went_another_way_is_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "ledger.db", tmp_path / "other.db"
    with publisher(path) as p:
        p.feed(COUNTS)
        copy_of(p.ledger, other)
        p.feed(COUNTS)
    with pytest.raises(LedgerError, match="no mark"), publisher(other) as p:
        p.feed(COUNTS)
    Marks(other).replace("default", Mark())
    with publisher(other) as p:
        p.feed(COUNTS)
        p.feed(COUNTS)
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    shutil.copy(other, path)
    with pytest.raises(LedgerError, match="rolled back: other commits"), publisher(path) as p:
        p.feed(COUNTS)


def test_a_ledger_without_its_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with publisher(path) as p:
        p.feed(COUNTS)
        shutil.copy(path, tmp_path / "shell.db")
        p.feed(COUNTS)
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    shutil.copy(tmp_path / "shell.db", path)
    with pytest.raises(LedgerError), publisher(path) as p:
        p.feed(COUNTS)


def test_a_file_replaced_under_an_open_publisher_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with publisher(path) as p:
        p.feed(COUNTS)
        copy_of(p.ledger, tmp_path / "copy.db")
        (tmp_path / "copy.db").replace(path)
        with pytest.raises(LedgerError):
            p.feed(COUNTS)


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("name", ["epsilon made small", "the last charge deleted", "values swapped between steps"])
def test_an_edit_on_a_server_is_named_and_refused(name: str, new_postgres: Callable[[], str]) -> None:
    url = new_postgres()
    with vs.Publisher(3, vs.Guarantee(1, w=7), DSAT(), url) as p:
        for _ in range(STEPS):
            p.feed(COUNTS)
        assert verify(p.ledger) == []
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text(EDITS[name]))
    with vs.Publisher(3, vs.Guarantee(1, w=7), DSAT(), url) as p:
        assert verify(p.ledger) != []
        with pytest.raises(LedgerError):
            p.feed(COUNTS)
