"""For operators and administrators: health, metrics, tokens, sessions and the log of what was done."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from veilstream.release.budget import outside, outside_json
from veilstream.server import shapes
from veilstream.server.access import COOKIE, SESSION_SECONDS, Access, DeniedError
from veilstream.server.gauges import gauges
from veilstream.server.readers import PROBLEMS
from veilstream.server.service import Service

TokenId = Annotated[str, Path(max_length=40)]
MOST_FAILURES: Final = 10
METRICS: Final[dict[int | str, dict[str, Any]]] = {**PROBLEMS, 200: {"content": {"text/plain": {}}, "description": ""}}


def router(service: Service, access: Access) -> APIRouter:
    """The routes of operators."""
    routes = APIRouter(tags=["operate"])

    @routes.get("/health/live", response_model=shapes.Health, responses={503: {"model": shapes.Health}})
    async def live() -> JSONResponse:
        """Whether the process answers and all its workers live."""
        died = service.dead is not None
        return JSONResponse({"status": "worker died" if died else "ok"}, 503 if died else 200)

    @routes.get(
        "/health/ready",
        response_model=shapes.Health,
        responses={503: {"model": shapes.Health, "description": "steps are not being closed here"}},
    )
    async def ready() -> JSONResponse:
        """Whether steps are being closed: not by a server that stands by, and not while no stream can go on."""
        return JSONResponse({"status": service.status}, 200 if service.ready else 503)

    @routes.get("/metrics", responses=METRICS, response_class=PlainTextResponse)
    async def metrics(request: Request) -> PlainTextResponse:
        """Prometheus metrics, without numbers of rows or people."""
        grant = access.require(request, "operate")
        shows = partial(grant.allows, "operate")
        text = await asyncio.to_thread(lambda: service.metrics.text(gauges(service, shows)))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @routes.get("/v1/operate", response_model=shapes.OperatorView, responses=PROBLEMS)
    async def operator_view(request: Request) -> dict[str, Any]:
        """Exact numbers of rows taken, late and dropped, for the operator alone."""
        grant = access.require(request, "operate")
        views = await asyncio.to_thread(service.operator_view)
        return {
            "streams": [view for view in views if grant.allows("operate", view["stream"])],
            "ready": service.ready,
            "batches": service.metrics.counts("batches", "outcome"),
            "batch_p99": _finite(service.metrics.at_most("batch_seconds", 0.99)),
            "delay_p99": _finite(service.metrics.at_most("release_delay_seconds", 0.99)),
        }

    @routes.get("/v1/populations", response_model=shapes.PopulationBudgets, responses=PROBLEMS)
    async def populations(request: Request) -> dict[str, Any]:
        """What each population of the ledger has spent and left, and which streams draw on it."""
        access.require(request, "operate", "*")
        return {
            "populations": await asyncio.to_thread(service.population_budgets),
            "outside": outside_json(await asyncio.to_thread(outside, service.ledger)),
        }

    @routes.get("/v1/audit", response_model=shapes.AuditLog, responses=PROBLEMS)
    async def audit(request: Request, limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> dict[str, Any]:
        """Who did what, newest first."""
        access.require(request, "admin", "*")
        return {"entries": await asyncio.to_thread(service.tokens.history, limit)}

    _session_routes(routes, service, access)
    _token_routes(routes, service, access)
    return routes


def _finite(seconds: float | None) -> float | None:
    return None if seconds is None or math.isinf(seconds) else seconds


def _session_routes(routes: APIRouter, service: Service, access: Access) -> None:
    failures: dict[str, int] = {}

    @routes.get("/v1/session", response_model=shapes.SessionInfo)
    async def session(request: Request) -> dict[str, Any]:
        """Who is logged in on the page."""
        found = access.sessions.find(request)
        if found is None:
            return {"label": None, "scopes": [], "streams": [], "csrf": None}
        grant, known = found
        return {"label": grant.label, "scopes": grant.scopes, "streams": grant.streams, "csrf": known.csrf}

    @routes.post("/v1/session", response_model=shapes.SessionInfo, responses=PROBLEMS)
    async def log_in(body: shapes.SessionRequest, request: Request, response: Response) -> dict[str, Any]:
        """Exchange a token for the page's cookie."""
        grant = service.tokens.check(body.token)
        client = request.client.host if request.client else "?"
        if grant is None:
            failures[client] = failures.get(client, 0) + 1
            await asyncio.sleep(min(2.0, 0.05 * 2 ** min(failures[client], MOST_FAILURES)))
            raise DeniedError(401, "token: not valid, expired or revoked; ask the operator for another")
        failures.pop(client, None)
        name, known = access.sessions.begin(grant)
        response.set_cookie(
            COOKIE,
            name,
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=service.options.secure,
        )
        await asyncio.to_thread(service.tokens.log, grant.id, "log in", "page")
        return {"label": grant.label, "scopes": grant.scopes, "streams": grant.streams, "csrf": known.csrf}

    @routes.delete("/v1/session", status_code=204, responses=PROBLEMS)
    async def log_out(request: Request) -> Response:
        """End the page's session."""
        access.who(request)
        access.sessions.end(request.cookies.get(COOKIE, ""))
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=service.options.secure)
        return response


def _token_routes(routes: APIRouter, service: Service, access: Access) -> None:
    @routes.get("/v1/tokens", response_model=shapes.TokenList, responses=PROBLEMS)
    async def list_tokens(request: Request) -> dict[str, Any]:
        """Tokens that are valid, without their secrets: those for streams that the asking token may administer."""
        admin = access.require(request, "admin")
        seen = [one for one in service.tokens.grants() if all(admin.allows("admin", name) for name in one.streams)]
        return {"tokens": [grant.as_json() for grant in seen]}

    @routes.post("/v1/tokens", status_code=201, response_model=shapes.NewToken, responses=PROBLEMS)
    async def create_token(body: shapes.TokenRequest, request: Request) -> dict[str, str]:
        """A new token, shown once."""
        admin = access.require(request, "admin", "*")
        token, grant = await asyncio.to_thread(
            service.tokens.create,
            body.label,
            tuple(body.scopes),
            tuple(body.streams),
            body.life,
            quota=body.quota,
            who=admin.id,
        )
        return {"token": token, "id": grant.id}

    @routes.post("/v1/tokens/{token_id}/rotate", response_model=shapes.NewToken, responses=PROBLEMS)
    async def rotate_token(token_id: TokenId, request: Request) -> dict[str, str]:
        """Another secret for the same rights; the old one is void at once."""
        admin = access.require(request, "admin", "*")
        token = await asyncio.to_thread(service.tokens.rotate, token_id, admin.id)
        return {"token": token, "id": token_id}

    @routes.delete("/v1/tokens/{token_id}", status_code=204, responses=PROBLEMS)
    async def revoke_token(token_id: TokenId, request: Request) -> Response:
        """Void a token at once, and the page's sessions that came from it."""
        admin = access.require(request, "admin", "*")
        await asyncio.to_thread(service.tokens.revoke, token_id, admin.id)
        return Response(status_code=204)
