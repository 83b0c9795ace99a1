"""A live stream for programs: add rows as they come, close steps by time."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from veilstream.arguments import checks_arguments
from veilstream.errors import InvalidInputError
from veilstream.live.clock import Clock, WallClock, moment, tick_of
from veilstream.live.closing import Closer, check_gap, close_due
from veilstream.live.definition import StreamDefinition
from veilstream.live.rows import Fates, encode_batch
from veilstream.live.spool import Spool
from veilstream.live.spool_writing import Arrival
from veilstream.live.spooled import Moved, SpooledStream
from veilstream.release.estimates import Estimate, estimates_of_all, learn
from veilstream.release.past import releases_before
from veilstream.release.smoothing import Smoothing
from veilstream.storage.ledger import Ledger
from veilstream.values.release import Release


def spool_beside(ledger: str | Path) -> str | Path:
    """Where the spool of a ledger is unless it is named: beside a file, in the same PostgreSQL database.

    >>> spool_beside("budget.db")
    PosixPath('budget.db.spool')
    """
    text = str(ledger)
    if text.startswith("postgres"):
        return text
    path = Path(text.removeprefix("sqlite:///"))
    try:
        return path.with_name(path.name + ".spool")
    except ValueError:
        raise InvalidInputError(
            name="ledger", value=text, limit="no file can have this name", outcome="nothing was opened"
        ) from None


class Inlet:
    """Where rows of a stream go in.

    Adding is durable: when it returns, the rows survive a crash, and a batch that is added again under the same
    ``batch_id`` is not taken twice.
    """

    def __init__(self, spool: Spool, stream: SpooledStream, clock: Clock) -> None:
        self.spool, self.clock = spool, clock
        self.definition, self.name = stream.definition, stream.definition.name
        self._dropping = replace(stream.definition, bad_rows="drop")
        self._stream = stream

    def add(
        self,
        batch: Any,
        *,
        batch_id: str | None = None,
        positions: Mapping[str, Moved] | None = None,
        unreadable: int = 0,
        arrived: int | NDArray[np.int64] | None = None,
    ) -> str:
        """Store rows: a Polars, pandas or Arrow table, a mapping of columns, a file. "accepted" or "duplicate".

        Rows that come too late for their step are counted for the operator and never published. ``positions`` say
        how far a source was read; they are stored with the rows. ``unreadable`` items of the source are counted, and
        its store knows when rows ``arrived``. A source is not told that rows are bad: they are dropped in any case.
        """
        by_wall = self.definition.clock == "wall"
        received = self.clock.now() if arrived is None or not by_wall else None
        definition = self.definition if positions is None else self._dropping
        encoded = encode_batch(batch, definition, self._stream.key, arrived if by_wall else None)
        encoded.fates.unreadable += unreadable
        digest = b"" if batch_id is None else content_digest(self._stream, encoded.parts)
        arrival = Arrival(self._stream, encoded, received, batch_id, digest, positions)
        (outcome,) = self.spool.append([arrival], self.clock.now())
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class LiveStream(Inlet):
    """Rows go in with ``add``; ``close_until`` publishes every step whose time is over.

    Closing is safe to repeat and to interrupt.
    """

    def __init__(
        self, spool: Spool, ledger: Ledger, stream: SpooledStream, clock: Clock, *, owned: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(spool, stream, clock)
        self.ledger = ledger
        self._closer = Closer(spool, ledger, self.name)
        self._owned = owned

    def close_until(self, when: str | int | datetime) -> list[Release]:
        """Publish every step that ended, grace period included, by the public moment ``when``."""
        tick = tick_of(when, self.definition.zone)
        if self.definition.clock == "manual":
            self.spool.advance(self.name, tick)
        elif tick > self.clock.now():
            raise InvalidInputError(
                name="close_until",
                value=str(when),
                limit=f"that moment is still to come, it is {moment(self.clock.now())}; rows may still arrive",
            )
        published: list[Release] = []
        close_due(self.spool, {self.name: self._closer}, {self.name: tick}, published.append)
        return published

    def close_due(self) -> list[Release]:
        """Publish every step that is due by the clock; ``ClockJumpError`` says that too many are."""
        current = self.spool.stream(self.name)
        assert current is not None
        check_gap(current, self.clock)
        manual = self.definition.clock == "manual"
        return self.close_until(current.manual_now if manual else self.clock.now())

    def releases(self, after: int = 0) -> Iterator[Release]:
        """What was published, in order."""
        return self.ledger.releases(self.name, after=after)

    def estimates(self, after: int = 0, level: float = 0.95) -> Iterator[tuple[Release, list[Estimate]]]:
        """What was published of measured columns, in order: values with intervals at ``level``.

        Quantiles lean on the releases before theirs, also on those up to ``after``, unless ``smooth`` is false.
        """
        measures = self.definition.measures
        if measures is None:
            raise InvalidInputError(name="stream", value=self.name, limit="it measures no columns; see releases")
        smoothing: Smoothing | None = None
        for release in self.releases(after):
            if smoothing is None and self.definition.smooths:
                smoothing = Smoothing()
                for earlier in releases_before(self.ledger, release):
                    learn(earlier, measures, smoothing)
            yield release, estimates_of_all([release], measures, level, smoothing)[0]

    @property
    def fates(self) -> Fates:
        """Rows taken and left out. Exact, FOR THE OPERATOR ALONE: do not publish them."""
        return sum(self.spool.fates(self.name).values(), Fates())

    def close(self) -> None:
        """Close what was opened for the stream; rows that wait stay in the spool."""
        for resource in self._owned:
            resource.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def content_digest(stream: SpooledStream, content: Any) -> bytes:
    """A keyed digest of a batch's content: of the bytes that came, or of rows already encoded."""
    digest = hashlib.blake2b(key=stream.key.derive(b"batches"), digest_size=32)
    if isinstance(content, bytes):
        digest.update(content)
        return digest.digest()
    for step in sorted(content):
        rows = content[step]
        digest.update(f"{step}:{len(rows)}:".encode())
        for column in (rows.low, rows.high, rows.cell, *rows.values):
            digest.update(b"-" if column is None else column.tobytes())
    return digest.digest()


