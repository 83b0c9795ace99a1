"""New values for steps that were shown before, as readers get them."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request

from veilstream.mechanisms.protocols import Revises
from veilstream.release.vintages import latest_versions
from veilstream.server.access import Access
from veilstream.server.board import StreamBoard, intervals
from veilstream.server.readers import LARGEST, MOST_NUMBERS, PROBLEMS
from veilstream.server.service import Service
from veilstream.server.shapes import RevisionPage
from veilstream.server.shown import LEVEL, numbers, shown
from veilstream.values.release import Release

MOST_STEPS: Final = 1000


def router(service: Service, access: Access) -> APIRouter:
    """The route of revisions."""
    routes = APIRouter(prefix="/v1", tags=["read"])

    @routes.get("/streams/{name}/revisions", response_model=RevisionPage, responses=PROBLEMS)
    async def read_revisions(
        name: str,
        request: Request,
        first: Annotated[int | None, Query(alias="from", ge=-LARGEST, le=LARGEST, description="First step.")] = None,
        last: Annotated[int | None, Query(alias="to", ge=-LARGEST, le=LARGEST, description="Last step.")] = None,
        limit: Annotated[int, Query(ge=1, le=MOST_STEPS, description="Most steps of this page.")] = 100,
        latest: Annotated[bool, Query(description="Only the newest version of each step.")] = False,
    ) -> dict[str, Any]:
        """New values that later releases gave a range of steps; ``next`` tells where the next page begins."""
        board = access.readable(request, name)
        low = board.first if first is None else max(first, board.first)
        upto = board.visible if last is None else min(last, board.visible)
        high = min(upto, low + min(limit, _most_steps(board)) - 1)
        return await asyncio.to_thread(_page, service, board, low, high, upto, latest)

    return routes


def _most_steps(board: StreamBoard) -> int:
    """Steps of a page, so that all their versions are not too much for one."""
    mechanism = board.definition.make_mechanism()
    versions = mechanism.revise if isinstance(mechanism, Revises) else 0
    return max(1, MOST_NUMBERS // (board.numbers * max(1, versions)))


def _page(service: Service, board: StreamBoard, low: int, high: int, upto: int, latest: bool) -> dict[str, Any]:
    visible, name = board.visible, board.definition.name
    # What a release that is not shown yet says of earlier steps is not shown either.
    found = [each for each in service.ledger.revisions(name, first=low, last=high) if each.made <= visible]
    chosen = sorted(latest_versions(found).values() if latest else found, key=lambda each: (each.step, each.version))
    as_released = [Release(name, 0, each.step, each.values, Fraction(0), Fraction(0)) for each in chosen]
    measures = board.definition.measures
    made = shown(as_released, [each.step for each in chosen], measures)
    return {
        "stream": name,
        "level": LEVEL,
        "head": visible,
        "next": high + 1 if high < upto else None,
        "step": [each.step for each in chosen],
        "version": [each.version for each in chosen],
        "made": [each.made for each in chosen],
        "time": [board.definition.timetable.label(each.step) for each in chosen],
        "measures": None if measures is None else list(measures.labels),
        "values": numbers([one.values for one in made]),
        **intervals(made, measured=measures is not None),
        "covers": [one.covers for one in made],
    }
