"""Threads on one publisher: whatever moment they are interrupted at, they take turns, and no window is overspent."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import LedgerBusyError
from veilstream.mechanisms.streams import DSAT, BudgetAbsorption, Uniform
from veilstream.personalised import LedgerAccounts, Roster, Stretching, count_levels, release_counts
from veilstream.privacy.windows import fullest_window
from veilstream.storage.ledger import Ledger

COUNTS = np.array([40, 7, 0])
THREADS = 4


class Scheduler:
    """Hands over to another thread right after a commit, and at moments that follow from a seed.

    Only at lines of the package: what it has not yet written down for itself after a commit, another thread must not
    need. Publishers without a lock of their own fail here.
    """

    def __init__(self, seed: int) -> None:
        self._state = seed

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if "veilstream/" not in frame.f_code.co_filename:
            return None
        if event == "return" and frame.f_code.co_name == "commit_step":
            # The database has let go of its lock: long enough for whoever waits for it.
            time.sleep(0.05)
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        if self._state >> 61 == 0:
            time.sleep(0.0002 if self._state >> 57 == 0 else 0)
        return self


@contextmanager
def switching(seed: int) -> Iterator[None]:
    """Threads that begin here are interrupted all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threading.settrace(Scheduler(seed))
    try:
        yield
    finally:
        threading.settrace(None)
        sys.setswitchinterval(interval)


def at_once(work: Callable[[int], None]) -> list[BaseException]:
    """What went wrong when ``THREADS`` threads did their work at the same time."""
    failed: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def run(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def check(ledger: Ledger, guarantee: vs.Guarantee, steps: int) -> None:
    """Every step once and in order, no window over the guarantee, every block opened once."""
    assert [release.t for release in ledger.releases("default")] == list(range(steps))
    rows = list(ledger.charges("default"))
    assert fullest_window([row.charge for row in rows], guarantee.w, 3)[0] <= guarantee.pure
    blocks = [row.charge for row in rows if row.charge.block is not None]
    # The first charge of a block is that of its opening, and a later one of the same block begins where it began.
    opened = Counter((c.block, c.span.first) for c in blocks if c.epsilon)
    assert len({block for block, _ in opened}) == len(opened)


@pytest.mark.parametrize(
    "database", ["file", "memory", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))]
)
@pytest.mark.parametrize(
    ("mechanism", "w"), [(DSAT(), 7), (BudgetAbsorption(), 5), (Uniform(), 4)], ids=["dsat", "absorption", "uniform"]
)
def test_threads_on_one_publisher_take_turns(
    mechanism: Any, w: int, database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = {"file": tmp_path / "ledger.db", "memory": None}
    url = request.getfixturevalue("new_postgres")() if database == "postgres" else where[database]
    guarantee, each = vs.Guarantee(1, w=w), 6
    with vs.Publisher(3, guarantee, mechanism, url) as publisher:

        def feed(_: int) -> None:
            for _ in range(each):
                publisher.feed(COUNTS)

        with switching(seed=w):
            assert at_once(feed) == []
        check(publisher.ledger, guarantee, THREADS * each)
        # What this process believes is what a new one would find.
        left = publisher.skip().left
        with vs.Publisher(3, guarantee, mechanism, publisher.ledger) as again:
            assert again.skip().left >= left


def test_publishers_of_one_stream_in_several_threads_take_turns(tmp_path: Path) -> None:
    guarantee = vs.Guarantee(1, w=7)

    def feed(_: int) -> None:
        with vs.Publisher(3, guarantee, DSAT(), tmp_path / "ledger.db") as publisher:
            for _ in range(4):
                publisher.feed(COUNTS)

    with switching(seed=3):
        assert at_once(feed) == []
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        check(ledger, guarantee, THREADS * 4)


def test_tasks_of_an_event_loop_take_turns(tmp_path: Path) -> None:
    guarantee = vs.Guarantee(1, w=5)
    with vs.Publisher(3, guarantee, BudgetAbsorption(), tmp_path / "ledger.db") as publisher:

        async def feed_all() -> list[vs.Release]:
            return await asyncio.gather(*[asyncio.to_thread(publisher.feed, COUNTS) for _ in range(12)])

        with switching(seed=5):
            releases = asyncio.run(feed_all())
        assert sorted(release.t for release in releases) == list(range(12))
        check(publisher.ledger, guarantee, 12)


def test_accounts_of_people_are_charged_once_for_a_question(tmp_path: Path) -> None:
    roster = Roster.of_budgets(["1/8"] * 5 + ["1"] * 95)
    x = count_levels(roster, np.repeat([0, 1], [5, 95]), np.arange(100) % 2, bins=2)
    seen: list[int] = []
    with LedgerAccounts(roster, tmp_path / "ledger.db") as accounts:

        def ask(_: int) -> None:
            for _ in range(3):
                seen.append(release_counts(x, Stretching(), accounts).seq)
                assert accounts.left() == [0, 0]

        with switching(seed=7):
            assert at_once(ask) == []
        assert set(seen) == {1}
        assert accounts.spent() == [Fraction(1, 8), Fraction(1)]


def test_a_mechanism_that_feeds_its_own_publisher_is_refused_at_once(tmp_path: Path) -> None:
    class Recursive(Uniform):
        def step(self, state: Any, now: Any, meter: Any) -> Any:
            publisher.feed(COUNTS)
            return super().step(state, now, meter)

    with vs.Publisher(3, vs.Guarantee(1, w=2), Recursive(), tmp_path / "ledger.db") as publisher:
        with pytest.raises(LedgerBusyError):
            publisher.feed(COUNTS)
        assert list(publisher.ledger.charges("default")) == []
