"""The running service: streams, the thread that closes them on time, and the board that readers look at."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from veilstream.errors import ClockJumpError, VeilstreamError
from veilstream.live.clock import Clock, WallClock
from veilstream.live.closing import Closer, check_gap, close_due
from veilstream.live.definition import StreamDefinition
from veilstream.live.sources import Source
from veilstream.live.sources.base import LONG_AGO
from veilstream.live.spool import Spool
from veilstream.live.spooled import SpooledStream
from veilstream.live.stream import Inlet, define, spool_beside
from veilstream.privacy.population import Population
from veilstream.release.budget import BudgetStatement, as_json
from veilstream.server.board import CACHE_BYTES, Cache, StreamBoard
from veilstream.server.decoding import pool
from veilstream.server.intake import Intake, Limits
from veilstream.server.logs import log
from veilstream.server.metrics import Metrics
from veilstream.server.shown import Shown
from veilstream.server.sources import SourceWorker
from veilstream.server.tokens import TokenStore
from veilstream.server.webhooks import deliver
from veilstream.server.workers import Worker
from veilstream.storage.leading import leadership
from veilstream.storage.ledger import Ledger
from veilstream.values.release import Release

LONGEST_SLEEP: Final = 1.0
WAIT_SECONDS: Final = 10.0
"""How long a server waits for a database and its locks. What fails is tried again; clients are told to."""
ASK_SECONDS: Final = 1.0
"""How often a server asks whether it leads: so soon another takes over."""
OBSERVE_SECONDS = 5.0
"""How often a server that stands by notes how far the ledger is."""
TOKENS_SECONDS: Final = 0.5
SILENT_SECONDS: Final = 30.0
"""After so long without a finished round the closer is held up by something, such as a database that hangs."""
THREADS: Final = 32
RETRY_SECONDS: Final = 5.0
HELD_SECONDS: Final = 0.02
"""How soon to ask again whether the sources were read that a step waits for."""


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
    catch_up: bool = False
    """Close steps that have waited for longer than a week, once."""


class Service:
    """Opens ledger and spool, and runs until it is stopped.

    Of several servers on one ledger one leads; the others stand by, open nothing to clients and begin when it ends.
    """

    def __init__(self, options: ServerOptions, clock: Clock | None = None, wall: Clock | None = None) -> None:
        self.options = options
        self.clock: Clock = clock if clock is not None else WallClock()
        # Tokens and sessions live by the machine's clock, whatever clock the streams follow.
        self.wall: Clock = wall if wall is not None else WallClock()
        self.ledger = Ledger.open(options.ledger, timeout=WAIT_SECONDS, silence=WAIT_SECONDS + 5)
        self.spool = Spool(
            options.spool if options.spool is not None else spool_beside(options.ledger), timeout=WAIT_SECONDS
        )
        self.tokens = TokenStore(self.spool, self.wall)
        self.metrics = Metrics()
        self.cache = Cache()
        self.boards: dict[str, StreamBoard] = {}
        self.spooled: dict[str, SpooledStream] = {}
        self.problems: dict[str, tuple[str, float]] = {}
        self.any_news = asyncio.Event()
        self.intake = Intake(self.spool, self.clock, options.limits)
        self.leading = False
        self.ended_by: str | None = None
        """The worker whose death ended the process."""
        self.end: Callable[[], None] = lambda: None
        """Ends the process; whoever runs the service says how."""
        self.sources: list[SourceWorker] = []
        self._closers: dict[str, Closer] = {}
        names = (*self.spool.names(), *(one.name for one in options.streams))
        self._catching_up = set(names if options.catch_up else ())
        self._closer = Worker("closer", self._close_forever)
        self._token_reader = Worker("tokens", self._read_tokens)
        self._news: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._deliveries: list[asyncio.Task[None]] = []
        self._leadership = leadership(options.ledger, WAIT_SECONDS)
        self._asked, self._observed, self._interrupted = -math.inf, -math.inf, False
        try:
            for definition in options.streams:
                recorded = self.spool.stream(definition.name)
                if recorded is not None:
                    recorded.definition.check_same(definition)
            self._keep_leading()
        except BaseException:
            self.close()
            raise

    def _keep_leading(self) -> None:
        """Lead if nobody else does; called by one thread, again and again."""
        if time.monotonic() - self._asked < ASK_SECONDS:
            return
        try:
            leads = self._leadership.take()
        except VeilstreamError:
            # Readers are still answered from memory. Another server may lead until the database is back.
            self._interrupted = True
            raise
        if leads and (self._interrupted or not self.leading):
            self._lead()
        elif not leads:
            self._lose()
            self._observe()
        self._asked, self._interrupted = time.monotonic(), False

    def _lead(self) -> None:
        """Open all streams, as they are now: another server may have gone on with them."""
        for population in self.options.populations:
            self.ledger.populations.define(population)
        for definition in self.options.streams:
            define(self.spool, definition, self.clock)
        boards: dict[str, StreamBoard] = {}
        spooled: dict[str, SpooledStream] = {}
        closers: dict[str, Closer] = {}
        for name in self.spool.names():
            stream = self.spool.stream(name)
            assert stream is not None
            if stream.definition.clock == "manual":
                if stream.done > stream.first:
                    boards[name] = StreamBoard(stream.definition, self.ledger, stream.first)
                continue
            closers[name], spooled[name] = Closer(self.spool, self.ledger, name), stream
            boards[name] = StreamBoard(stream.definition, self.ledger, stream.first)
            # What could be seen before the server was started is no delay of this one.
            boards[name].advance(self.clock.now())
        for board in boards.values():
            board.most_bytes = CACHE_BYTES // len(boards)
        self.boards, self.spooled, self._closers = boards, spooled, closers
        self.leading = True
        log("leading", streams=len(boards))
        self.call_soon(self._begin)

    def _observe(self) -> None:
        """Keep marks of what the leader publishes: on another machine than its own this one has marks of its own."""
        if time.monotonic() - self._observed >= OBSERVE_SECONDS:
            self.ledger.watch()
            self._observed = time.monotonic()

    def _lose(self) -> None:
        """Stand by: what only the leader does ends, and whoever was being answered asks the leader."""
        if not self.leading:
            return
        self.leading = False
        log("standing by", level="warning")
        self.call_soon(self._pause_all)

    def _begin(self) -> None:
        """Begin, in the event loop, what only the leader does beside closing: reading sources and sending releases."""
        assert self._loop is not None
        self._pause_all()
        for board in self.boards.values():
            for url in board.definition.webhooks:
                name = f"webhook of {board.definition.name}"
                self._deliveries.append(self._forever(name, partial(deliver, self.spool, board, url)))
        for name, source in self.options.sources:
            # Its place in the configuration: names of sources hold addresses, with passwords among them.
            label = f"{source.name.partition(':')[0]}-{len(self.sources) + 1}"
            self.sources.append(SourceWorker(label, Inlet(self.spool, self.spooled[name], self.clock), source))
            self.sources[-1].start()

    def _pause_all(self) -> None:
        for one in self.sources:
            one.stop()
        for task in self._deliveries:
            task.cancel()
        self.sources, self._deliveries = [], []

    def open_board(self, name: str) -> None:
        """Show what was published of a stream that somebody closes by hand."""
        stream = self.spool.stream(name)
        if stream is not None and stream.done > stream.first:
            self.boards[name] = StreamBoard(stream.definition, self.ledger, stream.first)

    @property
    def status(self) -> str:
        """Whether steps are being closed: "ok", or why not. A stream that cannot go on does not stop the others."""
        if not self.leading:
            return "standby"
        if self.dead is not None:
            return "worker died"
        blocked = self._closer.error is not None or self._closer.silent_for > SILENT_SECONDS
        all_fail = bool(self._closers) and self.problems.keys() >= self._closers.keys()
        return "not ready" if self._loop is None or blocked or all_fail else "ok"

    @property
    def ready(self) -> bool:
        """Whether steps are being closed."""
        return self.status == "ok"

    @property
    def dead(self) -> str | None:
        """The name of a worker that died, though workers go on whatever happens in them; None if all live."""
        if self._loop is None:
            return None
        names = (one.name for one in self.workers if not one.alive)
        return next(names, None if self.intake.alive else "spool writer")

    @property
    def workers(self) -> list[Worker]:
        """The threads of this server that go on."""
        return [self._closer, self._token_reader, *self.sources]

    def start(self) -> None:
        """Begin to close steps; call it inside the event loop that serves readers."""
        # So that the first batch does not have to wait until a child has loaded its libraries.
        pool().warm()
        self._loop = asyncio.get_running_loop()
        # Those who wait for a database that hangs must leave threads for those whose answer is in memory.
        self._loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="answer"))
        self._news = asyncio.Event()
        self._tasks = [self._forever("board", self._show), self._forever("watch", self._watch)]
        if self.leading:
            self._begin()
        self._closer.start()
        self._token_reader.start()

    def call_soon(self, call: Callable[[], None]) -> bool:
        """Have the event loop make a call; whether there is a loop."""
        if self._loop is None or self._loop.is_closed():
            return False
        self._loop.call_soon_threadsafe(call)
        return True

    def _forever(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """A task that is begun again when it fails."""

        async def go_on() -> None:
            while True:
                try:
                    await work()
                except Exception as error:
                    log("task failed", level="error", task=name, error=type(error).__name__)
                    self.metrics.count("task_failures", task=name.partition(" ")[0])
                await asyncio.sleep(RETRY_SECONDS)

        assert self._loop is not None
        return self._loop.create_task(go_on())

    async def stop(self) -> None:
        """End the step under way, store what was accepted, and let go of everything."""
        workers = self.workers
        for worker in workers:
            worker.stop()
        self._pause_all()
        for worker in workers:
            await asyncio.to_thread(worker.join)
        await asyncio.to_thread(self.intake.stop)
        for task in self._tasks:
            task.cancel()
        self.close()

    def close(self) -> None:
        self.spool.close()
        self.ledger.close()
        self._leadership.release()

    def _read_tokens(self, worker: Worker) -> None:
        while not worker.stopping.wait(TOKENS_SECONDS):
            self.tokens.refresh()
            worker.well()

    def _close_forever(self, worker: Worker) -> None:
        while not worker.stopping.is_set():
            self._keep_leading()
            if self.leading:
                ran = time.monotonic()
                self._close([name for name in self._closers if self.problems.get(name, ("", 0.0))[1] <= ran])
            worker.well()
            worker.stopping.wait(self._pause())

    def _close(self, names: Sequence[str]) -> None:
        """Close what is due. A stream in which something unforeseen happens is closed by itself, after the others."""
        moments = {name: self._complete(name) for name in names if self._follows(name)}
        try:
            close_due(self.spool, self._closers, moments, self._published, self._failed)
        except VeilstreamError:
            self.metrics.count("closing_failures")
            raise
        except Exception as error:
            if len(names) == 1:
                self._failed(names[0], error)
                return
            for name in names:
                self._close([name])

    def _follows(self, name: str) -> bool:
        """Whether a stream is closed up to the present: where the clock may be wrong an operator decides."""
        stream = self.spool.stream(name)
        assert stream is not None
        try:
            check_gap(stream, self.clock)
        except ClockJumpError as error:
            if name not in self._catching_up:
                self._failed(name, error)
                return False
        else:
            self._catching_up.discard(name)
        return True

    def _complete(self, name: str) -> int:
        """The moment up to which all rows of a stream are here: its steps wait until its sources were read so far."""
        read = {(one.stream, one.source): one.state.read_until for one in self.sources}
        own = [read.get((stream, source.name), LONG_AGO) for stream, source in self.options.sources if stream == name]
        return min([self.clock.now(), *own])

    def _pause(self) -> float:
        # A stream that failed is tried again later, and one whose source is away waits for it.
        away = {one.stream for one in self.sources if not one.state.up}
        going_on = [name for name in self._closers if self.leading and name not in {*self.problems, *away}]
        moments = [self._next_closing(name) for name in going_on]
        wait = min((self.clock.seconds_until(tick) or HELD_SECONDS for tick in moments), default=LONGEST_SLEEP)
        return max(0.001, min(wait, LONGEST_SLEEP))

    def _next_closing(self, name: str) -> int:
        return self.spooled[name].definition.timetable.closes(self.boards[name].published + 1)

    def _published(self, release: Release) -> None:
        if self.problems.pop(release.stream, None) is not None:
            log("stream recovered", stream=release.stream)
        self._closer.beat()
        # Intervals are made here: the loop has readers to serve.
        for prepared in self.boards[release.stream].prepared_up_to(release):
            self.call_soon(partial(self._announce, release.stream, prepared))

    def _failed(self, name: str, error: Exception) -> None:
        kind = type(error).__name__
        if self.problems.get(name, ("", 0.0))[0] != kind:
            # The kind of error alone: messages of the ledger may name steps, never rows, but logs go far.
            log("closing failed", level="error", stream=name, error=kind)
        self.problems[name] = (kind, time.monotonic() + RETRY_SECONDS)
        self.metrics.count("closing_failures")

    def _announce(self, name: str, prepared: tuple[int, Shown]) -> None:
        self.boards[name].add(prepared)
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

    async def _watch(self) -> None:
        """End the process if a worker died: whoever started it starts it anew."""
        while True:
            if self.ended_by is None and (name := self.dead) is not None:
                self.ended_by = name
                log("a worker died; the process ends", level="error", worker=name)
                self.end()
            await asyncio.sleep(LONGEST_SLEEP)

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
                    # Not when it was closed: how long that took depends on the rows.
                    self.metrics.count("steps_published")
                    log("step published", stream=board.definition.name, step=step)
        if changed:
            self.any_news.set()
            self.any_news = asyncio.Event()

    def population_budgets(self) -> list[dict[str, Any]]:
        """What each population of the ledger has spent and left."""
        names = [population.name for population in self.ledger.populations.list()]
        return [as_json(BudgetStatement.of(self.ledger, name)) for name in names]

    def behind(self, name: str) -> float:
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
                    "behind": self.behind(name),
                    "sources": [
                        {
                            "source": one.name,
                            "up": one.state.up,
                            "error": one.state.error,
                            "since": int(one.state.since),
                        }
                        for one in self.sources
                        if one.stream == name
                    ],
                    "hours": [
                        {"hour": hour * 3600, **{key: getattr(fates, key) for key in fates.__slots__}}
                        for hour, fates in hours
                    ],
                }
            )
        return views
