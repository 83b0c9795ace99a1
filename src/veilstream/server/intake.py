"""From bodies to the spool: decoding in children, one writer that shares commits, limits that push back."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from veilstream.errors import LedgerError, VeilstreamError
from veilstream.live.clock import Clock
from veilstream.live.rows import EncodedBatch
from veilstream.live.spool import Spool
from veilstream.live.spool_writing import Arrival
from veilstream.live.spooled import SpooledStream
from veilstream.server.decoding import Body, Decoder

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
    share: float = 0.25
    """Of what may be under way, for each client."""
    seconds: float = 30.0
    batches_per_second: float = 200.0
    burst: int = 400


class Intake:
    """Takes bodies; a batch whose future has a result is on the disk."""

    def __init__(self, spool: Spool, clock: Clock, limits: Limits) -> None:
        self._spool, self._clock, self.limits = spool, clock, limits
        self._decoder = Decoder(limits.most_unpacked, limits.most_rows)
        self._waiting: deque[tuple[Arrival, Future[str]]] = deque()
        self._turn = threading.Condition()
        self._bytes: Counter[str] = Counter()
        self._decoding, self._stopping = 0, False
        self._writer = threading.Thread(target=self._write, name="spool-writer", daemon=True)
        self._writer.start()

    def reserve(self, client: str, size: int) -> None:
        """Room for bytes of a client that came, or an error."""
        with self._turn:
            if self._stopping or self._bytes.total() + size > self.limits.under_way:
                raise OverloadedError(name="server", limit="it is as busy as it may be; send the batch again later")
            if self._bytes[client] + size > self.limits.share * self.limits.under_way:
                raise OverloadedError(name="client", limit="as much of it is under way as may be; send the batch later")
            self._bytes[client] += size

    def release(self, client: str, size: int) -> None:
        with self._turn:
            self._bytes[client] -= size
            if not self._bytes[client]:
                del self._bytes[client]

    async def take(self, client: str, stream: SpooledStream, body: Body, received: int, batch_id: str | None) -> str:
        """Decode and store a body: "accepted" or "duplicate" once it is durable."""
        done: Future[str] = Future()
        # Whoever stops waiting does not stop the batch.
        done.set_running_or_notify_cancel()

        def store(found: Future[tuple[EncodedBatch, bytes]]) -> None:
            """Give the rows to the writer, which says when they are durable; errors are the answer as well."""
            error = found.exception()
            with self._turn:
                if error is None:
                    rows, digest = found.result()
                    self._waiting.append((Arrival(stream, rows, received, batch_id, digest), done))
                self._decoding -= 1
                self._turn.notify_all()
            if error is not None:
                done.set_exception(error)

        with self._turn:
            self._decoding += 1
        self._decoder.submit(client, stream, body).add_done_callback(store)
        return await asyncio.wrap_future(done)

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
        with self._turn:
            self._turn.wait_for(lambda: not self._decoding)
            self._stopping = True
            self._turn.notify_all()
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
