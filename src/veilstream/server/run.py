"""Run the application under uvicorn."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from veilstream.errors import MissingExtraError
from veilstream.server.service import Service


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
    try:
        uvicorn: Any = import_module("uvicorn")
    except ImportError:
        raise MissingExtraError("the server needs: pip install 'veilstream[server]'") from None
    from veilstream.server.app import make_app

    os.umask(0o077)
    config = uvicorn.Config(
        make_app(service),
        host=listen.host,
        port=listen.port,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.key,
        proxy_headers=listen.proxies is not None,
        forwarded_allow_ips=listen.proxies or "",
        # Addresses of readers are personal data, and lines of batches would tell when they came.
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=15,
        # The parser whose limit on headers is known and tested.
        http="h11",
        # It reads large bodies in larger pieces than uvloop, at a third of the processor time.
        loop="asyncio",
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=64 << 10,
        lifespan="on",
    )
    return uvicorn.Server(config)
