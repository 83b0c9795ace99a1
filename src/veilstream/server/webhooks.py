"""Releases sent to addresses that the operator named, each step once it is shown, in order, until it is taken."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
from importlib import import_module
from typing import Any, Final

from veilstream.live.spool import Spool
from veilstream.server.board import StreamBoard, dumps, page_json

LOG: Final = logging.getLogger("veilstream.server")
SECRET: Final = "VEILSTREAM_WEBHOOK_SECRET"
SECONDS: Final = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0


def signature(body: bytes, secret: str) -> str:
    """The signature by which a receiver knows the sender.

    >>> signature(b"{}", "key")[:17]
    'sha256=a777724d94'
    """
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


async def deliver(spool: Spool, board: StreamBoard, url: str, pause: float = FIRST_PAUSE) -> None:
    """Send every release of a stream to ``url``, from the one after the last that was taken."""
    source = f"webhook:{url}"
    stored = (await asyncio.to_thread(spool.positions, source)).get(board.definition.name)
    after = board.visible if stored is None else int(stored)
    client: Any = import_module("httpx").AsyncClient(timeout=SECONDS)
    async with client:
        while True:
            await board.news(after)
            step, wait = after + 1, pause
            while not await _sent(client, board, url, step):
                await asyncio.sleep(wait)
                wait = min(LONGEST_PAUSE, 2 * wait)
            await asyncio.to_thread(spool.move, source, board.definition.name, str(step))
            after = step


async def _sent(client: Any, board: StreamBoard, url: str, step: int) -> bool:
    releases = await asyncio.to_thread(lambda: list(board.read(step, step)))
    body = dumps(page_json(board, releases, step))
    headers = {"content-type": "application/json", "x-veilstream-step": str(step)}
    secret = os.environ.get(SECRET)
    if secret:
        headers["x-veilstream-signature"] = signature(body, secret)
    try:
        answer = await client.post(url, content=body, headers=headers)
    except import_module("httpx").HTTPError as error:
        LOG.warning("webhook of stream %s: %s; it will be tried again", board.definition.name, type(error).__name__)
        return False
    return bool(answer.is_success)
