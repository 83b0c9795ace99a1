"""Run the application under uvicorn, and tell systemd how it does."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from veilstream.extras import load
from veilstream.server.connections import (
    ACCEPTED,
    SILENT_SECONDS,
    Connections,
    limited_protocol,
    limited_server,
    most_connections,
)
from veilstream.server.logs import log, write_log
from veilstream.server.service import Service
from veilstream.server.workers import Worker

CERTIFICATE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen; with a certificate and its key by TLS, and behind whose proxy."""

    host: str = "127.0.0.1"
    port: int = 8765
    certificate: str | None = None
    key: str | None = None
    proxies: str | None = None


def uvicorn_server(service: Service, listen: Listen) -> Any:
    """A server that is not running yet."""
    uvicorn = load("uvicorn", "the server")
    from veilstream.server.app import make_app

    os.umask(0o077)
    connections = Connections(most_connections(), tuple((listen.proxies or "").replace(" ", "").split(",")))
    config = uvicorn.Config(
        make_app(service, connections.most * 3 // 4),
        host=listen.host,
        port=listen.port,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.key,
        proxy_headers=listen.proxies is not None,
        forwarded_allow_ips=listen.proxies or "",
        # Addresses of readers are personal data, and lines of batches would tell when they came.
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=SILENT_SECONDS,
        # The parser whose limit on headers is known and tested.
        http=limited_protocol(connections),
        # It reads large bodies in larger pieces than uvloop, at a third of the processor time.
        loop="asyncio",
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=64 << 10,
        lifespan="on",
        backlog=ACCEPTED,
    )
    return limited_server(uvicorn.Server)(config)


def run(service: Service, listen: Listen) -> bool:
    """Serve until told to stop; whether it ended as it should, and not because a worker died."""
    write_log()
    server = uvicorn_server(service, listen)

    def end() -> None:
        server.should_exit = True

    service.end = end
    manager = Systemd(os.environ)
    workers = [Worker("systemd", lambda one: manager.tell(service, one.stopping))]
    if listen.certificate is not None:
        files = [Path(one) for one in (listen.certificate, listen.key) if one is not None]
        workers.append(Worker("certificate", lambda one: renew_certificate(server.config, files, one.stopping)))
    for worker in workers:
        worker.start()
    try:
        server.run()
    finally:
        for worker in workers:
            worker.stop()
        manager.send("STOPPING=1")
    return service.ended_by is None


def renew_certificate(
    config: Any, files: list[Path], stopping: threading.Event, pause: float = CERTIFICATE_SECONDS
) -> None:
    """Load the certificate anew whenever its files change; connections that are open keep the one they began with."""
    loaded = _stamps(files)
    while not stopping.wait(pause):
        found = _stamps(files)
        if found == loaded or not config.loaded:
            continue
        try:
            # Into a context of its own first: half of a pair that is being written must not replace a good one.
            for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), config.ssl):
                context.load_cert_chain(*map(str, files))
        except (OSError, ssl.SSLError) as error:
            log("certificate not loaded", level="warning", error=type(error).__name__)
            continue
        loaded = found
        log("certificate loaded")


def _stamps(files: list[Path]) -> list[tuple[int, int, int] | None]:
    def stamp(file: Path) -> tuple[int, int, int] | None:
        try:
            found = file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    return [stamp(file) for file in files]


class Systemd:
    """What ``Type=notify`` and ``WatchdogSec=`` of a unit want to hear; nothing where no systemd listens."""

    def __init__(self, environment: Any) -> None:
        self._address: str | None = environment.get("NOTIFY_SOCKET")
        micros = environment.get("WATCHDOG_USEC", "")
        self._pause = int(micros) / 4e6 if micros.isdigit() and int(micros) else 10.0

    def tell(self, service: Service, stopping: threading.Event) -> None:
        """Say that the service is ready, and from then on that it lives, as long as it does."""
        if self._address is None:
            return
        ready = False
        while not stopping.is_set():
            if lives(service, self._pause):
                self.send("READY=1\nWATCHDOG=1" if not ready else "WATCHDOG=1", f"STATUS={service.status}")
                ready = True
            stopping.wait(self._pause if ready else 0.1)

    def send(self, *lines: str) -> None:
        if self._address is None:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
            line.sendto("\n".join(lines).encode(), address)


def lives(service: Service, seconds: float) -> bool:
    """Whether the event loop answers within some seconds, and all workers live."""
    answered = threading.Event()
    return service.call_soon(answered.set) and answered.wait(seconds) and service.dead is None
