"""Publishers of one population that compete and die: no window ever costs more than was promised."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from veilstream import Release
from veilstream.errors import LedgerBusyError
from veilstream.release.together import feed_together
from veilstream.storage.ledger import Ledger, chain, marks
from veilstream.storage.ledger.records import Mark
from veilstream.storage.ledger.verifying import verify

from .population_support import RESIDENTS, STREAMS_OF_FOUR, feed_or_skip, fullest_window, publisher
from .test_crash import Child, moments

NewLedger = Callable[[], str]
STEPS = (60, 14, 6, 2)


def feed_some(url: str, which: int) -> Callable[[Callable[[Any], None]], None]:
    def work(report: Callable[[Any], None]) -> None:
        with publisher(url, which) as p:
            report({"which": which, "paid": [feed_or_skip(p, 10 * t % 70) for t in range(STEPS[which])]})

    return work


def assert_contended(url: str, paid: list[bool | None]) -> None:
    """The cap held, and it was what stopped somebody."""
    full = fullest_window(url)
    assert Fraction(3, 4) < full <= 1
    assert True in paid
    assert False in paid or None in paid
    with Ledger.open(url) as ledger:
        assert verify(ledger) == []
        assert ledger.populations.account(RESIDENTS.name).profile().peak().pure == full


def test_processes_on_one_population_never_exceed_its_cap(new_ledger: NewLedger) -> None:
    url = new_ledger()
    Ledger.open(url).close()
    children = [Child(feed_some(url, which)) for which in range(4)]
    reports = [report for child in children for report in child.end()]
    assert sorted(report["which"] for report in reports) == [0, 1, 2, 3]
    assert_contended(url, [one for report in reports for one in report["paid"]])


def test_threads_on_one_population_never_exceed_its_cap(new_ledger: NewLedger) -> None:
    url = new_ledger()
    Ledger.open(url).close()
    paid: list[bool | None] = []

    def work(which: int) -> None:
        with publisher(url, which) as p:
            paid.extend([feed_or_skip(p, 5) for _ in range(STEPS[which])])

    threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_contended(url, paid)


def feed_on(url: str, which: int) -> Callable[[Callable[[Any], None]], None]:
    def work(report: Callable[[Any], None]) -> None:
        with publisher(url, which) as p:
            while True:
                with suppress(LedgerBusyError):
                    feed_or_skip(p, os.getpid() % 97)
                    report({"fed": which})
                # SQLite's lock goes to whoever asks at the right moment: leave one to the others.
                time.sleep(0.003)

    return work


def kill_one_after_another(url: str, kills: int) -> None:
    """Four publishers go on and on; one of them is killed at a time, and another takes its place."""
    publisher(url, 0).close()
    children = [Child(feed_on(url, which)) for which in range(4)]
    for i, moment in enumerate(moments(kills)):
        children[i % 4].wait_for(1 if i % 3 else 0)
        time.sleep(moment)
        children[i % 4].end(kill=True)
        children[i % 4] = Child(feed_on(url, i % 4))
    for child in children:
        child.end(kill=True)


def assert_all_kept(url: str) -> None:
    """Nothing is spent that is not recorded, and what is recorded fits."""
    assert 0 < fullest_window(url) <= 1
    with Ledger.open(url) as ledger:
        assert verify(ledger) == []
        for name, *_ in STREAMS_OF_FOUR:
            released = {release.t for release in ledger.releases(name)}
            assert {row.t for row in ledger.charges(name) if row.outcome == "released"} <= released


def test_a_population_survives_kills_at_any_moment(new_sqlite: NewLedger) -> None:
    url = new_sqlite()
    kill_one_after_another(url, 40)
    assert_all_kept(url)


@pytest.mark.audit
def test_a_population_survives_three_hundred_kills(new_ledger: NewLedger) -> None:
    url = new_ledger()
    kill_one_after_another(url, 300)
    assert_all_kept(url)


@pytest.mark.xdist_group("postgres")
def test_a_step_that_others_repeat_meanwhile_is_no_rollback(
    new_postgres: NewLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated release takes no lock of the population: it is committed while another stream looks at the pool."""
    url = new_postgres()
    with publisher(url, 0) as one, publisher(url, 2) as other:
        feed_or_skip(one, 5)
        feed_or_skip(other, 5)
        found, repeated = chain.last_mark, list[Release]()

        def last_mark(*given: Any) -> Mark:
            end = found(*given)
            if not repeated:
                repeated.append(one.skip())
            return end

        monkeypatch.setattr(marks, "last_mark", last_mark)
        with Ledger.open(url) as ledger, publisher(ledger, 2) as again:
            assert feed_or_skip(again, 5) is not None
        assert [release.t for release in repeated] == [1]


@pytest.mark.xdist_group("postgres")
def test_groups_of_steps_do_not_wait_in_a_circle(new_postgres: NewLedger) -> None:
    """Two groups name the same streams of one pool in opposite order, and single steps come between."""
    url = new_postgres()
    Ledger.open(url).close()
    names = [name for name, *_ in STREAMS_OF_FOUR]
    failed: list[BaseException] = []
    done: list[int] = []

    def work(which: list[int]) -> None:
        try:
            with Ledger.open(url) as ledger:
                streams = [publisher(ledger, number) for number in which]
                for t in range(12):
                    feeds = [partial(one.feed, np.array([t, 2, 3])) if t % 4 else one.skip for one in streams]
                    made = feed_together(ledger, feeds, [names[number] for number in which])
                    done.append(sum(isinstance(release, Release) for release in made))
                    failed.extend(one for one in made if isinstance(one, LedgerBusyError))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(which,)) for which in ([0, 1, 2, 3], [3, 2, 1, 0], [1], [2])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sum(done) > 12
    with Ledger.open(url) as ledger:
        assert verify(ledger) == []
    assert fullest_window(url) <= 1
