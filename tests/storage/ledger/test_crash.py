"""Publishers that die or compete: no window overspent, no release lost, changed or made twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from hashlib import sha256
from typing import Any

import numpy as np
import pytest

from veilstream import STREAMS, Guarantee, Publisher, Release
from veilstream.storage.ledger import Ledger, StreamSpec

from .support import SPEC, fork

NewLedger = Callable[[], str]
WINDOW = 5
BINS = 20
GOLDEN = 0.6180339887498949


def fingerprint(release: Release) -> str:
    numbers = release.values.tobytes() + np.asarray(release.std).tobytes()
    return f"{release.seq} {release.spent} {release.left} {sha256(numbers).hexdigest()}"


class Child:
    """A process that runs ``work(report)`` and whose reports arrive here as they are made."""

    def __init__(self, work: Callable[[Callable[[Any], None]], None]) -> None:
        self._pipe, out = os.pipe()
        self._received = b""
        self.pid = fork()
        if self.pid == 0:
            status = 1
            try:
                work(lambda message: _write_line(out, message))
                status = 0
            except BaseException as error:
                _write_line(out, {"error": repr(error)})
            finally:
                os._exit(status)
        os.close(out)

    def wait_for(self, reports: int) -> None:
        while self._received.count(b"\n") < reports and (part := os.read(self._pipe, 1 << 16)):
            self._received += part

    def end(self, *, kill: bool = False) -> list[Any]:
        """Everything it reported, after it was killed or has finished by itself."""
        if kill:
            os.kill(self.pid, signal.SIGKILL)
        with os.fdopen(self._pipe, "rb") as pipe:
            lines = (self._received + pipe.read()).split(b"\n")
        os.waitpid(self.pid, 0)
        reports = [json.loads(line) for line in lines[:-1]]
        assert not [report for report in reports if "error" in report]
        return reports


def _write_line(pipe: int, message: Any) -> None:
    os.write(pipe, json.dumps(message).encode() + b"\n")


def publisher(url: str, mechanism: str) -> Publisher[Any]:
    return Publisher(bins=BINS, guarantee=Guarantee("1", w=WINDOW), mechanism=STREAMS[mechanism](), ledger=url)


def feed_on(url: str, mechanism: str, again: int | None) -> Callable[[Callable[[Any], None]], None]:
    """Feed the step ``again`` once more with other counts, then one new step after another, for ever."""

    def work(report: Callable[[Any], None]) -> None:
        with publisher(url, mechanism) as p:
            t = again
            while True:
                release = p.feed(np.arange(BINS) + os.getpid() % 97, t=t)
                report({"t": release.t, "is": fingerprint(release)})
                t = None

    return work


def moments(count: int) -> Iterator[float]:
    """Delays spread evenly over 0..30 ms; where in a step they fall is up to the machine."""
    return (0.030 * (i * GOLDEN % 1) for i in range(count))


def assert_sound(url: str, reported: dict[int, str], charges_per_step: int | None) -> int:
    """Check the ledger against what was reported and against its guarantee; give the number of steps."""
    with Ledger.open(url) as ledger:
        releases = list(ledger.releases("default"))
        rows = list(ledger.charges("default"))
    assert [r.t for r in releases] == list(range(len(releases)))
    assert [r.seq for r in releases] == list(range(1, len(releases) + 1))
    stored = {r.t: fingerprint(r) for r in releases}
    assert {t: stored.get(t) for t in reported} == reported
    assert {row.outcome for row in rows} <= {"released"}
    if charges_per_step is not None:
        assert [row.t for row in rows] == [r.t for r in releases for _ in range(charges_per_step)]
    for first in range(-WINDOW, len(releases) + WINDOW):
        last = first + WINDOW - 1
        touching = [
            row.charge.epsilon for row in rows if row.charge.span.first <= last and row.charge.span.last >= first
        ]
        assert sum(touching, Fraction(0)) <= 1
    return len(releases)


def kill_and_resume(url: str, mechanism: str, kills: int) -> dict[int, str]:
    """Kill every third publisher while it opens the ledger, the others while they feed one step after another."""
    with Publisher(bins=BINS, guarantee=Guarantee("1", w=WINDOW), mechanism=STREAMS[mechanism]()) as warm:
        warm.feed(np.arange(BINS))
    reported: dict[int, str] = {}
    for i, moment in enumerate(moments(kills)):
        child = Child(feed_on(url, mechanism, max(reported, default=None)))
        child.wait_for(2 if i % 3 else 0)
        time.sleep(moment)
        for report in child.end(kill=True):
            assert reported.setdefault(report["t"], report["is"]) == report["is"]
    return reported


@pytest.mark.parametrize(("mechanism", "kills", "charges"), [("uniform", 30, 1), ("sample", 10, None)])
def test_sqlite_survives_kills_at_any_moment(
    new_sqlite: NewLedger, mechanism: str, kills: int, charges: int | None
) -> None:
    url = new_sqlite()
    reported = kill_and_resume(url, mechanism, kills)
    assert assert_sound(url, reported, charges) >= kills // 2
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


@pytest.mark.xdist_group("postgres")
def test_postgres_survives_kills_at_any_moment(new_postgres: NewLedger) -> None:
    url = new_postgres()
    reported = kill_and_resume(url, "uniform", 10)
    # Six of the ten were waited for until they had made a new step.
    assert assert_sound(url, reported, 1) >= 6


def test_processes_that_feed_the_same_steps_get_the_same_releases(new_ledger: NewLedger) -> None:
    url = new_ledger()
    steps = 40

    def work(report: Callable[[Any], None]) -> None:
        with publisher(url, "uniform") as p:
            for t in range(steps):
                report({"t": t, "is": fingerprint(p.feed(np.arange(BINS) + os.getpid() % 97, t=t))})

    children = [Child(work) for _ in range(3)]
    heard = [{report["t"]: report["is"] for report in child.end()} for child in children]
    assert heard[0] == heard[1] == heard[2]
    assert assert_sound(url, heard[0], 1) == steps


def test_processes_that_feed_one_stream_in_turns_never_overspend(new_ledger: NewLedger) -> None:
    url = new_ledger()

    def work(report: Callable[[Any], None]) -> None:
        with publisher(url, "sample") as p:
            for _ in range(20):
                release = p.feed(np.arange(BINS))
                report({"t": release.t, "is": fingerprint(release)})

    children = [Child(work) for _ in range(3)]
    reports = [report for child in children for report in child.end()]
    assert len({report["t"] for report in reports}) == len(reports) == 60
    assert assert_sound(url, {report["t"]: report["is"] for report in reports}, None) == 60


def test_a_new_ledger_may_be_opened_by_many_at_once(new_ledger: NewLedger) -> None:
    for _ in range(5):
        url = new_ledger()
        begin, go = os.pipe()

        def work(report: Callable[[Any], None], url: str = url, begin: int = begin, go: int = go) -> None:
            os.close(go)
            os.read(begin, 1)
            with Ledger.open(url) as ledger:
                ledger.register(StreamSpec(f"own {os.getpid()}", "{}", "{}", 1, None, 1))
                ledger.register(SPEC)
            report({"opened": True})

        children = [Child(work) for _ in range(4)]
        os.close(go)
        assert [child.end() for child in children] == [[{"opened": True}]] * 4
        os.close(begin)
        with Ledger.open(url) as ledger:
            assert len(ledger.streams()) == 5
