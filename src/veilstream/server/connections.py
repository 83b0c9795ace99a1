"""Connections of clients: how many, from where, and for how long they may be silent.

Files are what runs out first, and a process without files can neither answer nor open its ledger. So there are fewer
connections than files, the one that has been silent longest gives way to a new one, and silence ends after a while.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, cast

MOST: Final = 8192
KEPT_FILES: Final = 256
"""For ledger, spool, children and sources."""
SHARE: Final = 4
"""An address has at most one in so many of all connections, unless clients share it: loopback, and proxies."""
SILENT_SECONDS: Final = 10.0
"""For a handshake, for the headers of a request, and between two requests."""
ACCEPTED: Final = 24
"""Connections accepted in one turn of the loop. They are limited after that: many at a time would take all files."""
WAITING: Final = 1024
"""Connections that wait in the system until they are accepted."""
STUCK_SECONDS: Final = 30.0
"""For a client that does not read what was sent."""


def most_connections() -> int:
    """As many as this process has files for, once it is allowed as many as it may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MOST + KEPT_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST + KEPT_FILES)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return max(16, files - KEPT_FILES)


@dataclass(slots=True)
class Connections:
    """The open connections; the silent ones in the order in which they fell silent."""

    most: int
    shared: Collection[str] = ()
    count: int = 0
    silent: dict[Any, str] = field(default_factory=dict[Any, str])
    _of: Counter[str] = field(default_factory=Counter[str])

    def enter(self, address: str) -> bool:
        """Whether one more fits in, if need be in place of a silent one."""
        fits = self._is_shared(address) or self._of[address] < self.most // SHARE or self._evict(address)
        fits = fits and (self.count < self.most or self._evict(None))
        if fits:
            self.count += 1
            self._of[address] += 1
        return fits

    def leave(self, address: str) -> None:
        self.count -= 1
        self._of[address] -= 1
        if not self._of[address]:
            del self._of[address]

    def _evict(self, address: str | None) -> bool:
        found = next((one for one, at in self.silent.items() if address in (None, at)), None)
        if found is None:
            return False
        found.give_way()
        return True

    def _is_shared(self, address: str) -> bool:
        try:
            return address in self.shared or ip_address(address).is_loopback
        except ValueError:
            return True


def limited_protocol(connections: Connections) -> type[asyncio.Protocol]:
    """Uvicorn's protocol under these limits."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Limited(H11Protocol):
        _counted = False
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._address = self.client[0] if self.client else ""
            self._counted = connections.enter(self._address)
            if self._counted:
                self._fall_silent()
            else:
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._speak()
            self._uncount()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if not self._idle():
                self._speak()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._idle():
                self._fall_silent()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._after(STUCK_SECONDS)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self not in connections.silent:
                self._speak()

        def _idle(self) -> bool:
            cycle = cast("Any", self.cycle)
            return cycle is None or bool(cycle.response_complete)

        def give_way(self) -> None:
            """Close at once."""
            self._speak()
            self._uncount()
            self.transport.abort()

        def _fall_silent(self) -> None:
            if self._counted:
                connections.silent.pop(self, None)
                connections.silent[self] = self._address
                self._after(SILENT_SECONDS)

        def _speak(self) -> None:
            connections.silent.pop(self, None)
            if self._timer is not None:
                self._timer.cancel()

        def _after(self, seconds: float) -> None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_later(seconds, self.give_way)

        def _uncount(self) -> None:
            if self._counted:
                self._counted = False
                connections.leave(self._address)

    return Limited


def limited_server(server: type[Any]) -> type[Any]:
    """Uvicorn's server under these limits."""

    class Limited(server):  # type: ignore[misc]
        async def startup(self, sockets: list[Any] | None = None) -> None:
            loop = asyncio.get_running_loop()
            if self.config.is_ssl:
                # Until a handshake ends, no protocol hears of a connection.
                create = partial(loop.create_server, ssl_handshake_timeout=SILENT_SECONDS)
                setattr(loop, "create_server", create)  # noqa: B010
            await server.startup(self, sockets)
            for one in self.servers:
                for listener in one.sockets:
                    with listener.dup() as same:
                        same.listen(WAITING)

    return Limited
