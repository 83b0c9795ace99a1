"""Streams in plain words: what is published, what it protects, and where its budget stands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final
from weakref import WeakKeyDictionary

from veilstream.data import Domain
from veilstream.data.cells import CellColumn
from veilstream.data.measures import ValueMeasures, share_of
from veilstream.live.clock import Clock, moment
from veilstream.live.definition import StreamDefinition
from veilstream.mechanisms.traits import Traits
from veilstream.release.measure import Measure
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
    few = ""
    if definition.presence is not None:
        few = f" A person counts in at most {definition.presence} steps {_few(definition)}."
    shared = "" if definition.population is None else f" It is part of the promise about '{definition.population}'."
    return (
        f"Everything one person does {when} is hidden: with or without that person, any published result is at most "
        f"{factor} times as likely (epsilon {definition.epsilon}). {_bound(definition)}; random noise of a known "
        f"width is added before anything is published, and the bands show what it does.{few}{shared}"
    )


def _bound(definition: StreamDefinition) -> str:
    """How much of one person counts in a step."""
    counts = definition.counts_per_user
    if definition.distinct is not None:
        bins = definition.bins_per_user
        return f"A person counts once{'' if bins == 1 else f' in each of at most {bins} bins'}, however often they come"
    if definition.measures is None:
        return f"In each step a person counts {'once' if counts == 1 else f'at most {counts} times'}"
    rows = "one row" if counts == 1 else f"at most {counts} rows"
    most = "" if definition.most is None else f" and at most {definition.most_per_user} of a sum"
    return f"In each step {rows} of a person{most} count, with values in a public range"


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


def counted(definition: StreamDefinition) -> Measure:
    """What each published number counts or measures."""
    mechanism, every = definition.make_mechanism(), definition.every
    traits = Traits.of(mechanism)
    span = int(getattr(mechanism, "window", 1)) if traits.window_sums else 1
    if definition.measures is not None:
        found = Measure.of_values(" and ".join(definition.measures.labels), every, span)
    elif definition.distinct_steps is not None:
        found = Measure.of_people(definition.distinct_steps, every, span, definition.bins_per_user)
    elif definition.counts_per_user == 1:
        found = Measure(definition.unit, every, span)
    else:
        found = Measure.of_events(definition.counts_per_user, every, span)
    if not traits.cumulative:
        return found
    decay = getattr(mechanism, "decay", None)
    return replace(found, so_far="total so far" if decay is None else f"total that decays by {decay} a step")


def headline(definition: StreamDefinition) -> str:
    """What the one number for all bins is: the sum of counts, or the measure that a small picture shows."""
    if definition.measures is None:
        return definition.unit
    shown = definition.measures.drawn().labels
    return shown[len(shown) // 2]


def measure_infos(measures: ValueMeasures, units: Mapping[str, str]) -> list[dict[str, Any]]:
    """The statistics that are published, one by one."""
    infos: list[dict[str, Any]] = []
    for label, (statistic, name) in zip(measures.labels, measures.asked, strict=True):
        column, _ = measures.column(statistic, name)
        if isinstance(column, CellColumn):
            low, high = column.edges[0], column.edges[-1]
        else:
            low, high = column.low, column.high
        share = share_of(statistic)
        infos.append(
            {
                "label": label,
                "statistic": statistic,
                "column": name,
                "share": None if share is None else float(share),
                "low": float(low),
                "high": float(high),
                "unit": "" if statistic == "count" else units.get(name, ""),
            }
        )
    return infos


_facts: WeakKeyDictionary[StreamBoard, dict[str, Any]] = WeakKeyDictionary()


def _stream_facts(board: StreamBoard) -> dict[str, Any]:
    """What does not change while the server runs, made once."""
    found = _facts.get(board)
    if found is None:
        found = _facts[board] = _made_facts(board.definition)
    return found


def _made_facts(definition: StreamDefinition) -> dict[str, Any]:
    what = counted(definition)
    return {
        "name": definition.name,
        "title": definition.title or definition.name,
        "description": definition.description,
        "unit": definition.unit,
        "counted": what.label,
        "headline": headline(definition),
        "so_far": bool(what.so_far),
        "measures": None if definition.measures is None else measure_infos(definition.measures, definition.units),
        "bins": definition.bins,
        "attributes": {
            name: [str(label) for label in axis.labels().to_list()]
            for name, axis in definition.bound_domain.axes.items()
        },
        "labels": labels(definition.bound_domain),
        "grid": map_grid(definition.bound_domain),
        "every": str(definition.every),
        "zone": definition.zone,
        "start": definition.timetable.label(0),
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
    }


def stream_info(board: StreamBoard, clock: Clock) -> dict[str, Any]:
    """What is public about a stream, and how far it is."""
    timetable, upcoming, spark = board.definition.timetable, board.visible + 1, board.totals()
    return {
        **_stream_facts(board),
        "first": board.first,
        "head": board.visible,
        "next_step": upcoming,
        "next_shown": moment(timetable.shown(upcoming)),
        "now": moment(clock.now()),
        "spark": {
            "step": [step for step, _, _ in spark],
            "total": [total if math.isfinite(total) else None for _, total, _ in spark],
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
        "window": "user" if definition.guarantee.w is None else definition.guarantee.w,
        "per": None if definition.per is None else str(definition.per),
        "spent": str(min(spent, definition.guarantee.epsilon)),
        "left": str(left),
        "returns": returns[:MOST_RETURNS],
    }
