"""Steps of several streams in one commit: shared waits, and nothing visible or remembered before it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, Engine, event

import veilstream as vs
from veilstream.errors import LedgerBusyError
from veilstream.mechanisms.streams.uniform import State, Uniform
from veilstream.release.together import feed_together
from veilstream.storage.ledger import Ledger
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values

GUARANTEE = vs.Guarantee(1, w=4)
COUNTS = np.array([30, 40])


class Breaks(Uniform):
    """Raises after it was charged."""

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        super().step(state, now, meter)
        raise ZeroDivisionError


@pytest.fixture
def url(new_ledger: Callable[[], str]) -> str:
    return new_ledger()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as ledger:
        yield ledger


def publishers(ledger: Ledger, count: int) -> list[vs.Publisher[Any]]:
    return [vs.Publisher(2, GUARANTEE, Uniform(), ledger, stream=f"s{i}") for i in range(count)]


def test_twenty_streams_share_one_commit(ledger: Ledger) -> None:
    streams = publishers(ledger, 20)
    commits: list[Connection] = []
    note = commits.append
    event.listen(Engine, "commit", note)
    try:
        made = feed_together(ledger, [partial(one.feed, COUNTS) for one in streams])
    finally:
        event.remove(Engine, "commit", note)
    assert len(commits) == 1
    releases = [one for one in made if isinstance(one, vs.Release)]
    assert [one.stream for one in releases] == [f"s{i}" for i in range(20)]
    stored = {one.stream: one.values.tolist() for one in ledger.releases()}
    assert stored == {one.stream: one.values.tolist() for one in releases}


def test_several_steps_of_one_stream_go_on_afterwards(ledger: Ledger, url: str) -> None:
    (stream,) = publishers(ledger, 1)
    feed_together(ledger, [lambda: stream.feed(COUNTS)] * 3)
    assert stream.feed(COUNTS).t == 3
    with Ledger.open(url) as again:
        (reopened,) = publishers(again, 1)
        assert reopened.feed(COUNTS).t == 4


def test_nobody_sees_a_release_before_the_commit(ledger: Ledger, url: str) -> None:
    first, second = publishers(ledger, 2)
    seen: list[int] = []

    def look() -> vs.Release:
        release = second.feed(COUNTS)
        with Ledger.open(url) as other:
            seen.append(len(list(other.releases())))
        return release

    feed_together(ledger, [lambda: first.feed(COUNTS), look])
    assert seen == [0]
    assert len(list(ledger.releases())) == 2


def test_a_refused_stream_leaves_the_others_alone(ledger: Ledger) -> None:
    first, second = publishers(ledger, 2)
    made = feed_together(ledger, [lambda: first.feed(np.array([1, 2, 3])), lambda: second.feed(COUNTS)])
    assert isinstance(made[0], vs.InvalidInputError)
    assert isinstance(made[1], vs.Release)
    assert first.feed(COUNTS).t == 0


def test_charges_of_a_mechanism_that_raises_stay(ledger: Ledger) -> None:
    (whole,) = publishers(ledger, 1)
    broken = vs.Publisher(2, GUARANTEE, Breaks(), ledger, stream="broken")
    with pytest.raises(ZeroDivisionError):
        feed_together(ledger, [lambda: whole.feed(COUNTS), lambda: broken.feed(COUNTS)])
    assert [row.charge.epsilon for row in ledger.charges("broken")] == [Fraction(1, 4)]
    assert [one.t for one in ledger.releases("s0")] == [0]


def test_a_commit_that_fails_released_nothing_and_publishers_go_on(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = publishers(ledger, 3)
    for one in streams:
        one.feed(COUNTS)

    def refuse(_connection: Connection) -> None:
        raise vs.LedgerError(name="ledger", value="budget.db", limit="the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr("sqlalchemy.Connection.commit", refuse)
        with pytest.raises(vs.LedgerError):
            feed_together(ledger, [partial(one.feed, COUNTS) for one in streams])
    assert [ledger.head(f"s{i}") for i in range(3)] == [0, 0, 0]
    assert [one.feed(COUNTS).t for one in streams] == [1, 1, 1]
    assert [one.feed(COUNTS).left for one in streams] == [Fraction(1, 4)] * 3


def test_two_groups_that_meet_crosswise_lose_nothing(url: str) -> None:
    """Each may hold what the other wants: whoever is refused is told so in words, and goes on afterwards."""
    with Ledger.open(url) as ledger:
        publishers(ledger, 2)
    made: list[vs.Release | vs.VeilstreamError] = []
    both = threading.Barrier(2)

    def feed(order: int) -> None:
        with Ledger.open(url, timeout=60) as mine:
            first, second = publishers(mine, 2)[::order]

            def slowly() -> vs.Release:
                release = first.feed(COUNTS)
                # The other one takes its first stream meanwhile, where the database lets it.
                time.sleep(0.3)
                return release

            both.wait(timeout=60)
            made.extend(feed_together(mine, [slowly, partial(second.feed, COUNTS)]))
            made.extend(feed_together(mine, [partial(first.feed, COUNTS), partial(second.feed, COUNTS)]))

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(feed, order) for order in (1, -1)]:
            done.result()
    releases = [one for one in made if isinstance(one, vs.Release)]
    assert len(made) == 8
    assert {type(one) for one in made} <= {vs.Release, LedgerBusyError}
    with Ledger.open(url) as ledger:
        stored = {(one.stream, one.t): one.values.tolist() for one in ledger.releases()}
        charged = {name: len(list(ledger.charges(name))) for name in ("s0", "s1")}
    assert stored == {(one.stream, one.t): one.values.tolist() for one in releases}
    for name, charges in charged.items():
        assert sorted(t for stream, t in stored if stream == name) == list(range(charges))
