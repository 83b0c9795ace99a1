"""People who count in few steps, live: the counts of the one pass over files, whatever comes between."""

from __future__ import annotations

from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream import Population
from veilstream.data import Calendar, Domain, read_events
from veilstream.data.bounding import PresenceHistory, bound
from veilstream.data.bounding.presence_store import write_history
from veilstream.errors import BudgetExceededError, InvalidInputError, LedgerError, LedgerMismatchError
from veilstream.live import LiveStream, Spool, closing, open_stream, presence, spool_presence
from veilstream.live import spool as spooling
from veilstream.live.spool_tables import presence_heads, presence_images, presence_notes, presences
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.verifying import verify
from veilstream.trusted.opening import open_counts

STEPS = 9
PROMISES: dict[str, tuple[dict[str, Any], Guarantee]] = {
    "window": ({"window": 5, "presence": 2}, Guarantee("1000000", w=5, presence=2)),
    "block": ({"per": 3, "presence": 1}, Guarantee("1000000", per=3, presence=1)),
    "ever": ({"window": "user", "presence": 2}, Guarantee("1000000", w=None, presence=2)),
}
VISITS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, STEPS - 1), st.integers(0, 1)), max_size=40)


def definition(**changes: Any) -> dict[str, Any]:
    settings_given = {"user": "id", "time": "ts", "domain": {"place": ["a", "b"]}, "start": 0, "every": 1}
    return {**settings_given, "epsilon": "1000000", "mechanism": "uniform", "clock": "manual", **changes}


def live(ledger: Path, **changes: Any) -> LiveStream:
    return open_stream(ledger, "s", definition(**changes))


def table(visits: list[tuple[int, int, int]]) -> dict[str, list[Any]]:
    people, times, places = zip(*visits, strict=True) if visits else ((), (), ())
    return {"id": list(people), "ts": list(times), "place": ["ab"[place] for place in places]}


def by_file(visits: list[tuple[int, int, int]], guarantee: Guarantee, key: bytes) -> list[int]:
    """How many people count in each step: which bin of a person it is hangs on the key alone."""
    events = read_events(table(visits), user="id", time="ts", by=["place"])
    domain = Domain.from_json({"place": ["a", "b"]})
    with bound(events, domain, Calendar(0, STEPS, 1), key=key, presence=guarantee) as held:
        return [int(open_counts(one).sum()) for one in held.snapshots()]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds so small that a few people are too many for each of them."""
    monkeypatch.setattr(presence, "MEMORY_BYTES", 200)
    monkeypatch.setattr(presence, "PENDING_BYTES", 40)
    monkeypatch.setattr(presence, "FEWEST_BYTES", -100)
    monkeypatch.setattr(spool_presence, "PEOPLE_OF_A_NOTE", 2)
    monkeypatch.setattr(spool_presence, "OLD_BLOCKS_AT_ONCE", 1)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("promise", PROMISES)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VISITS, st.lists(st.booleans(), min_size=STEPS, max_size=STEPS))
def test_the_same_people_count_as_in_one_pass_over_a_file(
    tmp_path_factory: pytest.TempPathFactory, promise: str, visits: list[tuple[int, int, int]], again: list[bool]
) -> None:
    """Rows come step by step, and now and then the process ends between two of them. Histories go on in files, notes
    give way to images."""
    folder = tmp_path_factory.mktemp("live")
    given_settings, guarantee = PROMISES[promise]
    stream, counts = live(folder / "b.db", **given_settings), list[int]()
    for step in range(STEPS):
        here = [visit for visit in visits if visit[1] == step]
        if here:
            stream.add(table(here[::2] or here))
            stream.add(table(here[1::2]))
        counts += [round(float(release.values.sum())) for release in stream.close_until(step + 1)]
        if again[step]:
            stream.close()
            stream = live(folder / "b.db", **given_settings)
    stream.close()
    assert counts == by_file(visits, guarantee, b"a key of its own")


def killed(*_given: Any) -> None:
    raise LedgerError("killed")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("end", ["process", "call"])
@pytest.mark.parametrize("place", ["write_image", "forget", "store_present"])
def test_a_step_that_is_taken_up_again_has_the_same_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, end: str
) -> None:
    """A kill after publishing and before forgetting, or an error that the process survives: the history of before is
    used again."""
    seen: list[NDArray[np.int64]] = []
    made = closing.sealed_step

    def record(*given_: Any) -> Any:
        snapshot = made(*given_)
        seen.append(open_counts(snapshot))
        return snapshot

    monkeypatch.setattr(closing, "sealed_step", record)
    stream = live(tmp_path / "b.db", window=4, presence=1)
    stream.add({"id": [1, 2], "ts": [0, 0], "place": ["a", "a"]})
    stream.close_until(1)
    stream.add({"id": [1, 3, 1], "ts": [1, 1, 2], "place": ["a", "b", "a"]})
    with monkeypatch.context() as patched:
        patched.setattr(spooling if place == "store_present" else Spool, place, killed)
        with pytest.raises(LedgerError):
            stream.close_until(3)
    if end == "process":
        stream.close()
        stream = live(tmp_path / "b.db", window=4, presence=1)
    with stream:
        assert [release.t for release in stream.close_until(3)] == [1, 2]
        assert [one.tolist() for one in seen] == [[2, 0], [0, 1], [0, 0], [0, 1], [0, 0]]
        current = stream.spool.stream("s")
        assert current is not None
        assert stream.spool.left_out(current) == 2


def stored(stream: LiveStream, table: sa.Table) -> int:
    with stream.spool.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def test_a_step_writes_what_its_people_take(tmp_path: Path) -> None:
    """Notes of steps that the rule has passed go; the whole history is written only where notes are more than it."""
    with live(tmp_path / "b.db", window=4, presence=1) as stream:
        for step in range(9):
            stream.add(table([(who, step, 0) for who in range(5 * step, 5 * step + 5)]))
            stream.close_until(step + 1)
            assert stored(stream, presence_notes) == min(step + 1, 3)
        assert stored(stream, presence_images) == 0


def test_notes_of_regulars_give_way_to_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "FEWEST_BYTES", 0)
    monkeypatch.setattr(spool_presence, "OLD_BLOCKS_AT_ONCE", 1)
    with live(tmp_path / "b.db", window="user", presence=2) as stream:
        most = 0
        for step in range(30):
            stream.add(table([(who, step, 0) for who in range(4)]))
            stream.close_until(step + 1)
            most = max(most, stored(stream, presence_notes))
        # A note is 16 bytes a person and a record 25: the fourth note is more than twice the history.
        assert most == 3
        assert stored(stream, presence_images) == 1
    with live(tmp_path / "b.db", window="user", presence=2) as stream:
        stream.add(table([(who, 30, 0) for who in range(5)]))
        (release,) = stream.close_until(31)
        assert round(float(release.values.sum())) == 1


def test_an_image_that_no_window_reaches_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is remembered for longer than the rule looks back."""
    with live(tmp_path / "b.db", window=3, presence=1) as stream:
        stream.add(table([(1, 0, 0)]))
        with monkeypatch.context() as patched:
            patched.setattr(presence, "FEWEST_BYTES", -100)
            stream.close_until(1)
        assert stored(stream, presence_images) == 1
        stream.close_until(4)
        assert stored(stream, presence_images) == stored(stream, presence_notes) == 0


