"""Batches in: ``POST /v1/streams/{name}/events``."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse, Response
from starlette.requests import ClientDisconnect

from veilstream.errors import InvalidInputError, VeilstreamError
from veilstream.server import bodies
from veilstream.server.access import Access
from veilstream.server.decoding import Body
from veilstream.server.intake import Rate
from veilstream.server.logs import log
from veilstream.server.quotas import Quotas
from veilstream.server.service import Service
from veilstream.server.shapes import Accepted, ProblemBody
from veilstream.server.tracing import span

EVENTS: Final = re.compile(r"/v1/streams/([^/]+)/events")
BATCH_ID: Final = re.compile(r"[\x21-\x7e]{1,200}")
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": ProblemBody, "description": words}
    for status, words in {
        400: "the batch id is missing or malformed",
        401: "no valid token",
        403: "the token lacks the scope",
        404: "no such stream",
        408: "the body did not come in time",
        409: "the batch id was used for other content",
        413: "too large",
        415: "not a format that is taken",
        422: "the rows cannot be read or are refused",
        429: "too fast, or the server is full; wait for Retry-After",
        503: "it took too long to store, or storage is not available; send it again",
    }.items()
}
BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            bodies.NDJSON: {"schema": {"type": "string"}},
            bodies.CSV: {"schema": {"type": "string"}},
            bodies.ARROW: {"schema": {"type": "string", "format": "binary"}},
            bodies.PARQUET: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


class TooFastError(VeilstreamError):
    """A client that sends faster than it may."""

    outcome = "nothing was stored"

    def __init__(self, problem: str, seconds: float) -> None:
        super().__init__(name="client", limit=f"{problem}; wait for Retry-After")
        self.retry_after = max(1, math.ceil(seconds))


class SlowBodyError(VeilstreamError):
    """A body that did not come in time."""

    outcome = "nothing was stored"


class Batches:
    """Takes the batches of clients."""

    def __init__(self, service: Service, access: Access) -> None:
        self._service, self._access = service, access
        self._limits = service.options.limits
        self._rate = Rate(self._limits.batches_per_second, self._limits.burst)
        self._quotas = Quotas()

    async def take(self, request: Request, name: str, batch_id: str | None) -> Response:
        """Store a batch of rows; an answer of 202 means that it is on the disk."""
        service = self._service
        received, began = service.clock.now(), time.monotonic()
        grant = self._access.require(request, "ingest", name)
        wait = self._rate.wait(grant.id, began)
        if wait:
            raise TooFastError("more batches a second than allowed", wait)
        if (wait := self._quotas.wait(grant, began)) > 0:
            raise TooFastError("the token's bytes of a day are used up", wait)
        stream = service.spooled.get(name)
        if stream is None:
            return JSONResponse(_problem("InvalidInputError", "stream: there is none of that name"), 404)
        if batch_id is not None and not BATCH_ID.fullmatch(batch_id):
            return JSONResponse(_problem("InvalidInputError", "Batch-Id: 1 to 200 printable ASCII characters"), 400)
        try:
            with span("ingest", stream=name, format=bodies.media_type(request.headers.get("content-type"))):
                async with read_body(request, service, grant.id, named=batch_id is not None) as body:
                    self._quotas.use(grant, len(body.content), began)
                    # A slow body outlives the token that it came with.
                    self._access.require(request, "ingest", name)
                    outcome = await service.intake.take(grant.id, stream, body, received, batch_id)
        except VeilstreamError as error:
            service.metrics.count("batches", outcome=type(error).__name__)
            log("batch refused", level="warning", stream=name, token=grant.id, error=type(error).__name__)
            raise
        service.metrics.count("batches", outcome=outcome)
        service.metrics.observe("batch_seconds", time.monotonic() - began)
        return JSONResponse({"status": outcome}, 202 if outcome == "accepted" else 200)


def router(batches: Batches) -> APIRouter:
    """The routes of clients that send rows."""
    routes = APIRouter(prefix="/v1", tags=["ingest"])

    @routes.post(
        "/streams/{name}/events",
        status_code=202,
        response_model=Accepted,
        responses={**PROBLEMS, 200: {"model": Accepted, "description": "the same batch was stored before"}},
        openapi_extra=BODY,
    )
    async def send_events(
        name: str,
        request: Request,
        batch_id: Annotated[
            str | None, Header(alias="Batch-Id", description="The same id with the same content is stored once.")
        ] = None,
    ) -> Response:
        """Add a batch of rows to a stream. 202 means that it is on the disk."""
        return await batches.take(request, name, batch_id)

    return routes


@asynccontextmanager
async def read_body(request: Request, service: Service, client: str, *, named: bool) -> AsyncGenerator[Body]:
    """A body within the limits of batches, as it came; room for it is kept until the block ends."""
    kind = bodies.media_type(request.headers.get("content-type"))
    gzip = bodies.is_gzip(request.headers.get("content-encoding"))
    limits, pieces, came = service.options.limits, list[bytes](), 0
    _check_length(request.headers.get("content-length"), limits.most_bytes)
    try:
        try:
            async with asyncio.timeout(limits.seconds):
                async for piece in request.stream():
                    if came + len(piece) > limits.most_bytes:
                        raise _too_large(limits.most_bytes)
                    service.intake.reserve(client, len(piece))
                    came += len(piece)
                    pieces.append(piece)
        except TimeoutError:
            raise SlowBodyError(
                name="body", limit=f"it must come within {limits.seconds:g} s; send smaller batches"
            ) from None
        except ClientDisconnect:
            raise SlowBodyError(name="body", limit="the client went away; send it again") from None
        yield Body(b"".join(pieces), kind, gzip, named)
    finally:
        service.intake.release(client, came)


def _problem(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": f"{message}; nothing was stored"}}


def _check_length(length: str | None, most_bytes: int) -> None:
    if length is None:
        return
    if not re.fullmatch(r"\d{1,15}", length):
        raise InvalidInputError(name="Content-Length", limit="a whole number is needed", outcome="nothing was stored")
    if int(length) > most_bytes:
        raise _too_large(most_bytes)


def _too_large(most_bytes: int) -> bodies.BodyTooLargeError:
    return bodies.BodyTooLargeError(name="body", limit=f"at most {most_bytes} bytes; send smaller batches")
