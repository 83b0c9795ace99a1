"""What is attacked: work that goes on from what a ledger holds until it is done, and tells every release it sees."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from storm.reader import fingerprint
from veilstream.data import Calendar, Categories, Domain
from veilstream.errors import LedgerError, VeilstreamError
from veilstream.jobs.call import publish
from veilstream.mechanisms.streams import STREAMS
from veilstream.noise import ExactSampler
from veilstream.personalised import LedgerAccounts, PersonalisedPublisher, Roster, count_levels
from veilstream.personalised.people import PeopleCounts
from veilstream.privacy.guarantee import Guarantee
from veilstream.release.once import release_once
from veilstream.release.publisher import Publisher
from veilstream.release.sinks import release_tables, write_table
from veilstream.release.together import feed_together
from veilstream.storage.ledger import Ledger, StreamSpec
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.values.release import Release
from veilstream.values.values import Values

See: TypeAlias = Callable[[Release], None]
BINS: Final = 6
WINDOW: Final = 5
TRIES: Final = 3
PLACES: Final = Domain({"place": Categories([f"p{number}" for number in range(BINS)])})
DAYS: Final = Calendar("2024-01-01", "2024-12-01", "1d")


@dataclass(frozen=True, slots=True)
class Place:
    """A ledger, and a folder for what lies beside it."""

    ledger: str
    folder: Path

    @property
    def table(self) -> Path:
        return self.folder / "releases.csv"


class Subject(Protocol):
    """Work on a ledger that may be interrupted anywhere and begun again.

    ``budgets`` are those of the bins where bins are the levels of people's budgets.
    """

    @property
    def name(self) -> str: ...

    @property
    def budgets(self) -> Sequence[Fraction] | None: ...

    def work(self, place: Place, see: See) -> None:
        """Go on to the end; ``see`` is called with every release as it is returned."""
        ...


def print_of(release: Release) -> str:
    """The fingerprint that the reader finds in the ledger for this release."""
    values = np.ascontiguousarray(release.values)
    std = np.asarray(release.std, dtype=np.float64)
    return fingerprint(
        release.seq, str(release.spent), str(release.left), values.dtype.str, values.tobytes(), std.tobytes()
    )


class RepeatedNoise(ExactSampler):
    """Noise that follows from a number and the step: two runs of a storm draw the same, whatever interrupts them."""

    __slots__ = ("_renewed",)
    now: tuple[int, int] = (0, 0)

    def __init__(self) -> None:
        self._renewed = _Renewed()
        super().__init__(self._renewed)

    def renew(self) -> None:
        """Begin the noise of the step that is ``now``."""
        self._renewed.seeded = SeededSource(RepeatedNoise.now)


class _Renewed:
    def __init__(self) -> None:
        self.seeded = SeededSource(RepeatedNoise.now)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self.seeded.words(count)


@contextmanager
def repeated_noise() -> Generator[None]:
    """Publishers that are made in the block draw repeatable noise; for this experiment alone."""
    with mock.patch("veilstream.release.publisher.SecureNoise", RepeatedNoise):
        yield


def counts(seed: int, t: int) -> NDArray[np.int64]:
    """Counts that move and jump."""
    return np.asarray((np.arange(BINS) * 37 + seed % 101 + (t // 6 % 3) * 200 + t * (seed % 7)) % 500, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class OneStream:
    """A publisher of one mechanism; ``with_table`` writes the table of releases after every step, as a command does.

    ``patient`` feeds a step again, to the same publisher, when the ledger could not be written.
    """

    mechanism: str
    seed: int = 0
    steps: int = 24
    w: int = WINDOW
    with_table: bool = False
    patient: bool = False
    budgets: None = None

    @property
    def name(self) -> str:
        return f"{self.mechanism}, w={self.w}" + (", with a table" if self.with_table else "")

    def work(self, place: Place, see: See) -> None:
        with repeated_noise():
            publisher = Publisher(
                PLACES, Guarantee(1, w=self.w), STREAMS[self.mechanism](), place.ledger, calendar=DAYS
            )
        with publisher:
            head = publisher.ledger.head("default")
            # The last step is fed again, with other counts: what was released must come back.
            for t in range(max(0, -1 if head is None else head), self.steps):
                see(self._fed(publisher, t, counts(self.seed + (t == head), t)))
                if self.with_table:
                    write_table(release_tables(publisher.ledger, "default", PLACES, DAYS), place.table)

    def _fed(self, publisher: Publisher[Any], t: int, snapshot: NDArray[np.int64]) -> Release:
        for _ in range(TRIES if self.patient else 0):
            try:
                RepeatedNoise.now = (self.seed, t)
                return publisher.feed(snapshot, t=t)
            except LedgerError:
                time.sleep(0.01)
        RepeatedNoise.now = (self.seed, t)
        return publisher.feed(snapshot, t=t)


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads that share a publisher."""

    mechanism: str
    steps: int = 24
    threads: int = 3
    budgets: None = None

    @property
    def name(self) -> str:
        return f"{self.threads} threads on {self.mechanism}"

    def work(self, place: Place, see: See) -> None:
        failed: list[BaseException] = []
        with Publisher(BINS, Guarantee(1, w=WINDOW), STREAMS[self.mechanism](), place.ledger) as publisher:

            def feed() -> None:
                try:
                    while (publisher.ledger.head("default") or 0) < self.steps:
                        see(publisher.feed(counts(1, 1)))
                except BaseException as error:
                    failed.append(error)

            threads = [threading.Thread(target=feed) for _ in range(self.threads)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if failed:
            raise failed[0]


@dataclass(frozen=True, slots=True)
class Together:
    """Streams of several mechanisms whose steps share one commit."""

    mechanisms: tuple[str, ...] = ("uniform", "dsat", "budget-absorption")
    steps: int = 16
    budgets: None = None
    name: str = "streams that commit together"

    def work(self, place: Place, see: See) -> None:
        guarantee = Guarantee(1, w=WINDOW)
        with Ledger.open(place.ledger) as ledger:
            publishers = [Publisher(BINS, guarantee, STREAMS[name](), ledger, stream=name) for name in self.mechanisms]
            heads = [ledger.head(name) for name in self.mechanisms]
            first = min(-1 if head is None else head for head in heads)
            for t in range(max(0, first), self.steps):
                feeds = [partial(publisher.feed, counts(1, t), t=t) for publisher in publishers]
                for release in feed_together(ledger, feeds):
                    if isinstance(release, VeilstreamError):
                        raise release
                    see(release)


@dataclass(frozen=True, slots=True)
class Command:
    """A file of events published as ``veilstream publish --out`` does it, key file and table included."""

    steps: int = 12
    budgets: None = None
    name: str = "publish with --out"

    def work(self, place: Place, see: See) -> None:
        rows = range(self.steps * 40)
        events = {
            "id": [f"person {row % 40}" for row in rows],
            "day": [row // 40 for row in rows],
            "place": [f"p{row % BINS}" for row in rows],
        }
        publish(
            events,
            user="id",
            time="day",
            by=["place"],
            domain=PLACES,
            every=1,
            start=0,
            end=self.steps,
            epsilon=1,
            window=WINDOW,
            ledger=place.ledger,
            key_file=place.folder / "stream.key",
            out=place.table,
        )
        with Ledger.open(place.ledger) as ledger:
            for release in ledger.releases():
                see(release)


@dataclass(frozen=True, slots=True)
class OneTime:
    """One release each under many names."""

    names: int = 12
    budgets: None = None
    name: str = "one-time releases"

    def work(self, place: Place, see: See) -> None:
        guarantee = Guarantee(1, w=None)

        def measured(meter: Meter) -> Values:
            return meter.laplace(seal(counts(2, 0), 0), Fraction(1), "publish")

        for number in range(self.names):
            spec = StreamSpec(f"once {number}", guarantee.to_json(), '{"name":"once"}', BINS, None, 1)
            see(release_once(place.ledger, spec, measured, recognises=lambda recorded: recorded == '{"name":"once"}'))


@dataclass(frozen=True, slots=True)
class Accounts:
    """Questions to people with budgets of their own, until nobody has any left."""

    questions: int = 8
    budgets: Sequence[Fraction] = field(default=(Fraction(1, 8), Fraction(1)))
    name: str = "personal accounts"

    def work(self, place: Place, see: See) -> None:
        roster, x = _people(0)
        share = Fraction(1, self.questions)
        with LedgerAccounts(roster, place.ledger) as accounts:
            for number in range(self.questions):
                see(accounts.release(f"question {number}", lambda meter: meter.stretched(x, share, "ask")).release)


@dataclass(frozen=True, slots=True)
class Groups:
    """A stream for every group of similar budgets."""

    steps: int = 10
    budgets: None = None
    name: str = "groups of budgets"

    def work(self, place: Place, see: See) -> None:
        roster, _ = _people(0)
        with PersonalisedPublisher(roster, 2, WINDOW, STREAMS["uniform"](), place.ledger) as publisher:
            heads = [publisher.ledger.head(one.stream) for one in publisher.publishers]
            first = min(-1 if head is None else head for head in heads)
            for t in range(max(0, first), self.steps):
                for release in publisher.feed(_counted(roster, t)).releases:
                    see(release)


def _people(t: int) -> tuple[Roster, PeopleCounts]:
    roster = Roster.of_budgets(["1/8"] * 20 + ["1"] * 80)
    return roster, _counted(roster, t)


def _counted(roster: Roster, t: int) -> PeopleCounts:
    return count_levels(roster, np.repeat([0, 1], [20, 80]), np.arange(100) % 2, bins=2, t=t)
