"""Releases out: lists, pages of releases, tables, and events as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from veilstream.errors import VeilstreamError
from veilstream.live.clock import Clock
from veilstream.server import tables
from veilstream.server.access import Access
from veilstream.server.board import StreamBoard, dumps, page_json
from veilstream.server.columns import COLUMNS, column_bytes
from veilstream.server.describe import budget, stream_info
from veilstream.server.service import Service
from veilstream.server.shapes import Budget, ProblemBody, ReleasePage, StreamInfo, StreamList
from veilstream.server.shown import Shown

MOST_STEPS: Final = 20_000
MOST_NUMBERS: Final = 4_000_000
LARGEST: Final = (1 << 53) - 1
HEARTBEAT_SECONDS: Final = 15.0
TABLES: Final = {"csv": tables.CSV, "parquet": tables.PARQUET, "arrow": tables.ARROW}
JSON: Final = "application/json"
KINDS: Final = {"json": JSON, "columns": COLUMNS, **TABLES}
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    401: {"model": ProblemBody, "description": "no valid token"},
    403: {"model": ProblemBody, "description": "the token lacks the scope"},
    404: {"model": ProblemBody, "description": "nothing of that name"},
    422: {"model": ProblemBody, "description": "a parameter that cannot be used"},
}
PAGE: Final[dict[int | str, dict[str, Any]]] = {
    **PROBLEMS,
    200: {
        "model": ReleasePage,
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (*TABLES.values(), COLUMNS)},
        "description": "releases by step",
    },
    304: {"description": "nothing new since the entity tag that was sent"},
}
LIVE: Final[dict[int | str, dict[str, Any]]] = {
    **PROBLEMS,
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "server-sent events"},
}
Step = Annotated[int | None, Query(ge=-LARGEST, le=LARGEST)]


def router(service: Service, access: Access) -> APIRouter:
    """The routes of readers."""
    routes = APIRouter(prefix="/v1", tags=["read"])

    @routes.get("/streams", response_model=StreamList, responses=PROBLEMS)
    async def list_streams(
        request: Request,
        brief: Annotated[bool, Query(description="Leave out the names of bins and the borders of maps.")] = False,
    ) -> Response:
        """The streams that may be read."""
        readable = [board for name, board in service.boards.items() if access.may_read(request, name)]
        # What changes without a new release is the clock, by which nobody sets theirs.
        key = ("streams", brief, tuple((board.definition.name, board.visible) for board in readable))
        body, _ = await service.cache.get(key, partial(_list, readable, service.clock, brief))
        return Response(body, media_type=JSON)

    @routes.get("/streams/{name}", response_model=StreamInfo, responses=PROBLEMS)
    async def describe_stream(name: str, request: Request) -> dict[str, Any]:
        """What is public about a stream."""
        return stream_info(access.readable(request, name), service.clock)

    @routes.get("/streams/{name}/budget", response_model=Budget, responses=PROBLEMS)
    async def show_budget(name: str, request: Request) -> dict[str, Any]:
        """Spent and left in the present window, and when it comes back."""
        return await asyncio.to_thread(budget, access.readable(request, name))

    @routes.get("/streams/{name}/releases", responses=PAGE, response_class=Response)
    async def read_releases(
        name: str,
        request: Request,
        first: Annotated[int | None, Query(alias="from", ge=-LARGEST, le=LARGEST, description="First step.")] = None,
        last: Annotated[int | None, Query(alias="to", ge=-LARGEST, le=LARGEST, description="Last step.")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_STEPS, description="Most steps of this page.")] = 1000,
        numbers: Annotated[int, Query(ge=1, le=MOST_NUMBERS, description="Most steps times bins.")] = MOST_NUMBERS,
        newest: Annotated[bool, Query(description="Count the limit from the end of the range.")] = False,
        form: Annotated[Literal["json", "csv", "parquet", "arrow", "columns"], Query(alias="format")] = "json",
        digits: Annotated[int | None, Query(ge=3, le=15, description="Digits that count of numbers in JSON.")] = None,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Releases of a range of steps, which have no gaps; ``next`` tells where the next page begins."""
        board = access.readable(request, name)
        low, high = _range(board, first, last, min(limit, numbers // board.numbers), newest)
        upto = board.visible if last is None else min(last, board.visible)
        key = (name, low, high, upto, form, (board.visible, digits) if form not in TABLES else None)
        body, tag = await service.cache.get(key, lambda: _render(board, low, high, upto, form, digits))
        # Private streams must not stay in a shared cache.
        control = "public, max-age=1" if board.definition.public else "private, no-cache"
        headers = {"etag": tag, "cache-control": control, "vary": "authorization, cookie"}
        if if_none_match is not None and tag in [part.strip() for part in if_none_match.split(",")]:
            return Response(status_code=304, headers=headers)
        if form in TABLES:
            headers["content-disposition"] = f'attachment; filename="{name}-{low}-{high}.{form}"'
        return Response(body, headers=headers, media_type=KINDS[form])

    @routes.get("/streams/{name}/live", responses=LIVE, response_class=StreamingResponse)
    async def follow_stream(
        name: str,
        request: Request,
        after: Step = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> StreamingResponse:
        """Server-sent events: one for each release after the step ``after`` or Last-Event-ID."""
        board = access.readable(request, name)
        start = _resumed(board, after, last_event_id)
        return _events(_releases(service, board, start, lambda: access.may_read(request, name)))

    @routes.get("/live", responses=LIVE, response_class=StreamingResponse)
    async def follow_all(request: Request) -> StreamingResponse:
        """Server-sent events: which streams have a new release."""
        access.who(request)
        return _events(_heads(service, lambda: [name for name in service.boards if access.may_read(request, name)]))

    return routes


def _list(boards: list[StreamBoard], clock: Clock, brief: bool) -> bytes:
    left_out: dict[str, Any] = {"labels": [], "attributes": {}, "grid": None} if brief else {}
    return dumps({"streams": [{**stream_info(board, clock), **left_out} for board in boards]})


def _range(board: StreamBoard, first: int | None, last: int | None, limit: int, newest: bool) -> tuple[int, int]:
    low = board.first if first is None else max(first, board.first)
    high = board.visible if last is None else min(last, board.visible)
    steps = max(1, limit)
    if newest:
        return max(low, high - steps + 1), high
    return low, min(high, low + steps - 1)


def _render(board: StreamBoard, low: int, high: int, upto: int, form: str, digits: int | None) -> bytes:
    releases = list(board.read(low, high)) if low <= high else list[Shown]()
    if form == "json":
        return dumps(page_json(board, releases, upto, digits))
    if form == "columns":
        return column_bytes(board, releases)
    return tables.write(tables.table(board, releases), TABLES[form])


def _resumed(board: StreamBoard, after: int | None, header: str | None) -> int:
    if header is not None and header.strip().lstrip("-").isdigit() and len(header) < 17:
        return max(int(header), board.first - 1)
    return board.visible if after is None else max(after, board.first - 1)


def _events(source: AsyncIterator[bytes]) -> StreamingResponse:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_while_allowed(source), headers=headers, media_type="text/event-stream")


async def _while_allowed(source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Events until a token ends: whoever asks again is told why."""
    try:
        async for event in source:
            yield event
    except VeilstreamError:
        return


async def _releases(
    service: Service, board: StreamBoard, after: int, allowed: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Events for as long as the reader may have them and the board is that of the server that leads."""
    yield b"retry: 2000\n\n"
    while allowed() and service.leading and service.boards.get(board.definition.name) is board:
        if board.visible <= after:
            try:
                await asyncio.wait_for(board.news(after), HEARTBEAT_SECONDS)
            except TimeoutError:
                yield b": still here\n\n"
            continue
        step = after + 1
        key = ("event", board.definition.name, step)
        body, _ = await service.cache.get(key, partial(_event, board, step))
        yield body
        after = step


def _event(board: StreamBoard, step: int) -> bytes:
    page = page_json(board, list(board.read(step, step)), step)
    return b"id: %d\nevent: release\ndata: %s\n\n" % (step, dumps(page))


async def _heads(service: Service, readable: Callable[[], list[str]]) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    seen: dict[str, int] = {}
    while service.leading:
        news = service.any_news
        heads = {name: service.boards[name].visible for name in readable()}
        changed = {name: head for name, head in heads.items() if seen.get(name) != head}
        if changed:
            seen |= changed
            yield b"event: heads\ndata: %s\n\n" % dumps(changed)
        try:
            await asyncio.wait_for(news.wait(), HEARTBEAT_SECONDS)
        except TimeoutError:
            yield b": still here\n\n"
