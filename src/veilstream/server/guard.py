"""What wraps every answer: security headers, the check of the host's name, and a count without private numbers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from veilstream.server.board import dumps
from veilstream.server.events import EVENTS
from veilstream.server.hosts import host_name, is_allowed
from veilstream.server.service import Service

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Endpoint = Callable[[Message, Receive, Send, str], Awaitable[None]]
"""What takes batches of the stream that is named last."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; manifest-src 'self'; frame-ancestors {frames}"
)
HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
MOST_JSON: Final = 64 << 10
"""Bytes of a body on any route but that of batches, which has limits of its own."""
BODY_SECONDS: Final = 10.0
FOLLOWED: Final = re.compile(r"/v1/(streams/[^/]+/)?live")
"""Answers that go on for as long as somebody reads them."""


class Guard:
    """The outermost application."""

    def __init__(self, app: Any, service: Service, batches: Endpoint, most_followers: int) -> None:
        self._app, self._service, self._batches = app, service, batches
        self._followers, self._most_followers = 0, most_followers
        self._hosts = tuple(name for one in service.options.hosts if (name := host_name(one)) is not None)
        self._extra = {embedded: self._headers(embedded) for embedded in (False, True)}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"host"), "")
        respond = self._with_headers(scope, send)
        # Who asks for the health of this server learns nothing about anybody, and asks by whatever address there is.
        if not str(scope["path"]).startswith("/health/") and not is_allowed(host, self._hosts):
            await _refuse(respond, 421, "host: not one that this server answers to; add it with --allow-host")
            return
        found = EVENTS.fullmatch(str(scope["path"])) if scope["method"] == "POST" else None
        if found is not None:
            await self._batches(scope, receive, respond, found[1])
            return
        if not str(scope["path"]).endswith("/events"):
            length = next((value for name, value in scope["headers"] if name.lower() == b"content-length"), b"0")
            if not length.isdigit() or int(length[:16]) > MOST_JSON:
                await _refuse(respond, 413, f"body: at most {MOST_JSON} bytes")
                return
            receive = _limited(receive)
        if scope["method"] == "HEAD":
            # As uvicorn sends no body on HEAD, it is the answer to GET without its body.
            scope = {**scope, "method": "GET"}
            respond = _only_head(respond)
        if not FOLLOWED.fullmatch(str(scope["path"])):
            await self._app(scope, receive, respond)
        elif self._followers >= self._most_followers:
            await _refuse(respond, 503, "server: as many follow its events as may; read the releases instead")
        else:
            self._followers += 1
            try:
                await self._app(scope, receive, respond)
            finally:
                self._followers -= 1

    def _headers(self, embedded: bool) -> list[tuple[bytes, bytes]]:
        extra = dict(HEADERS)
        extra["content-security-policy"] = POLICY.format(frames="*" if embedded else "'none'")
        if not embedded:
            extra["x-frame-options"] = "DENY"
        if self._service.options.secure:
            extra["strict-transport-security"] = "max-age=31536000"
        return [(name.encode(), value.encode()) for name, value in extra.items()]

    def _with_headers(self, scope: MutableMapping[str, Any], send: Send) -> Send:
        extra = self._extra[str(scope["path"]).startswith("/embed/")]

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                stated = any(name.lower() == b"cache-control" for name, _ in message["headers"])
                unstated = [] if stated else [(b"cache-control", b"no-store")]
                message["headers"] = [*message["headers"], *extra, *unstated]
                self._service.metrics.count("http_requests", kind=_kind(scope), status=str(message["status"]))
            await send(message)

        return respond


def _only_head(send: Send) -> Send:
    """Ends an answer after its headers, also one that would go on."""
    ended = False

    async def head(message: Message) -> None:
        nonlocal ended
        if message["type"] == "http.response.start":
            await send(message)
        elif not ended:
            ended = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return head


def _limited(receive: Receive) -> Receive:
    """Bodies end like a lost connection when they grow too large without a length, or do not come in time."""
    came, ended, until = 0, False, time.monotonic() + BODY_SECONDS

    async def limited() -> Message:
        nonlocal came, ended
        if ended:
            return await receive()
        try:
            async with asyncio.timeout(until - time.monotonic()):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        ended = not message.get("more_body", False)
        came += len(message.get("body", b""))
        return message if came <= MOST_JSON else {"type": "http.disconnect"}

    return limited


def _kind(scope: MutableMapping[str, Any]) -> str:
    """The kind of a request: names in a path are left out."""
    first = str(scope["path"]).strip("/").split("/")
    known = {"v1", "embed", "assets", "health", "metrics", "openapi.json", ""}
    return first[0] if first[0] in known else "other"


async def _refuse(send: Send, status: int, message: str) -> None:
    body = dumps({"error": {"type": "InvalidInputError", "message": message}})
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
