"""The running service: streams, the thread that closes them on time, and the board that readers look at."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from veilstream.errors import VeilstreamError
from veilstream.live.clock import Clock, WallClock
from veilstream.live.closing import Closer, close_due
from veilstream.live.definition import StreamDefinition
from veilstream.live.sources import Source, follow
from veilstream.live.spool import Spool
from veilstream.live.spooled import SpooledStream
from veilstream.live.stream import Inlet, define, spool_beside
from veilstream.privacy.population import Population
from veilstream.release.budget import BudgetStatement, as_json
from veilstream.server.board import CACHE_BYTES, Cache, StreamBoard
from veilstream.server.decoding import pool
from veilstream.server.intake import Intake, Limits
from veilstream.server.metrics import Metrics
from veilstream.server.shown import Shown
from veilstream.server.tokens import TokenStore
from veilstream.server.webhooks import deliver
from veilstream.storage.ledger import Ledger
from veilstream.values.release import Release

LOG: Final = logging.getLogger("veilstream.server")
LONGEST_SLEEP: Final = 1.0
RETRY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where a service keeps what it knows, and whom it trusts."""

    ledger: str | Path
    spool: str | Path | None = None
    streams: tuple[StreamDefinition, ...] = ()
    sources: tuple[tuple[str, Source], ...] = ()
    hosts: tuple[str, ...] = ()
    secure: bool = False
    limits: Limits = field(default_factory=Limits)
    populations: tuple[Population, ...] = ()


