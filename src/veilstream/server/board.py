"""What readers see: releases whose public time has come, read once from the ledger for all readers."""

from __future__ import annotations

import asyncio
import hashlib
import json
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.live.definition import StreamDefinition
from veilstream.release.past import releases_before
from veilstream.server.shown import LEVEL, ReadersPast, Shown, numbers, shown
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.as_of import speaks_of_its_step
from veilstream.values.release import Release

CACHE_BYTES: Final = 64 << 20
SPARK_STEPS: Final = 120
READ_AT_ONCE: Final = 256
DIGITS_OF_A_WIDTH: Final = 5


class StreamBoard:
    """The visible releases of one stream. Its methods run in the event loop, except those that say otherwise."""

    def __init__(self, definition: StreamDefinition, ledger: Ledger, first: int) -> None:
        self.definition, self.first = definition, first
        self._ledger = ledger
        self._steps: list[int] = []
        self._seqs: list[int] = []
        """Of each step, its number in the ledger; steps that were lost are in neither."""
        self._as_of: int | None = None
        self._of_step: dict[int, int] = {}
        self.published = first - 1
        self.visible = first - 1
        self._kept: OrderedDict[int, Shown] = OrderedDict()
        self._kept_bytes = 0
        self.most_bytes = CACHE_BYTES
        self._totals: OrderedDict[int, tuple[float, bool]] = OrderedDict()
        self._news = asyncio.Event()
        self._past = ReadersPast() if definition.smooths else None
        self._seen, self._seen_seq = first - 1, 0
        known = ledger.releases(definition.name)
        while page := list(islice(known, READ_AT_ONCE)):
            for one in self.prepared(page):
                self.add(one)

    @property
    def series(self) -> int:
        """How many numbers a release has: one for each bin and measure."""
        return self.definition.bins * (1 if self.definition.measures is None else len(self.definition.measures.asked))

    @property
    def numbers(self) -> int:
        """How many numbers a page has of a release; the intervals of measured values take two more each."""
        return self.series * (1 if self.definition.measures is None else 3)

    def prepared(self, releases: Sequence[Release]) -> list[tuple[int, Shown]]:
        """What readers will get of the next releases, with their numbers in the ledger. Runs in the thread that closes
        the stream, which makes them one after the other."""
        for release in releases:
            self._as_of = release.t if speaks_of_its_step(release) or self._as_of is None else self._as_of
            self._of_step[release.t] = self._as_of
        as_of = [self._of_step[release.t] for release in releases]
        # A step that was taken up again after an error teaches nothing twice; readers have it already.
        past = self._past if releases[0].t > self._seen else None
        if releases[-1].t > self._seen:
            self._seen, self._seen_seq = releases[-1].t, releases[-1].seq
        made = shown(releases, as_of, self.definition.measures, past)
        return [(release.seq, one) for release, one in zip(releases, made, strict=True)]

    def prepared_up_to(self, release: Release) -> Iterator[tuple[int, Shown]]:
        """The same of ``release`` and of those before it that another server published. Runs in the same thread."""
        between = [release]
        if release.t > self._seen + 1:
            found = self._ledger.releases(self.definition.name, after=self._seen_seq)
            between = [one for one in found if one.seq <= release.seq]
        yield from self.prepared(between)

    def add(self, prepared: tuple[int, Shown]) -> None:
        """A release was committed; it is not visible yet."""
        seq, one = prepared
        if one.step <= self.published:
            return
        self._seqs.append(seq)
        self._steps.append(one.step)
        self.published = one.step
        self._keep(one)

    def _keep(self, one: Shown) -> None:
        self._kept[one.step] = one
        self._kept_bytes += one.size
        self._totals[one.step] = (one.total, one.fresh)
        while len(self._totals) > 2 * SPARK_STEPS:
            self._totals.popitem(last=False)
        while self._kept_bytes > self.most_bytes and len(self._kept) > 1:
            self._kept_bytes -= self._kept.popitem(last=False)[1].size

    def advance(self, now: int) -> bool:
        """Show what has been published and whose public time has come; whether there is anything new."""
        before, timetable = self.visible, self.definition.timetable
        if self.definition.clock == "manual":
            self.visible = self.published
        while self.visible < self.published and timetable.shown(self.visible + 1) <= now:
            self.visible += 1
        if self.visible > before:
            self._news.set()
            self._news = asyncio.Event()
        return self.visible > before

    def next_moment(self) -> int | None:
        """When the next published release may be seen."""
        return self.definition.timetable.shown(self.visible + 1) if self.visible < self.published else None

    async def news(self, after: int) -> None:
        """Wait until a step beyond ``after`` is visible."""
        while self.visible <= after:
            await self._news.wait()

    def read(self, first: int, last: int) -> Iterator[Shown]:
        """The releases of steps ``first`` to ``last``, as far as they are visible. Runs in any thread."""
        first, last = max(first, self.first), min(last, self.visible)
        place, end, past = bisect_left(self._steps, first), bisect_right(self._steps, last), None
        while place < end:
            kept = self._kept.get(self._steps[place])
            if kept is not None:
                yield kept
                place, past = place + 1, None
                continue
            after = self._seqs[place - 1] if place else 0
            many = min(READ_AT_ONCE, end - place)
            page = list(self._ledger.releases(self.definition.name, after=after, limit=many))
            if not page:
                return
            as_of = [self._of_step[release.t] for release in page]
            past = self._past_of(page[0]) if past is None else past
            yield from shown(page, as_of, self.definition.measures, past)
            place += len(page)

    def _past_of(self, release: Release) -> ReadersPast | None:
        """What the release leans on, read again."""
        measures = self.definition.measures
        if measures is None or not self.definition.smooths:
            return None
        past = ReadersPast()
        for earlier in releases_before(self._ledger, release):
            past.learn(earlier, measures)
        return past

    def totals(self) -> list[tuple[int, float, bool]]:
        """Sums over the bins of the last visible releases, for a small picture."""
        found = [(step, total, fresh) for step, (total, fresh) in self._totals.items() if step <= self.visible]
        return found[-SPARK_STEPS:]


