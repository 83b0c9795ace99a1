"""Many runs at once of a mechanism that asks comparisons: runs with the same answers go together.

A mechanism by distance (DSFT, DSAT) lets data decide only through ``Meter.above``. All runs that have had the same
answers so far share every public number but the values themselves, so one call of the mechanism's own ``step`` serves
them all, with noise of shape (runs, bins). Where their answers differ the group is cut in two, and the step is taken
again by each part with the draws that it had: a run sees exactly the noise, the charges and the code of a run alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from veilstream.accountant import Accountant
from veilstream.errors import InvalidInput
from veilstream.guarantee import Guarantee
from veilstream.mechanism import StreamMechanism
from veilstream.meter import Meter, NoiseSource
from veilstream.noise import ExactSampler
from veilstream.sealed import Sealed
from veilstream.types import Charge, Values

Rows: TypeAlias = NDArray[np.int64]
Feed: TypeAlias = Callable[[int, NDArray[Any] | None], Sealed]
"""Sealed counts of step t, which may follow what was published at the step before."""


class Disagreement(Exception):
    """The runs of a group do not agree on an answer."""

    def __init__(self, answers: NDArray[np.bool_]) -> None:
        super().__init__("runs disagree")
        self.answers = answers


class ForkingMeter(Meter):
    """A Meter for many runs that stops where their answers differ."""

    def _answer_of(self, runs: NDArray[np.bool_]) -> bool:
        if runs.all():
            return True
        if runs.any():
            raise Disagreement(runs)
        return False


@dataclass(slots=True)
class _Tape:
    """Draws of one step, in order, so that the step can be taken again with the same noise."""

    source: NoiseSource
    drawn: list[NDArray[np.int64]] = field(default_factory=list[NDArray[np.int64]])
    at: int = 0

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return self._next(lambda: self.source.laplace(scale, size))

    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return self._next(lambda: self.source.gaussian(sigma, size))

    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        raise InvalidInput("choices for many runs at once: the Meter takes one run; nothing was drawn")

    def _next(self, draw: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        if self.at == len(self.drawn):
            self.drawn.append(draw())
        self.at += 1
        # The Meter adds counts into what it is given.
        return self.drawn[self.at - 1].copy()

    def part(self, kept: NDArray[np.bool_]) -> _Tape:
        return _Tape(self.source, [draw[kept] for draw in self.drawn])


@dataclass(slots=True)
class _Group:
    """Runs ``rows`` that have had the same answers, with what they share."""

    rows: Rows
    state: Any
    accountant: Accountant
    charges: list[list[Charge]]
    published: NDArray[Any] | None = None


@dataclass(slots=True)
class _Steps:
    mechanism: StreamMechanism[Any]
    guarantee: Guarantee
    bins: int
    feed: Feed
    source: NoiseSource

    def taken(self, group: _Group, t: int, tape: _Tape) -> list[tuple[_Group, Values]]:
        """The group after step t, in parts where its runs disagree."""
        tape.at = 0
        meter = ForkingMeter(group.accountant, tape, t, lanes=(len(group.rows),))
        try:
            state, values = self.mechanism.step(group.state, self.feed(t, group.published), meter)
        except Disagreement as fork:
            parts: list[tuple[_Group, Values]] = []
            for kept in (fork.answers, ~fork.answers):
                parts += self.taken(self._part(group, kept), t, tape.part(kept))
            return parts
        group.charges.append(meter.charges)
        after = _Group(group.rows, state, group.accountant, group.charges, values.numbers)
        return [(after, values)]

    def _part(self, group: _Group, kept: NDArray[np.bool_]) -> _Group:
        """Some runs of a group as they were before the step; their account is read back as a ledger would."""
        accountant = Accountant(self.guarantee, self.bins)
        for t, charges in enumerate(group.charges):
            accountant.advance(t)
            for charge in charges:
                accountant.replay(charge)
        published = None if group.published is None else group.published[kept]
        return _Group(
            group.rows[kept], _rows_of(group.state, kept), accountant, [list(step) for step in group.charges], published
        )


def _rows_of(state: Any, kept: NDArray[np.bool_]) -> Any:
    """A state with some of its runs: arrays of shape (runs, ...) are cut, all else is shared."""
    if isinstance(state, np.ndarray):
        array = cast(NDArray[Any], state)
        return array[kept] if array.ndim == 2 and len(array) == len(kept) else array
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        fields = [f.name for f in dataclasses.fields(state) if f.init]
        return dataclasses.replace(state, **{name: _rows_of(getattr(state, name), kept) for name in fields})
    return state


def forked_outputs(
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    feed: Feed,
    steps: int,
    bins: int,
    runs: int,
    source: ExactSampler,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values (runs × steps × bins) and whether they were fresh (runs × steps) of independent runs."""
    taking = _Steps(mechanism, guarantee, bins, feed, source)
    first = _Group(np.arange(runs), mechanism.start(guarantee, bins), Accountant(guarantee, bins), [])
    values, fresh = np.empty((runs, steps, bins)), np.empty((runs, steps), dtype=np.bool_)
    groups = [first]
    for t in range(steps):
        after: list[_Group] = []
        for group in groups:
            for part, released in taking.taken(group, t, _Tape(source)):
                values[part.rows, t] = released.numbers
                fresh[part.rows, t] = released.fresh
                after.append(part)
        groups = after
    return values, fresh
