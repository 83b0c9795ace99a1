"""Four streams of different step lengths on one population, and its windows recomputed by code of their own."""

from __future__ import annotations

import json
from datetime import datetime
from fractions import Fraction
from typing import Any

import numpy as np
import sqlalchemy as sa

from veilstream import STREAMS, Guarantee, Publisher
from veilstream.data import Calendar
from veilstream.errors import BudgetExceededError, OutOfOrderError
from veilstream.privacy.draws import Draw
from veilstream.privacy.population import Population
from veilstream.storage.ledger import Ledger

WINDOW = 48
RESIDENTS = Population("residents", 1, window=f"{WINDOW}h")
HOURS = {"1h": 1, "6h": 6, "1d": 24, "1w": 168}
STREAMS_OF_FOUR = (
    ("hourly", "1h", Guarantee("1/2", w=24), "uniform"),
    ("shifts", "6h", Guarantee("1/2", w=4), "budget-absorption"),
    ("daily", "1d", Guarantee("1/8", w=1), "uniform"),
    ("weekly", "1w", Guarantee("1/8", w=2), "dsft"),
)
BEGIN = datetime.fromisoformat("2026-01-01T00:00:00+00:00")


def publisher(url: str | Ledger, which: int, draw: Draw = "shared") -> Publisher[Any]:
    name, every, guarantee, mechanism = STREAMS_OF_FOUR[which]
    calendar = Calendar("2026-01-01", "2060-01-01", every)
    return Publisher(
        3, guarantee, STREAMS[mechanism](), url, stream=name, calendar=calendar, population=RESIDENTS, draw=draw
    )


def feed_or_skip(p: Publisher[Any], counts: int) -> bool | None:
    """Whether the next step was paid for; None if it could not even be repeated."""
    try:
        p.feed(np.array([counts, 2 * counts, 3]))
    except BudgetExceededError:
        try:
            p.skip()
        except OutOfOrderError:
            return None
        return False
    return True


def fullest_window(url: str) -> Fraction:
    """The dearest of all windows of the population, from the tables and their definition alone, in hours."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool)
    with engine.connect() as connection:
        streams = connection.execute(sa.text("SELECT id, guarantee, calendar, membership FROM streams")).all()
        charges = connection.execute(sa.text("SELECT stream_id, first, last, epsilon, block FROM charges")).all()
    hours: dict[int, Fraction] = {}
    for number, guarantee, calendar, membership in streams:
        assert json.loads(membership)["draw"] == "shared"
        assert datetime.fromisoformat(json.loads(calendar)["start"]) == BEGIN
        w, long = json.loads(guarantee)["w"], HOURS[json.loads(calendar)["every"]]
        blocks: dict[Any, tuple[Fraction, set[int]]] = {}
        for row, (stream, first, last, epsilon, block) in enumerate(charges):
            if stream == number and Fraction(epsilon):
                amount, steps = blocks.get((block is None, block or row), (Fraction(0), set()))
                read = steps | set(range(first, last + 1))
                blocks[block is None, block or row] = max(amount, Fraction(epsilon)), read
        for amount, steps in blocks.values():
            for end in range(min(steps) * long, (max(steps) + 1) * long + WINDOW - 1):
                begin = end - WINDOW + 1
                inside = [t for t in steps if t * long <= end and (t + 1) * long > begin]
                hours[end] = hours.get(end, Fraction(0)) + -(-len(inside) // w) * amount
    return max(hours.values(), default=Fraction(0))
