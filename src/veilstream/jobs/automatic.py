"""``mechanism="auto"``: release by models with the calendar's seasons; a stream that exists keeps its own mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final

from veilstream.data.measures import ValueMeasures
from veilstream.errors import InvalidInputError, LedgerMismatchError
from veilstream.mechanisms.histograms.cuts import QuantileCuts
from veilstream.mechanisms.identity import rebuilt, recognises
from veilstream.mechanisms.named import build_mechanism
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import STREAMS
from veilstream.mechanisms.streams.model.periods import calendar_periods
from veilstream.mechanisms.streams.uniform import Uniform
from veilstream.privacy.durations import MICROSECONDS, MONTHS, parse_duration

AUTO: Final = "auto"
PLAIN: Final = "uniform"
"""What ``auto`` means where there is no model: a release in every step."""
MONTHS_OF_A_YEAR: Final = 12


def chosen_mechanism(
    name: str, histogram: str | None, settings: Mapping[str, Any], every: str | int, *, counts: bool = True
) -> StreamMechanism[Any]:
    """The mechanism that a name, a histogram and parameters mean, the same in every place where they can be given.

    With ``auto`` counts are released by models; a histogram without a mechanism is one for every step, and so are
    measured values, for models are models of ``counts``.

    >>> chosen_mechanism("auto", "efpa", {}, "1h").histogram
    EFPA(...)
    """
    if name not in (AUTO, *STREAMS) and get_close_matches(name, [AUTO, *STREAMS], n=1) == [AUTO]:
        raise InvalidInputError(
            name="mechanism", value=name, limit="unknown, did you mean 'auto'?", outcome="nothing was read"
        )
    if name != AUTO:
        return build_mechanism(name, histogram, settings)
    if histogram is None and counts:
        return automatic_mechanism(every, settings)
    return build_mechanism(PLAIN, histogram, settings)


def chosen_cuts(
    measures: ValueMeasures | None, mechanism: str, histogram: str | None, settings: Mapping[str, Any]
) -> StreamMechanism[Any]:
    """The quantiles of one column by choice of an edge, in every step."""
    if mechanism not in (AUTO, PLAIN) or histogram is not None or settings:
        raise InvalidInputError(
            name="quantiles_by",
            value="choice",
            limit="edges are chosen in every step; it takes no mechanism and no histogram",
            outcome="nothing was read",
            next_step="leave the mechanism out, or take quantiles from cells",
        )
    asked = None if measures is None else measures.single_quantiles
    if asked is None:
        raise InvalidInputError(
            name="quantiles_by",
            value="choice",
            limit="a choice of edges is for the quantiles of one column and nothing besides",
            outcome="nothing was read",
        )
    column, shares = asked
    return Uniform(QuantileCuts(column.cells, shares))


def automatic_mechanism(every: str | int, settings: Mapping[str, Any]) -> StreamMechanism[Any]:
    """Release by models, with the seasons that the length of a step suggests; nothing private is read.

    >>> automatic_mechanism("1h", {"safe": True})
    ModelBased(horizon=None, periods=(24, 168), safe=True, revise=0)
    """
    return build_mechanism("model", None, {"periods": list(seasons_of(every)), **settings})


def seasons_of(every: str | int) -> tuple[int, ...]:
    """The seasons of steps of this length, in steps.

    >>> seasons_of("1d"), seasons_of("1mo"), seasons_of("1y"), seasons_of(10)
    ((7,), (12,), (), ())
    """
    if isinstance(every, int):
        return ()
    count, unit = parse_duration(every)
    if unit in MICROSECONDS:
        return calendar_periods(timedelta(microseconds=count * MICROSECONDS[unit]))
    steps, rest = divmod(MONTHS_OF_A_YEAR, count * MONTHS[unit])
    return (steps,) if rest == 0 and steps > 1 else ()


def recorded_mechanism(recorded: str, stream: str, made: StreamMechanism[Any]) -> StreamMechanism[Any]:
    """The mechanism with which a stream began: the one that would be ``made`` now, or that of its description."""
    if recognises(recorded, made):
        return made
    mechanism: StreamMechanism[Any] | None = rebuilt(recorded)
    if mechanism is None:
        raise LedgerMismatchError(
            name="stream",
            value=stream,
            limit=f"it was begun with the mechanism {recorded}, which cannot be built from its description",
            outcome="nothing was changed, nothing was released",
            next_step="name the mechanism with --mechanism",
        )
    return mechanism