def page_json(board: StreamBoard, releases: list[Shown], upto: int, digits: int | None = None) -> dict[str, Any]:
    """A page of releases, column by column; ``next`` is the step to ask for next, null at the end."""
    timetable, measures = board.definition.timetable, board.definition.measures
    last = releases[-1].step if releases else upto
    return {
        "stream": board.definition.name,
        "level": LEVEL,
        "head": board.visible,
        "next": last + 1 if last < min(upto, board.visible) else None,
        "step": [one.step for one in releases],
        "time": [timetable.label(one.step) for one in releases],
        "fresh": [one.fresh for one in releases],
        "measures": None if measures is None else list(measures.labels),
        "values": numbers([one.values for one in releases], digits),
        **intervals(releases, measured=measures is not None, digits=digits),
        "covers": [one.covers for one in releases],
        "as_of": [one.as_of for one in releases],
        "spent": [one.spent for one in releases],
        "left": [one.left for one in releases],
    }


def intervals(releases: Sequence[Shown], *, measured: bool, digits: int | None = None) -> dict[str, Any]:
    """The intervals of releases: half widths of counts, and the ends of measured values."""
    if measured:
        low, high = (numbers([getattr(one, end) for one in releases], digits) for end in ("low", "high"))
        return {"half": None, "low": low, "high": high}
    several = [one.half for one in releases if isinstance(one.half, np.ndarray)]
    # Of a width nobody sees as many digits as of a value.
    few = None if digits is None else min(digits, DIGITS_OF_A_WIDTH)
    half = numbers(several, few) if len(several) == len(releases) else [_plain(one.half) for one in releases]
    return {"half": half, "low": None, "high": None}


def _plain(half: float | NDArray[np.float64]) -> float | list[float]:
    return half.tolist() if isinstance(half, np.ndarray) else half


class Cache:
    """Responses by what was asked, until memory is needed: a thousand readers cost one read."""

    def __init__(self, most_bytes: int = CACHE_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries: OrderedDict[tuple[Any, ...], tuple[bytes, str]] = OrderedDict()
        self._making: dict[tuple[Any, ...], asyncio.Future[tuple[bytes, str]]] = {}
        self.reads = 0

    async def get(self, key: tuple[Any, ...], make: Callable[[], bytes]) -> tuple[bytes, str]:
        """The response and its entity tag; readers who ask at once wait for one reading."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
            return found
        making = self._making.get(key)
        if making is None:
            making = asyncio.ensure_future(self._made(key, make))
            self._making[key] = making
            making.add_done_callback(lambda _done: self._making.pop(key, None))
        return await asyncio.shield(making)

    async def _made(self, key: tuple[Any, ...], make: Callable[[], bytes]) -> tuple[bytes, str]:
        self.reads += 1
        body = await asyncio.to_thread(make)
        entry = body, f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        self._entries[key] = entry
        self._bytes += len(body)
        while self._bytes > self._most_bytes and len(self._entries) > 1:
            self._bytes -= len(self._entries.popitem(last=False)[1][0])
        return entry


def dumps(value: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
