"""Many runs at once of a mechanism that decides: runs with the same decisions go together.

A batchable mechanism branches only on what ``Meter.above``, ``Meter.select``, ``Meter.select_each`` and
``Meter.branch`` return. All runs for which these have returned the same so far share every public number but the values
themselves, so one call of the mechanism's own code serves them all, with noise of shape (runs, bins). Where they differ
the group is cut by what was decided, and each part takes the step again with the draws that it had: a run
sees exactly the noise, the charges and the code of a single run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.session import Session, StreamSession
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.batch import Disagreement, ForkingMeter, RepeatedNoise, Rows
from veilstream.trusted.block_noise import BlockSource, NoiseBlock
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import NoiseSource
from veilstream.trusted.threshold import SealedThreshold
from veilstream.values.values import Values

A = TypeVar("A")
Feed: TypeAlias = Callable[[int, NDArray[Any] | None], Sealed]
"""Sealed counts of step t, which may follow what was published at the step before."""
FEWEST: Final = 64
"""Groups are filled up to so many runs, and to more than there are bins: see ``_rows_of``."""


@dataclass(slots=True)
class Tape:
    """Draws of many runs, in order, so that a step can be taken again with the same noise."""

    source: NoiseSource
    drawn: list[NDArray[np.int64]] = field(default_factory=list[NDArray[np.int64]])
    at: int = 0

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return self._next(lambda: self.source.laplace(scale, size))

    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return self._next(lambda: self.source.gaussian(sigma, size))

    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        raise InvalidInputError("a choice of one run on a tape of many: the Meter asks for all")

    def select_each(
        self,
        gaps: NDArray[np.int64],
        sizes: NDArray[np.int64],
        rate: Fraction,
        lengths: NDArray[np.int64] | None = None,
        repeats: int = 1,
    ) -> NDArray[np.int64]:
        source = self.source
        if not isinstance(source, RepeatedNoise):
            raise InvalidInputError("choices of many runs at once: the source of noise makes one")
        return self._next(lambda: source.select_each(gaps, sizes, rate, lengths, repeats).reshape(repeats, -1))

    def blocks(self, rate: Fraction, length: int, entries: int, count: int) -> NDArray[np.int64]:
        source = self.source
        if not isinstance(source, BlockSource):
            raise InvalidInputError("blocks of many runs at once: the source of noise draws none")
        return self._next(lambda: source.blocks(rate, length, entries, count))

    def _next(self, draw: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        if self.at == len(self.drawn):
            self.drawn.append(draw())
        self.at += 1
        # The Meter adds counts into what it is given.
        return self.drawn[self.at - 1].copy()

    def part(self, rows: Rows) -> Tape:
        return Tape(self.source, [draw[rows] for draw in self.drawn])


@dataclass(frozen=True, slots=True)
class Asked:
    """Runs of a group that go together: their positions in it, of which those after the first ``real`` only fill up."""

    rows: Rows
    real: int
    tape: Tape
    everyone: bool = True

    def of(self, state: Any, runs: int) -> Any:
        """What a state of a group of ``runs`` holds of these."""
        return state if self.everyone else _rows_of(state, runs, self.rows)

    def part(self, positions: Rows, fewest: int) -> Asked:
        real = int(np.searchsorted(positions, self.real))
        filled = np.append(positions, np.full(max(fewest - positions.size, 0), positions[0]))
        return Asked(self.rows[filled], real, self.tape.part(filled), everyone=False)


def answers(
    ask: Callable[[Asked], A], runs: int, real: int, fewest: int, source: NoiseSource
) -> Iterator[tuple[Asked, A]]:
    """What ``ask`` answers to a group of ``runs``, or to each part of it where its runs disagree."""
    waiting = [Asked(np.arange(runs), real, Tape(source))]
    while waiting:
        asked = waiting.pop()
        asked.tape.at = 0
        try:
            answer = ask(asked)
        except Disagreement as fork:
            parts = [asked.part(positions, fewest) for positions in fork.parts]
            waiting += [part for part in reversed(parts) if part.real]
            continue
        yield asked, answer


@dataclass(slots=True)
class _Group:
    """Runs that have decided alike, with what they share; ``rows`` are the outputs that the first of them fill."""

    rows: Rows
    runs: int
    state: Any
    accountant: Accountant
    charges: list[Sequence[Charge]]
    published: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True)
class _Steps:
    mechanism: StreamMechanism[Any]
    guarantee: Guarantee
    bins: int
    feed: Feed
    source: NoiseSource

    def taken(self, group: _Group, t: int) -> Iterator[tuple[_Group, Values]]:
        """The group after step t, in parts where its runs disagree."""

        accounts = self._accounts(group)

        def ask(asked: Asked) -> tuple[Any, Values, Accountant, Sequence[Charge]]:
            session = Session(next(accounts), asked.tape, partial(ForkingMeter, batch=(asked.rows.size,)))
            sealed = self.feed(t, asked.of(group.published, group.runs))
            state, values = self.mechanism.step(asked.of(group.state, group.runs), sealed, session.at(t))
            return state, values, session.accountant, session.charges

        fewest = max(FEWEST, self.bins + 1)
        for asked, answer in answers(ask, group.runs, group.rows.size, fewest, self.source):
            state, values, accountant, charges = answer
            rows = group.rows if asked.everyone else group.rows[asked.rows[: asked.real]]
            charged = [*group.charges, charges]
            yield _Group(rows, asked.rows.size, state, accountant, charged, values.numbers), values

    def _accounts(self, group: _Group) -> Iterator[Accountant]:
        """The account of the group, and for its parts the same once more, read back as a ledger would."""
        yield group.accountant
        while True:
            session = StreamSession(self.mechanism, self.guarantee, self.bins, self.source)
            for t, charges in enumerate(group.charges):
                session.accountant.advance(t)
                for charge in charges:
                    session.replay(t, charge)
            yield session.accountant


def _rows_of(state: Any, runs: int, rows: Rows) -> Any:
    """A state with some of its runs: arrays as long as there are ``runs`` are cut, all else is shared.

    No group has as few runs as there are bins, nor fewer than the entries of any other list that a state keeps.
    """
    if isinstance(state, np.ndarray):
        array = cast(NDArray[Any], state)
        return array[rows] if array.ndim and len(array) == runs else array
    if isinstance(state, SealedThreshold | NoiseBlock):
        return state.of_runs(rows)
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        fields = [f.name for f in dataclasses.fields(state) if f.init]
        return dataclasses.replace(state, **{name: _rows_of(getattr(state, name), runs, rows) for name in fields})
    if isinstance(state, tuple):
        items = cast(tuple[Any, ...], state)  # type: ignore[redundant-cast]  # pyright knows less here
        return tuple(_rows_of(item, runs, rows) for item in items)
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
    filled = max(runs, FEWEST, bins + 1)
    first = StreamSession(mechanism, guarantee, bins, source)
    groups = [_Group(np.arange(runs), filled, first.state, first.accountant, [])]
    values, fresh = np.empty((runs, steps, bins)), np.empty((runs, steps), dtype=np.bool_)
    for t in range(steps):
        after: list[_Group] = []
        for group in groups:
            for part, released in taking.taken(group, t):
                numbers = np.broadcast_to(released.numbers, (part.runs, bins))
                # A slice is written to far quicker than a list of all rows.
                rows = part.rows if part.rows.size < runs else slice(None)
                values[rows, t] = numbers[: part.rows.size]
                fresh[rows, t] = released.fresh
                after.append(part)
        groups = after
    return values, fresh