@checks_arguments
def open_stream(
    ledger: str | Path | Ledger,
    name: str,
    definition: StreamDefinition | Mapping[str, Any] | None = None,
    *,
    spool: str | Path | Spool | None = None,
    clock: Clock | None = None,
) -> LiveStream:
    """Open a live stream; with a ``definition`` it is created if it does not exist.

    >>> import tempfile
    >>> rows = {"id": [1, 2, 3], "ts": ["2024-01-01T00:10", "2024-01-01T00:20", "2024-01-01T01:05"],
    ...         "place": ["a", "b", "a"]}
    >>> hourly = dict(user="id", time="ts", domain={"place": ["a", "b"]}, start="2024-01-01", every="1h", epsilon=1,
    ...               window=24, clock="manual")
    >>> with tempfile.TemporaryDirectory() as place, open_stream(f"{place}/budget.db", "visits", hourly) as stream:
    ...     stream.add(rows), [release.t for release in stream.close_until("2024-01-01T02:00")]
    ('accepted', [0, 1])
    """
    owned: list[Any] = []
    if spool is None and isinstance(ledger, Ledger):
        raise InvalidInputError("spool: missing; an open ledger does not say where rows may wait, name a file")
    try:
        if not isinstance(spool, Spool):
            assert not isinstance(ledger, Ledger) or spool is not None
            spool = Spool(spool if spool is not None else spool_beside(ledger))  # type: ignore[arg-type]
            owned.append(spool)
        if not isinstance(ledger, Ledger):
            ledger = Ledger.open(ledger)
            owned.append(ledger)
        # An old copy is refused before it takes rows that would be lost when the newest one is put back.
        ledger.watch()
        chosen = clock if clock is not None else WallClock()
        stream = _defined(spool, name, definition, chosen)
        return LiveStream(spool, ledger, stream, chosen, owned=tuple(owned))
    except BaseException:
        for resource in owned:
            resource.close()
        raise


def _defined(
    spool: Spool, name: str, definition: StreamDefinition | Mapping[str, Any] | None, clock: Clock
) -> SpooledStream:
    if definition is None:
        known = spool.stream(name)
        if known is None:
            names = ", ".join(spool.names()) or "none"
            raise InvalidInputError(
                name="stream", value=name, limit=f"not defined, the streams are: {names}; give its definition once"
            )
        return known
    if not isinstance(definition, StreamDefinition):
        definition = StreamDefinition.from_json({**definition, "name": name})
    return define(spool, definition, clock)


def define(spool: Spool, definition: StreamDefinition, clock: Clock) -> SpooledStream:
    """Record the stream; a new one by the machine's clock begins with the step that is under way."""
    manual = definition.clock == "manual"
    return spool.define(definition, 0 if manual else max(0, definition.timetable.step_at(clock.now())))


class AsyncLiveStream:
    """The twin of :class:`LiveStream` for event loops: the same calls, each in a thread of its own."""

    def __init__(self, stream: LiveStream) -> None:
        self.stream = stream
        self._closing = asyncio.Lock()

    async def add(self, batch: Any, *, batch_id: str | None = None) -> str:
        """Store rows, as ``LiveStream.add`` does."""
        return await asyncio.to_thread(self.stream.add, batch, batch_id=batch_id)

    async def close_until(self, when: str | int | datetime) -> list[Release]:
        """Publish every step that ended by ``when``."""
        async with self._closing:
            return await asyncio.to_thread(self.stream.close_until, when)

    async def close_due(self) -> list[Release]:
        """Publish every step that is due by the clock."""
        async with self._closing:
            return await asyncio.to_thread(self.stream.close_due)

    async def releases(self, after: int = 0) -> list[Release]:
        """What was published, in order."""
        return await asyncio.to_thread(lambda: list(self.stream.releases(after)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stream.close)


@checks_arguments
def open_async_stream(
    ledger: str | Path | Ledger,
    name: str,
    definition: StreamDefinition | Mapping[str, Any] | None = None,
    *,
    spool: str | Path | Spool | None = None,
    clock: Clock | None = None,
) -> AsyncLiveStream:
    """:func:`open_stream` for event loops.

    >>> import asyncio
    >>> hourly = dict(user="id", domain={"place": ["a", "b"]}, start="2024-01-01", every="1h", epsilon=1, window=24,
    ...               clock="manual")
    >>> async def first_step(folder: str) -> list[int]:
    ...     async with open_async_stream(f"{folder}/budget.db", "visits", hourly) as stream:
    ...         return [release.t for release in await stream.close_until("2024-01-01T01:00")]
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     asyncio.run(first_step(place))
    [0]
    """
    return AsyncLiveStream(open_stream(ledger, name, definition, spool=spool, clock=clock))
