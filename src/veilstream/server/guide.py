"""The guided page: from a file to private releases in a browser, with the command and the Python that do the same."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from dataclasses import fields
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from veilstream.confined import UndecodableError
from veilstream.jobs.automatic import AUTO
from veilstream.live.definition import StreamDefinition
from veilstream.live.stream import LiveStream, open_stream
from veilstream.server.access import Access
from veilstream.server.events import BODY, PROBLEMS, TooFastError, read_body
from veilstream.server.guide_cost import pool, too_much
from veilstream.server.intake import Rate
from veilstream.server.service import Service
from veilstream.values.choices import STATISTICS

PREVIEWS_PER_SECOND: Final = 0.1
PREVIEWS: Final = 20
"""Of an address: this many at once, and then so many a second."""
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
Text = Annotated[str, Field(min_length=1, max_length=100)]


class GuideRequest(BaseModel):
    """What a person says about a file: its columns, what is public about it, and how much may be spent."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=NAME)
    file: str = Field(default="rows.csv", max_length=200)
    user: Text
    time: Text
    domain: dict[str, Any] = Field(default_factory=dict, max_length=20)
    every: Text
    start: Text
    end: Text
    zone: Text = "UTC"
    epsilon: Text
    window: Annotated[int, Field(ge=1, le=10**6)] | Literal["user"]
    mechanism: Text = AUTO
    sum: Text | None = None
    mean: Text | None = None
    variance: Text | None = None
    median: Text | None = None
    quantiles: Text | None = None
    between: tuple[Text, Text] | None = None
    bins_per_user: int = Field(default=1, ge=1, le=10**6)
    counts_per_user: int = Field(default=1, ge=1, le=10**6)

    def job(self) -> dict[str, Any]:
        """The same as a publishing job."""
        own = self.model_dump(exclude={"name", "file"})
        missing = {"missing_value": "drop"} if self.measured else {}
        return {**own, "stream": self.name, "unknown": "drop", "missing_time": "drop", **missing}

    @property
    def measured(self) -> dict[str, str]:
        """The columns that are measured, by what is published of each; empty where rows are counted."""
        return {name: column for name in STATISTICS[1:] if (column := getattr(self, name)) is not None}

    def definition(self) -> StreamDefinition:
        own = self.model_dump(exclude={"file", "end"})
        return StreamDefinition.from_json({**own, "clock": "manual", "title": self.name, "ahead": "0s"})


class GuidePreview(BaseModel):
    """Cost and expected error, found without any data; and how to do the same without this page."""

    promise: str
    bins: int
    steps: int
    epsilon_per_release: str
    epsilon_per_window: str
    noise_std: float
    mean_absolute_error: float
    measures: list[tuple[str, str]]
    notes: list[str]
    domain_file: str
    command: str
    python: str


class Published(BaseModel):
    stream: str
    steps: int


