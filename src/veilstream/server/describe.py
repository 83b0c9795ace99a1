"""Streams in plain words: what is published, what it protects, and where its budget stands."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from veilstream.data import Domain
from veilstream.live.clock import Clock, moment
from veilstream.live.definition import StreamDefinition
from veilstream.server.board import StreamBoard
from veilstream.server.maps import map_grid

MOST_RETURNS: Final = 60
UNITS: Final = {"1s": "second", "1m": "minute", "1h": "hour", "1d": "day", "1w": "week", "1mo": "month", "1y": "year"}


def promise(definition: StreamDefinition) -> str:
    """What the guarantee means, for a reader who has never heard of it."""
    epsilon = float(definition.guarantee.epsilon)
    factor = f"{2.718281828459045 ** min(epsilon, 20):.3g}"
    if definition.per is not None:
        when = f"within one block of {definition.per}{' steps' if isinstance(definition.per, int) else ''}"
    elif definition.window == "user":
        when = "in the whole stream"
    elif definition.window == 1:
        when = f"within one step of {definition.every}"
    else:
        when = f"within any {definition.window} successive {step_words(definition.every)}"
    counts = definition.counts_per_user
    most = "once" if counts == 1 else f"at most {counts} times"
    few = ""
    if definition.presence is not None:
        few = f" A person counts in at most {definition.presence} steps {_few(definition)}."
    shared = "" if definition.population is None else f" It is part of the promise about '{definition.population}'."
    return (
        f"Everything one person does {when} is hidden: with or without that person, any published result is at most "
        f"{factor} times as likely (epsilon {definition.epsilon}). In each step a person counts {most}; "
        f"random noise of a known width is added to every count, and the bands show it.{few}{shared}"
    )


def _few(definition: StreamDefinition) -> str:
    if definition.per is not None:
        return "of a block"
    return "in all" if definition.window == "user" else "of such a stretch"


def step_words(every: str | int) -> str:
    """Steps of a length, in words.

    >>> step_words("1w"), step_words("15m")
    ('weeks', 'steps of 15m')
    """
    return f"{UNITS[str(every)]}s" if str(every) in UNITS else f"steps of {every}"


def labels(domain: Domain) -> list[str]:
    """The name of every bin."""
    frame = domain.labels()
    return [" · ".join(str(part) for part in row) for row in frame.rows()] if domain.axes else ["total"]


def stream_info(board: StreamBoard, clock: Clock) -> dict[str, Any]:
    """What is public about a stream, and how far it is."""
    definition, timetable = board.definition, board.definition.timetable
    upcoming = board.visible + 1
    spark = board.totals()
    return {
        "name": definition.name,
        "title": definition.title or definition.name,
        "description": definition.description,
        "unit": definition.unit,
        "bins": definition.bins,
        "attributes": {
            name: [str(label) for label in axis.labels().to_list()]
            for name, axis in definition.bound_domain.axes.items()
        },
        "labels": labels(definition.bound_domain),
        "grid": map_grid(definition.bound_domain),
        "every": str(definition.every),
        "zone": definition.zone,
        "start": timetable.label(0),
        "epsilon": definition.epsilon,
        "delta": definition.delta,
        "window": definition.window,
        "per": None if definition.per is None else str(definition.per),
        "presence": definition.presence,
        "population": definition.population,
        "mechanism": definition.mechanism,
        "bins_per_user": definition.bins_per_user,
        "counts_per_user": definition.counts_per_user,
        "grace": definition.grace,
        "delay": definition.delay,
        "promise": promise(definition),
        "first": board.first,
        "head": board.visible,
        "next_step": upcoming,
        "next_shown": moment(timetable.shown(upcoming)),
        "now": moment(clock.now()),
        "spark": {
            "step": [step for step, _, _ in spark],
            "total": [total for _, total, _ in spark],
            "fresh": [fresh for _, _, fresh in spark],
        },
    }


def budget(board: StreamBoard) -> dict[str, Any]:
    """Spent and left in the present window, and when each part comes back. All of it is public."""
    definition, head = board.definition, board.visible
    window = definition.guarantee.period
    first = board.first if window is None else max(board.first, head - window + 1)
    recent = list(board.read(first, head))
    spent = sum((Fraction(one.spent) for one in recent), Fraction(0))
    left = Fraction(recent[-1].left) if recent else definition.guarantee.epsilon
    returns = [
        {"step": one.step, "epsilon": one.spent, "at": moment(definition.timetable.begins(one.step + window))}
        for one in recent
        if window is not None and Fraction(one.spent) > 0
    ]
    return {
        "epsilon": str(definition.guarantee.epsilon),
        "window": definition.window,
        "per": None if definition.per is None else str(definition.per),
        "spent": str(min(spent, definition.guarantee.epsilon)),
        "left": str(left),
        "returns": returns[:MOST_RETURNS],
    }
