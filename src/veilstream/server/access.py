"""Who is asking: a bearer token, or the page's cookie with a token against forged requests."""

from __future__ import annotations

import base64
import hmac
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from fastapi import Request

from veilstream.errors import VeilstreamError
from veilstream.server.board import StreamBoard
from veilstream.server.service import Service
from veilstream.server.tokens import Grant

COOKIE: Final = "veilstream_session"
CSRF_HEADER: Final = "x-csrf-token"
MOST_SESSIONS: Final = 10_000
SESSION_SECONDS: Final = 12 * 3600
SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")


class DeniedError(VeilstreamError):
    """No valid token (401), one without the right (403), or nothing of that name (404)."""

    outcome = ""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


@dataclass(frozen=True, slots=True)
class Session:
    """What a cookie stands for."""

    token: str
    digest: str
    csrf: str
    until: int


class Sessions:
    """Cookies of the page, in memory: they end with the process, and with the secret that they came from."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def begin(self, grant: Grant) -> tuple[str, Session]:
        name, csrf = _word(), _word()
        until = min(grant.expires, self._service.wall.now() + SESSION_SECONDS * 1_000_000)
        self._sessions[name] = Session(grant.id, grant.digest, csrf, until)
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return name, self._sessions[name]

    def end(self, name: str) -> None:
        self._sessions.pop(name, None)

    def find(self, request: Request) -> tuple[Grant, Session] | None:
        session = self._sessions.get(request.cookies.get(COOKIE, ""))
        if session is None or session.until <= self._service.wall.now():
            return None
        grant = self._service.tokens.grant(session.token)
        # Whoever has a token's old secret, and rotated it was because somebody may, has no session either.
        return None if grant is None or grant.digest != session.digest else (grant, session)


def _word() -> str:
    return base64.urlsafe_b64encode(os.urandom(24)).decode()


class Access:
    """Decides about requests."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.sessions = Sessions(service)

    def who(self, request: Request) -> Grant | None:
        """The rights of whoever asks, None for anybody."""
        header = request.headers.get("authorization")
        if header is not None:
            kind, _, token = header.partition(" ")
            grant = self._service.tokens.check(token.strip()) if kind.lower() == "bearer" else None
            if grant is None:
                raise DeniedError(401, "token: not valid, expired or revoked; ask the operator for another")
            return grant
        found = self.sessions.find(request)
        if found is None:
            return None
        grant, session = found
        if request.method not in SAFE_METHODS:
            given = request.headers.get(CSRF_HEADER, "")
            if not hmac.compare_digest(given.encode(), session.csrf.encode()):
                raise DeniedError(403, "request: it does not come from this page; reload the page")
        return grant

    def require(self, request: Request, scope: str, stream: str | None = None) -> Grant:
        """The rights of whoever asks, which must hold the scope; unknown streams answer like forbidden ones."""
        grant = self.who(request)
        if grant is None:
            raise DeniedError(401, f"token: missing; this needs one with the scope '{scope}'")
        if not grant.allows(scope, stream):
            raise DeniedError(403, f"token: it lacks the scope '{scope}' for this; ask the operator for another")
        return grant

    def may_read(self, request: Request, name: str) -> bool:
        """Whether the releases of a stream may be seen."""
        board = self._service.boards.get(name)
        if board is not None and board.definition.public:
            return True
        grant = self.who(request)
        return grant is not None and (grant.allows("read", name) or grant.allows("operate", name))

    def readable(self, request: Request, name: str) -> StreamBoard:
        """The stream's board, if its releases may be seen."""
        if not self.may_read(request, name):
            self.require(request, "read", name)
        board = self._service.boards.get(name)
        if board is None:
            raise DeniedError(404, "stream: there is none of that name; see /v1/streams")
        return board
