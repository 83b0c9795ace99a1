"""The application that a server runs."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from veilstream.confined import CrowdedError
from veilstream.errors import (
    BatchConflictError,
    InvalidInputError,
    LedgerError,
    LedgerMismatchError,
    SpoolFullError,
    StaleBatchError,
    VeilstreamError,
    WorkerError,
)
from veilstream.server import events, guide, operate, readers, revisions
from veilstream.server.access import COOKIE, Access, DeniedError
from veilstream.server.assets import add_page
from veilstream.server.bodies import BodyTooLargeError, UnknownFormatError
from veilstream.server.events import SlowBodyError, TooFastError
from veilstream.server.guard import Endpoint, Guard, Message, Receive, Send
from veilstream.server.guide_cost import TooMuchError
from veilstream.server.intake import OverloadedError
from veilstream.server.service import Service
from veilstream.server.tokens import UnknownTokenError

OPEN: Final = ("/v1/guide/preview", "/v1/session")
"""What needs no token, beside the streams that are public."""
ALWAYS: Final = ("/health/", "/metrics")
LOG: Final = logging.getLogger("veilstream.server")


def make_app(service: Service, most_followers: int = 10_000) -> Guard:
    """The application around a service, which starts and stops with it; so many may follow its events at once."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="veilstream",
        version=version("veilstream"),
        summary="Private statistics about people, published as they come.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    access = Access(service)
    batches = events.Batches(service, access)
    app.include_router(events.router(batches))
    app.include_router(readers.router(service, access))
    app.include_router(revisions.router(service, access))
    app.include_router(operate.router(service, access))
    app.include_router(guide.router(service, access))
    add_page(app)
    app.add_exception_handler(VeilstreamError, _explain)
    app.add_exception_handler(RequestValidationError, _explain_parameters)
    app.add_exception_handler(HTTPException, _explain_http)
    setattr(app, "openapi", partial(_described, app.openapi))  # noqa: B010
    return Guard(_Leading(app, service), service, _straight(batches, service), most_followers)


def _described(describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The description of the interface, with who may use what."""
    schema = describe()
    schema["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
    }
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            if "401" in operation["responses"]:
                everybody = "read" in operation["tags"] or path in OPEN
                operation["security"] = [{"token": []}, {"session": []}, *([{}] if everybody else [])]
    return schema


class NotLeadingError(VeilstreamError):
    """A server that stands by."""

    outcome = "nothing was done"

    def __init__(self) -> None:
        super().__init__(name="server", limit="it stands by while another serves; ask that one")


STATUS: Final[tuple[tuple[type[VeilstreamError], int], ...]] = (
    (BatchConflictError, 409),
    (SpoolFullError, 429),
    (OverloadedError, 429),
    (CrowdedError, 429),
    (WorkerError, 503),
    (TooFastError, 429),
    (StaleBatchError, 503),
    (NotLeadingError, 503),
    (SlowBodyError, 408),
    (BodyTooLargeError, 413),
    (UnknownFormatError, 415),
    (UnknownTokenError, 404),
    (TooMuchError, 413),
    (InvalidInputError, 422),
    (LedgerMismatchError, 409),
    (LedgerError, 503),
)


class _Leading:
    """Lets only the server that leads answer; its health and metrics everybody may ask for."""

    def __init__(self, app: FastAPI, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        stands_by = scope["type"] == "http" and not self._service.leading
        if stands_by and not str(scope["path"]).startswith(ALWAYS):
            answer = await _explain(Request(scope, receive), NotLeadingError())
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _straight(batches: events.Batches, service: Service) -> Endpoint:
    """Batches without the way through routes and parameters, which takes as long as a small batch itself."""

    async def take(scope: Message, receive: Receive, send: Send, name: str) -> None:
        request = Request(scope, receive)
        try:
            if not service.leading:
                raise NotLeadingError
            answer = await batches.take(request, name, request.headers.get("batch-id"))
        except VeilstreamError as error:
            answer = await _explain(request, error)
        await answer(scope, receive, send)

    return take


def _answer(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": {"type": kind, "message": message}}, status, headers)


async def _explain(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, VeilstreamError)
    if isinstance(error, DeniedError):
        headers = {"www-authenticate": "Bearer"} if error.status == 401 else None
        return _answer(error.status, type(error).__name__, str(error), headers)
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    retry: Any = getattr(error, "retry_after", 1)
    headers = {"retry-after": str(retry)} if status in (429, 503) else None
    message = str(error)
    if status >= 500 and not isinstance(error, StaleBatchError | NotLeadingError):
        # What storage says names files and hosts of the operator.
        LOG.error("%s: %s", type(error).__name__, message)
        message = f"storage: not available ({type(error).__name__}); try again later, the operator's log says why"
    return _answer(status, type(error).__name__, message, headers)


async def _explain_parameters(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # The value that was sent is not repeated.
    names = ", ".join(sorted({str(item["loc"][-1]) for item in error.errors()}))
    return _answer(422, "InvalidInputError", f"{names}: not as the description at /openapi.json says")


async def _explain_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _answer(error.status_code, "HTTPError", str(error.detail), dict(error.headers or {}))