class Service:
    """Opens ledger and spool, and runs until it is stopped."""

    def __init__(self, options: ServerOptions, clock: Clock | None = None, wall: Clock | None = None) -> None:
        self.options = options
        self.clock: Clock = clock if clock is not None else WallClock()
        # Tokens and sessions live by the machine's clock, whatever clock the streams follow.
        self.wall: Clock = wall if wall is not None else WallClock()
        self.ledger = Ledger.open(options.ledger)
        self.spool = Spool(options.spool if options.spool is not None else spool_beside(options.ledger))
        self.tokens = TokenStore(self.spool, self.wall)
        self.metrics = Metrics()
        self.cache = Cache()
        self.boards: dict[str, StreamBoard] = {}
        self.spooled: dict[str, SpooledStream] = {}
        self.problems: dict[str, tuple[str, float]] = {}
        self._closers: dict[str, Closer] = {}
        self._stopping = threading.Event()
        self._closer: threading.Thread | None = None
        self._readers: list[threading.Thread] = []
        self._news: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.any_news = asyncio.Event()
        self.intake = Intake(self.spool, self.clock, options.limits)
        for population in options.populations:
            self.ledger.populations.define(population)
        for definition in options.streams:
            define(self.spool, definition, self.clock)
        for name in self.spool.names():
            self._open(name)
        for board in self.boards.values():
            board.most_bytes = CACHE_BYTES // len(self.boards)

    def _open(self, name: str) -> None:
        stream = self.spool.stream(name)
        assert stream is not None
        if stream.definition.clock == "manual":
            self.open_board(name)
            return
        self._closers[name] = Closer(self.spool, self.ledger, name)
        self.spooled[name] = stream
        self.boards[name] = StreamBoard(stream.definition, self.ledger, stream.first)
        # What could be seen before the server was started is no delay of this one.
        self.boards[name].advance(self.clock.now())

    def open_board(self, name: str) -> None:
        """Show what was published of a stream that somebody closes by hand."""
        stream = self.spool.stream(name)
        if stream is not None and stream.done > stream.first:
            self.boards[name] = StreamBoard(stream.definition, self.ledger, stream.first)

    @property
    def ready(self) -> bool:
        """Whether steps are being closed and nothing has failed."""
        return self._closer is not None and self._closer.is_alive() and not self.problems

    def start(self) -> None:
        """Begin to close steps; call it inside the event loop that serves readers."""
        # So that the first batch does not have to wait until a child has loaded its libraries.
        pool().warm()
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._tasks = [self._loop.create_task(self._show())]
        for board in self.boards.values():
            for url in board.definition.webhooks:
                self._tasks.append(self._loop.create_task(deliver(self.spool, board, url)))
        self._closer = threading.Thread(target=self._close_forever, name="closer", daemon=True)
        self._closer.start()
        for name, source in self.options.sources:
            inlet = Inlet(self.spool, self.spooled[name], self.clock)
            reader = threading.Thread(
                target=follow, args=(inlet, source, self._stopping), name=source.name, daemon=True
            )
            reader.start()
            self._readers.append(reader)

    async def stop(self) -> None:
        """End the step under way, store what was accepted, and let go of everything."""
        self._stopping.set()
        for thread in [*self._readers, *([] if self._closer is None else [self._closer])]:
            await asyncio.to_thread(thread.join)
        await asyncio.to_thread(self.intake.stop)
        for task in self._tasks:
            task.cancel()
        self.close()

    def close(self) -> None:
        self.spool.close()
        self.ledger.close()

    def _close_forever(self) -> None:
        while not self._stopping.is_set():
            ran, now = time.monotonic(), self.clock.now()
            names = [name for name in self._closers if self.problems.get(name, ("", 0.0))[1] <= ran]
            try:
                close_due(self.spool, self._closers, dict.fromkeys(names, now), self._published, self._failed)
            except VeilstreamError as error:
                for name in names:
                    self._failed(name, error)
            self._stopping.wait(self._pause())

    def _pause(self) -> float:
        moments = [self._next_closing(name) for name in self._closers]
        wait = min((self.clock.seconds_until(tick) for tick in moments), default=LONGEST_SLEEP)
        return max(0.001, min(wait, LONGEST_SLEEP))

    def _next_closing(self, name: str) -> int:
        return self.spooled[name].definition.timetable.closes(self.boards[name].published + 1)

    def _published(self, release: Release) -> None:
        self.problems.pop(release.stream, None)
        assert self._loop is not None
        # Intervals are made here: the loop has readers to serve.
        (prepared,) = self.boards[release.stream].prepared([release])
        self._loop.call_soon_threadsafe(self._announce, release.stream, prepared)

    def _failed(self, name: str, error: VeilstreamError) -> None:
        # The kind of error alone: messages of the ledger may name steps, never rows, but logs go far.
        LOG.error("stream %s: closing failed (%s); it will be tried again", name, type(error).__name__)
        self.problems[name] = (type(error).__name__, time.monotonic() + RETRY_SECONDS)
        self.metrics.count("closing_failures")

    def _announce(self, name: str, prepared: tuple[int, Shown]) -> None:
        self.boards[name].add(prepared)
        self.metrics.count("steps_published")
        assert self._news is not None
        self._news.set()

    async def _show(self) -> None:
        """Make releases visible at their public time."""
        assert self._news is not None
        while True:
            now = self.clock.now()
            self.show(self.boards.values(), now)
            moments = [tick for board in self.boards.values() if (tick := board.next_moment()) is not None]
            wait = min((self.clock.seconds_until(tick) for tick in moments), default=LONGEST_SLEEP)
            try:
                await asyncio.wait_for(self._news.wait(), max(0.001, min(wait, LONGEST_SLEEP)))
                self._news.clear()
            except TimeoutError:
                continue

    def show(self, boards: Iterable[StreamBoard], now: int) -> None:
        """Advance the boards to ``now`` and wake the readers of what is new."""
        changed = False
        for board in boards:
            before = board.visible
            if board.advance(now):
                changed = True
                for step in range(before + 1, board.visible + 1):
                    behind = self.clock.seconds_since(board.definition.timetable.shown(step))
                    self.metrics.observe("release_delay_seconds", behind)
        if changed:
            self.any_news.set()
            self.any_news = asyncio.Event()

    def population_budgets(self) -> list[dict[str, Any]]:
        """What each population of the ledger has spent and left."""
        names = [population.name for population in self.ledger.populations.list()]
        return [as_json(BudgetStatement.of(self.ledger, name)) for name in names]

    def _behind(self, name: str) -> float:
        """For how many seconds a step waits that should have been closed."""
        if name not in self._closers:
            return 0.0
        return max(0.0, self.clock.seconds_since(self._next_closing(name)))

    def operator_view(self) -> list[dict[str, Any]]:
        """Exact numbers for the operator alone, stream by stream."""
        views: list[dict[str, Any]] = []
        for name, board in self.boards.items():
            current = self.spool.stream(name)
            assert current is not None
            hours = sorted(self.spool.fates(name).items())[-48:]
            views.append(
                {
                    "stream": name,
                    "title": board.definition.title or name,
                    "taking": current.frozen,
                    "published": board.published,
                    "visible": board.visible,
                    "left_out": self.spool.left_out(current),
                    "problem": self.problems.get(name, (None, 0.0))[0],
                    "behind": self._behind(name),
                    "hours": [
                        {"hour": hour * 3600, **{key: getattr(fates, key) for key in fates.__slots__}}
                        for hour, fates in hours
                    ],
                }
            )
        return views
