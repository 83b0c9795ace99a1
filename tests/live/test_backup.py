"""A backup is one checked unit of ledger, spool, keys and marks; going on from one charges and counts nobody twice."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live.test_stream import HOUR, START, hourly, opened, rows
from veilstream.errors import LedgerError
from veilstream.live import open_stream
from veilstream.live.backup import Place, back_up, checked, disagreements, restore, restore_here
from veilstream.live.clock import SettableClock
from veilstream.server.tokens import metadata
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.verifying import verify

TABLES = metadata.sorted_tables
LIMITED = {"window": 4, "presence": 1, "mechanism": "uniform"}


def closed(stream: Any, clock: SettableClock, steps: int) -> list[list[float]]:
    """Publish some steps; what they say."""
    found: list[list[float]] = []
    for _ in range(steps):
        clock.tick += HOUR
        found += [release.values.tolist() for release in stream.close_due()]
    return found


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(START + HOUR // 2)


def test_a_backup_goes_on_where_no_window_holds_both(clock: SettableClock, tmp_path: Path) -> None:
    with opened(tmp_path, clock, **LIMITED) as stream:
        stream.add(rows("ann", at=clock.tick), batch_id="first")
        closed(stream, clock, 2)
        stream.add(rows("bob", at=clock.tick))
        back_up(Place(str(tmp_path / "b.db")), tmp_path / "copy", TABLES)
        # What the backup does not know: two steps, with cem in them.
        stream.add(rows("cem", at=clock.tick))
        closed(stream, clock, 2)
        head, period = stream.ledger.head("s"), stream.definition.guarantee.period
    assert head is not None
    assert period is not None
    for path in tmp_path.glob("b.db*"):
        if path.suffix != ".mark":
            path.unlink()
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in (tmp_path / "copy").rglob("*"))
    place = Place(str(tmp_path / "b.db"))
    planned = restore(tmp_path / "copy", place, {}, beside=TABLES, apply=False)
    assert not (tmp_path / "b.db").exists()
    done = restore(tmp_path / "copy", place, {}, beside=TABLES, apply=True)
    (loss,) = done.ledger.losses
    assert planned == done
    assert (loss.last, loss.resume) == (head, head + period)
    assert done.spool == {"s": head + period}
    with opened(tmp_path, clock, **LIMITED) as stream:
        assert closed(stream, clock, 2) == []
        clock.tick = START + (head + period) * HOUR + 1
        stream.add(rows("cem", at=clock.tick))
        assert [values[0] for values in closed(stream, clock, 2)] == [1]
        assert next(r.t for r in stream.releases(after=loss.first)) == head + period
        assert verify(stream.ledger) == []
    assert (tmp_path / "copy").is_dir()
    checked(tmp_path / "copy")


@pytest.mark.parametrize("limited", [{}, LIMITED])
def test_an_old_spool_goes_on_when_the_operator_says_so(
    limited: dict[str, Any], clock: SettableClock, tmp_path: Path
) -> None:
    spool = tmp_path / "b.db.spool"
    with opened(tmp_path, clock, **limited) as stream:
        stream.add(rows("ann", at=clock.tick))
    old = spool.read_bytes()
    with opened(tmp_path, clock, **limited) as stream:
        closed(stream, clock, 3)
        head, period = stream.ledger.head("s"), stream.definition.guarantee.period
    assert head is not None
    assert period is not None
    for beside in ("-wal", "-shm"):
        spool.with_name(spool.name + beside).unlink(missing_ok=True)
    spool.write_bytes(old)
    place = Place(str(tmp_path / "b.db"))
    expected = {"s": head + 1 + period if limited else head + 1}
    assert [finding.stream for finding in disagreements(place)] == ["s"]
    assert restore_here(place, {}, apply=False).spool == expected
    done = restore_here(place, {}, apply=True)
    assert done.spool == expected
    assert len(done.ledger.losses) == bool(limited)
    with opened(tmp_path, clock, **limited) as stream:
        clock.tick = START + expected["s"] * HOUR + 1
        stream.add(rows("ann", at=clock.tick))
        assert next(values[0] for values in closed(stream, clock, 2)) == 1
        assert verify(stream.ledger) == []
    assert restore_here(place, {}, apply=True).ledger.losses == []
    assert disagreements(place) == []


@pytest.mark.parametrize("kinds", [("sqlite", "postgres"), ("postgres", "postgres"), ("postgres", "sqlite")])
@pytest.mark.xdist_group("postgres")
def test_a_backup_goes_from_either_database_to_either(
    kinds: tuple[str, str],
    clock: SettableClock,
    new_postgres: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = [
        new_postgres() if kind == "postgres" else str(tmp_path / f"{n}.db") for n, kind in enumerate(kinds)
    ]
    with open_stream(source, "s", hourly(**LIMITED), clock=clock) as stream:
        stream.add(rows("ann", at=clock.tick), batch_id="first")
        closed(stream, clock, 2)
        stream.add(rows("bob", at=clock.tick), batch_id="second")
        back_up(Place(source), tmp_path / "copy", TABLES)
        exported = [release.values.tolist() for release in stream.releases()]
    # Another machine.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = Place(target)
    with pytest.raises(LedgerError, match="no mark"):
        restore(tmp_path / "copy", place, {}, beside=TABLES, apply=True)
    head = len(exported) - 1
    assert restore(tmp_path / "copy", place, {"s": head}, beside=TABLES, apply=True).ledger.losses == []
    with open_stream(target, "s", hourly(**LIMITED), clock=clock) as stream:
        assert stream.add(rows("bob", at=clock.tick), batch_id="second") == "duplicate"
        assert [release.values.tolist() for release in stream.releases()] == exported
        closed(stream, clock, 2)
        assert verify(stream.ledger) == []
    with pytest.raises(LedgerError, match="empty place"):
        restore(tmp_path / "copy", place, {"s": head}, beside=TABLES, apply=True)


def test_a_backup_of_a_running_stream_is_of_one_moment(clock: SettableClock, tmp_path: Path) -> None:
    """Copies are taken while another thread adds and closes; each can be gone on from."""
    stop, failed = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            with opened(tmp_path, clock) as stream:
                while not stop.is_set():
                    stream.add(rows("ann", at=clock.tick))
                    closed(stream, clock, 1)
        except BaseException as error:
            failed.append(error)

    opened(tmp_path, clock).close()
    worker = threading.Thread(target=work)
    worker.start()
    try:
        for n in range(8):
            back_up(Place(str(tmp_path / "b.db")), tmp_path / f"copy-{n}", TABLES)
    finally:
        stop.set()
        worker.join()
    assert failed == []
    for n in range(8):
        there = tmp_path / f"there-{n}"
        there.mkdir()
        with Ledger.open(tmp_path / f"copy-{n}" / "ledger.db") as ledger:
            heads = {spec.name: ledger.head(spec.name) for spec in ledger.streams()}
        last = {name: -1 if head is None else head for name, head in heads.items()}
        restore(tmp_path / f"copy-{n}", Place(str(there / "b.db")), last, beside=TABLES, apply=True)
        opened(there, clock).close()


@pytest.mark.parametrize("harm", ["altered", "missing", "more"])
def test_a_damaged_backup_is_refused(harm: str, clock: SettableClock, tmp_path: Path) -> None:
    with opened(tmp_path, clock) as stream:
        closed(stream, clock, 1)
    back_up(Place(str(tmp_path / "b.db")), tmp_path / "copy", TABLES)
    spool = tmp_path / "copy" / "spool.db"
    if harm == "missing":
        spool.unlink()
    elif harm == "more":
        (tmp_path / "copy" / "keys" / "x.key").write_text("")
    else:
        content = bytearray(spool.read_bytes())
        content[len(content) // 2] ^= 1
        spool.write_bytes(content)
    with pytest.raises(LedgerError, match="altered"):
        restore(tmp_path / "copy", Place(str(tmp_path / "new.db")), {"s": 0}, beside=TABLES, apply=True)
    assert not (tmp_path / "new.db").exists()
