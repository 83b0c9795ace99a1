"""People who count in few steps, live: the counts of the one pass over files, whatever comes between."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream import Population
from veilstream.data import Calendar, Domain, read_events
from veilstream.data.bounding import bound
from veilstream.errors import BudgetExceededError, InvalidInputError, LedgerError, LedgerMismatchError
from veilstream.live import LiveStream, Spool, closing, open_stream
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


@pytest.mark.parametrize("promise", PROMISES)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VISITS, st.lists(st.booleans(), min_size=STEPS, max_size=STEPS))
def test_the_same_people_count_as_in_one_pass_over_a_file(
    tmp_path_factory: pytest.TempPathFactory, promise: str, visits: list[tuple[int, int, int]], again: list[bool]
) -> None:
    """Rows come step by step, and now and then the process ends between two of them."""
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


def test_a_step_that_is_taken_up_again_has_the_same_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill after publishing and before forgetting: the history of before is used again."""
    seen: list[NDArray[np.int64]] = []
    made = closing.sealed_step

    def record(*given_: Any) -> Any:
        snapshot = made(*given_)
        seen.append(open_counts(snapshot))
        return snapshot

    def killed(*_given: Any) -> None:
        raise LedgerError("killed")

    monkeypatch.setattr(closing, "sealed_step", record)
    stream = live(tmp_path / "b.db", window=4, presence=1)
    stream.add({"id": [1, 2], "ts": [0, 0], "place": ["a", "a"]})
    stream.close_until(1)
    stream.add({"id": [1, 3], "ts": [1, 1], "place": ["a", "b"]})
    with monkeypatch.context() as patched:
        patched.setattr(Spool, "forget", killed)
        with pytest.raises(LedgerError):
            stream.close_until(2)
    stream.close()
    with live(tmp_path / "b.db", window=4, presence=1) as stream:
        (release,) = stream.close_until(2)
        assert release.t == 1
        assert [one.tolist() for one in seen] == [[2, 0], [0, 1], [0, 1]]
        current = stream.spool.stream("s")
        assert current is not None
        present = stream.spool.present(current)
        assert present is not None
        assert present.left_out == 1
        assert "history" not in repr(present)


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