def router(service: Service, access: Access) -> APIRouter:
    """The routes of the guided page."""
    routes = APIRouter(prefix="/v1/guide", tags=["guide"])
    previews = Rate(PREVIEWS_PER_SECOND, PREVIEWS)

    @routes.post("/preview", response_model=GuidePreview, responses=PROBLEMS)
    async def preview_file(body: GuideRequest, request: Request) -> dict[str, Any]:
        """What publishing a file would cost and how exact it would be. Nothing is read or spent."""
        address = request.client.host if request.client else ""
        wait = previews.wait(address, time.monotonic())
        if wait:
            raise TooFastError("more previews than allowed", wait)
        try:
            cost, _ = await asyncio.wrap_future(pool().submit(address, lambda child: child.one(body.job())))
        except UndecodableError:
            raise too_much("less work") from None
        domain = json.dumps(body.domain, indent=2, ensure_ascii=False)
        return {**cost, "domain_file": domain, "command": command(body), "python": python(body)}

    @routes.post("/streams", status_code=201, response_model=Published, responses=PROBLEMS)
    async def define_stream(body: GuideRequest, request: Request) -> dict[str, Any]:
        """Define the stream that the file will be published in."""
        grant = access.require(request, "admin", body.name)
        await asyncio.to_thread(lambda: _open(service, body.definition()))
        await asyncio.to_thread(service.tokens.log, grant.id, "define stream", body.name)
        return {"stream": body.name, "steps": 0}

    @routes.post("/streams/{name}/events", response_model=Published, responses=PROBLEMS, openapi_extra=BODY)
    async def publish_file(
        name: Annotated[str, Path(pattern=NAME)], request: Request, until: Annotated[str, Query(max_length=100)]
    ) -> JSONResponse:
        """Publish a whole file: its rows are bounded and every step up to ``until`` is released, once."""
        grant = access.require(request, "admin", name)
        known = await asyncio.to_thread(service.spool.stream, name)
        if known is None or known.definition.clock != "manual":
            return JSONResponse({"error": {"type": "InvalidInputError", "message": "stream: define it first"}}, 404)
        async with read_body(request, service, grant.id, named=True) as body:
            await service.intake.take(grant.id, known, body, service.clock.now(), "file")
        stream = await asyncio.to_thread(_open, service, known.definition)
        steps = await asyncio.to_thread(lambda: len(stream.close_until(until)))
        await asyncio.to_thread(service.tokens.log, grant.id, "publish file", name)
        await asyncio.to_thread(service.open_board, name)
        return JSONResponse({"stream": name, "steps": steps})

    return routes


def _open(service: Service, definition: StreamDefinition) -> LiveStream:
    return open_stream(service.ledger, definition.name, definition, spool=service.spool, clock=service.clock)


def command(body: GuideRequest) -> str:
    """The command that publishes the same file under the same guarantee."""
    options = {
        "--user": body.user,
        "--time": body.time,
        "--every": body.every,
        "--start": body.start,
        "--end": body.end,
        "--epsilon": body.epsilon,
        "--window": str(body.window),
        "--mechanism": body.mechanism,
        "--stream": body.name,
        "--unknown": "drop",
        "--missing-time": "drop",
        "--ledger": "budget.db",
        "--out": "releases.csv",
    }
    if body.domain:
        options["--domain"] = "domain.json"
    if body.zone != "UTC":
        options["--zone"] = body.zone
    if body.bins_per_user > 1 or body.counts_per_user > 1:
        options |= {"--bins-per-user": str(body.bins_per_user), "--counts-per-user": str(body.counts_per_user)}
    words = [f"{name} {shlex.quote(value)}" for name, value in options.items()]
    words += [f"--{name} {shlex.quote(column)}" for name, column in body.measured.items()]
    if body.between is not None:
        words.append(f"--between {' '.join(shlex.quote(end) for end in body.between)}")
    if body.measured:
        words.append("--missing-value drop")
    return " \\\n  ".join([f"veilstream publish {shlex.quote(body.file)}", *words])


def python(body: GuideRequest) -> str:
    """The Python that does what this page does."""
    usual = {item.name: item.default for item in fields(StreamDefinition)}
    own = {name: value for name, value in body.definition().to_json().items() if value != usual[name]}
    kept = {name: value for name, value in own.items() if name not in ("name", "title", "ahead") and value != {}}
    lines = "".join(f"    {name}={value!r},\n" for name, value in kept.items())
    shown = (
        f"    for release in stream.close_until({body.end!r}):\n"
        "        print(release.t, release.values, release.interval(0.95))\n"
    )
    if body.measured:
        shown = (
            f"    stream.close_until({body.end!r})\n"
            "    for release, found in stream.estimates(level=0.95):\n"
            "        for one in found:\n"
            "            print(release.t, one.label, one.value, one.low, one.high)\n"
        )
    return (
        "import veilstream as vs\n\n"
        f"definition = dict(\n{lines})\n"
        f'with vs.open_stream("budget.db", {body.name!r}, definition) as stream:\n'
        f"    stream.add({body.file!r})\n"
        f"{shown}"
    )
