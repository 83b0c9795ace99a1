"""From bodies to the spool: decoding in threads, one writer that shares commits, limits that push back."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from veilstream.errors import LedgerError, VeilstreamError
from veilstream.live.clock import Clock
from veilstream.live.rows import encode_batch
from veilstream.live.spool import Spool
from veilstream.live.spool_writing import Arrival
from veilstream.live.spooled import SpooledStream
from veilstream.live.stream import content_digest
from veilstream.server.bodies import read_body

DECODERS: Final = 2
MOST_TOGETHER: Final = 64


class OverloadedError(VeilstreamError):
    """More is under way than memory allows; nothing was stored."""

    outcome = "nothing was stored"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a client may send, and all clients together."""

    most_bytes: int = 64 << 20
    most_unpacked: int = 256 << 20
    most_rows: int = 500_000
    under_way: int = 512 << 20
    seconds: float = 30.0
    batches_per_second: float = 200.0
    burst: int = 400


class Intake:
    """Takes bodies; a batch whose future has a result is on the disk."""

    def __init__(self, spool: Spool, clock: Clock, limits: Limits) -> None:
        self._spool, self._clock, self.limits = spool, clock, limits
        self._pool = ThreadPoolExecutor(DECODERS, thread_name_prefix="decode")
        self._waiting: deque[tuple[Arrival, Future[str]]] = deque()
        self._turn = threading.Condition()
        self._bytes, self._stopping = 0, False
        self._writer = threading.Thread(target=self._write, name="spool-writer", daemon=True)
        self._writer.start()

    def reserve(self, size: int) -> None:
        """Room for a body that is about to be read, or an error."""
        with self._turn:
            if self._stopping or self._bytes + size > self.limits.under_way:
                raise OverloadedError(name="server", limit="it is as busy as it may be; send the batch again later")
            self._bytes += size

    def release(self, size: int) -> None:
        with self._turn:
            self._bytes -= size

    async def take(self, stream: SpooledStream, body: bytes, kind: str, received: int, batch_id: str | None) -> str:
        """Decode and store a body: "accepted" or "duplicate" once it is durable."""
        done: Future[str] = Future()
        # Whoever stops waiting does not stop the batch.
        done.set_running_or_notify_cancel()
        self._pool.submit(self._decode, done, stream, body, kind, received, batch_id)
        return await asyncio.wrap_future(done)

    def _decode(
        self, done: Future[str], stream: SpooledStream, body: bytes, kind: str, received: int, batch_id: str | None
    ) -> None:
        """Decode a body and give it to the writer, which says when it is durable; errors are the answer as well."""
        try:
            digest = content_digest(stream, body) if batch_id is not None else b""
            definition = stream.definition
            frame = read_body(body, kind, definition.columns, self.limits.most_rows, definition.number_columns)
            arrival = Arrival(stream, encode_batch(frame, definition, stream.key), received, batch_id, digest)
        except BaseException as error:
            done.set_exception(error)
            return
        with self._turn:
            self._waiting.append((arrival, done))
            self._turn.notify()

    def _write(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._waiting or self._stopping)
                if not self._waiting:
                    return
                group = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
            try:
                outcomes = self._spool.append([arrival for arrival, _ in group], self._clock.now())
            except VeilstreamError as error:
                outcomes = [error] * len(group)
            except Exception as error:
                # The thread goes on whatever happens: without it batches would wait for ever.
                outcomes = [LedgerError(name="spool", limit=type(error).__name__, outcome="nothing was stored")] * len(
                    group
                )
            for (_, done), outcome in zip(group, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    done.set_exception(outcome)
                else:
                    done.set_result(outcome)

    @property
    def alive(self) -> bool:
        """Whether the thread that stores batches goes on, or has ended as it should."""
        return self._writer.is_alive() or self._stopping

    def stop(self) -> None:
        """Store what is under way and take nothing more."""
        self._pool.shutdown(wait=True)
        with self._turn:
            self._stopping = True
            self._turn.notify()
        self._writer.join()


class Rate:
    """So many batches a second for each client, with a burst."""

    def __init__(self, per_second: float, burst: int, clients: int = 10_000) -> None:
        self._per_second, self._burst, self._clients = per_second, burst, clients
        self._levels: dict[str, tuple[float, float]] = {}

    def wait(self, client: str, now: float) -> float:
        """0 if the client may go on, else the seconds to wait.

        >>> rate = Rate(1, 2)
        >>> [rate.wait("a", 0.0) for _ in range(3)]
        [0.0, 0.0, 1.0]
        """
        if client not in self._levels and len(self._levels) >= self._clients:
            self._levels.clear()
        level, since = self._levels.get(client, (float(self._burst), now))
        level = min(float(self._burst), level + (now - since) * self._per_second)
        if level < 1:
            self._levels[client] = (level, now)
            return (1 - level) / self._per_second
        self._levels[client] = (level - 1, now)
        return 0.0