def test_a_history_of_one_value_is_read_and_gives_way(tmp_path: Path) -> None:
    """Spools of earlier versions hold the whole history in one row."""
    with live(tmp_path / "b.db", window="user", presence=1) as stream:
        stream.add(table([(1, 0, 0)]))
        stream.close_until(1)
        current = stream.spool.stream("s")
        assert current is not None
        history = PresenceHistory(current.definition.guarantee, current.key)
        known = stream.spool.present(current, 1, history)
        content = BytesIO()
        write_history(content, known.history)
        with stream.spool.write() as connection:
            for emptied in (presence_heads, presence_notes, presence_images):
                connection.execute(sa.delete(emptied))
            old = {"stream_id": current.id, "left_out": 7, "history": content.getvalue()}
            connection.execute(sa.insert(presences), old)
        assert stream.spool.left_out(current) == 7
    for step in (1, 2):
        with live(tmp_path / "b.db", window="user", presence=1) as stream:
            stream.add(table([(1, step, 0), (1 + step, step, 0)]))
            (release,) = stream.close_until(step + 1)
            assert round(float(release.values.sum())) == 1
            assert stored(stream, presences) == 0
            assert stream.spool.left_out(current) == 7 + step


def test_steps_that_another_process_closed_are_known(tmp_path: Path) -> None:
    """Two programs close one stream in turns: who was present while the other one closed is not forgotten."""
    with (
        live(tmp_path / "b.db", window="user", presence=1) as one,
        live(tmp_path / "b.db", window="user", presence=1) as other,
    ):
        for step, stream in enumerate([one, other, one, other]):
            stream.add(table([(1, step, 0), (10 + step, step, 0)]))
            (release,) = stream.close_until(step + 1)
            assert round(float(release.values.sum())) == (2 if step == 0 else 1)


def test_another_promise_is_refused(tmp_path: Path) -> None:
    live(tmp_path / "b.db", window=4, presence=1).close()
    with pytest.raises(LedgerMismatchError):
        live(tmp_path / "b.db", window=5, presence=1)
    for wrong in ({}, {"window": 4, "per": 3, "presence": 1}):
        with pytest.raises(InvalidInputError) as caught:
            live(tmp_path / "c.db", **wrong)
        assert caught.value.name == "window"


def test_live_streams_draw_on_a_population(tmp_path: Path) -> None:
    """Two streams of one population: what one spends the other lacks, and repeats its last release meanwhile."""
    with Ledger.open(tmp_path / "b.db") as ledger:
        ledger.populations.define(Population("residents", 1, window=4, every=1))
    settings_given = {"window": 1, "epsilon": "1/2", "population": "residents"}
    first = open_stream(tmp_path / "b.db", "one", definition(**settings_given))
    second = open_stream(tmp_path / "b.db", "two", definition(**settings_given))
    with first, second:
        for step in range(6):
            for stream in (first, second):
                stream.add(table([(1, step, 0)]))
                (release,) = stream.close_until(step + 1)
                assert release.fresh == (step in (0, 4))
        account = first.ledger.populations.account("residents")
        assert account.profile().peak().pure == Fraction(1)
        assert verify(first.ledger) == []
    with pytest.raises(BudgetExceededError):
        open_stream(
            tmp_path / "b.db", "three", definition(window=4, epsilon=1, population="residents", draw="reserved")
        )
    with pytest.raises(InvalidInputError) as caught:
        open_stream(tmp_path / "b.db", "four", definition(**settings_given, unit="events"))
    assert caught.value.name == "unit"
