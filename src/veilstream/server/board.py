"""What readers see: releases whose public time has come, read once from the ledger for all readers."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.live.definition import StreamDefinition
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.as_of import speaks_of_its_step
from veilstream.values.release import Release

LEVEL: Final = 0.95
CACHE_BYTES: Final = 64 << 20
SPARK_STEPS: Final = 120


@dataclass(frozen=True, slots=True)
class Shown:
    """A release as readers get it; the interval holds what ``covers`` says of the step ``as_of`` with probability
    ``LEVEL``."""

    step: int
    values: NDArray[Any]
    half: float | NDArray[np.float64]
    fresh: bool
    spent: str
    left: str
    covers: str
    as_of: int

    @property
    def size(self) -> int:
        return int(self.values.nbytes) + (self.half.nbytes if isinstance(self.half, np.ndarray) else 8) + 200


def shown(release: Release, as_of: int) -> Shown:
    """What readers get of a release whose value is that of the step ``as_of``."""
    low, high = release.interval(LEVEL)
    half = (high - low) / 2
    flat: float | NDArray[np.float64] = half if isinstance(release.std, np.ndarray) else float(half[0])
    spent, left = str(release.spent), str(release.left)
    return Shown(release.t, release.values, flat, release.fresh, spent, left, release.covers, as_of)


class StreamBoard:
    """The visible releases of one stream. Its methods run in the event loop, except those that say otherwise."""

    def __init__(self, definition: StreamDefinition, ledger: Ledger, first: int) -> None:
        self.definition, self.first = definition, first
        self._ledger = ledger
        self._seqs: list[int] = []
        self._as_of: list[int] = []
        self.published = first - 1
        self.visible = first - 1
        self._kept: OrderedDict[int, Shown] = OrderedDict()
        self._kept_bytes = 0
        self.most_bytes = CACHE_BYTES
        self._totals: OrderedDict[int, tuple[float, bool]] = OrderedDict()
        self._news = asyncio.Event()
        for release in ledger.releases(definition.name):
            self.add(release)

    def add(self, release: Release) -> None:
        """A release was committed; it is not visible yet."""
        if release.t <= self.published:
            return
        self._seqs.append(release.seq)
        own = speaks_of_its_step(release) or not self._as_of
        self._as_of.append(release.t if own else self._as_of[-1])
        self.published = release.t
        self._keep(shown(release, self._as_of[-1]))

    def _keep(self, one: Shown) -> None:
        self._kept[one.step] = one
        self._kept_bytes += one.size
        self._totals[one.step] = (float(np.sum(one.values)), one.fresh)
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
        step = first
        while step <= last:
            kept = self._kept.get(step)
            if kept is not None:
                yield kept
                step += 1
                continue
            place = step - self.first
            after = self._seqs[place - 1] if place else 0
            for release in self._ledger.releases(self.definition.name, after=after, limit=min(256, last - step + 1)):
                yield shown(release, self._as_of[release.t - self.first])
                step = release.t + 1

    def totals(self) -> list[tuple[int, float, bool]]:
        """Sums over the bins of the last visible releases, for a small picture."""
        found = [(step, total, fresh) for step, (total, fresh) in self._totals.items() if step <= self.visible]
        return found[-SPARK_STEPS:]


def page_json(board: StreamBoard, releases: list[Shown], upto: int) -> dict[str, Any]:
    """A page of releases, column by column; ``next`` is the step to ask for next, null at the end."""
    timetable = board.definition.timetable
    last = releases[-1].step if releases else upto
    return {
        "stream": board.definition.name,
        "level": LEVEL,
        "head": board.visible,
        "next": last + 1 if last < min(upto, board.visible) else None,
        "step": [one.step for one in releases],
        "time": [timetable.label(one.step) for one in releases],
        "fresh": [one.fresh for one in releases],
        "values": [one.values.tolist() for one in releases],
        "half": [one.half.tolist() if isinstance(one.half, np.ndarray) else one.half for one in releases],
        "covers": [one.covers for one in releases],
        "as_of": [one.as_of for one in releases],
        "spent": [one.spent for one in releases],
        "left": [one.left for one in releases],
    }


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
