"""Neighbouring streams that are hard to tell apart only if a mechanism keeps its promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed, seal

Counts: TypeAlias = NDArray[np.int64]
CROWD: Final = 1_000
"""Others in a bin: so many that a release that a stream follows stays above 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A stream of ``others`` (steps × bins) and ``person``, what one unit adds to it.

    ``left`` is the stream with the person, ``right`` the one without. With ``follows`` the others are no fixed numbers
    from the second step on: they are what was published at the step before plus ``others``, so that the distance
    to the last release is known to the attacker. Privacy must hold for such data too.
    """

    name: str
    others: Counts = field(repr=False)
    person: Counts = field(repr=False)
    max_contribution: int = 1
    follows: bool = False
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.others.shape != self.person.shape or self.others.ndim != 2:
            raise InvalidInputError(name="pair", value=self.name, limit="two tables of steps × bins are needed")
        if (self.person < 0).any() or (self.person.sum(axis=1) > self.max_contribution).any() or not self.person.any():
            raise InvalidInputError(
                name="pair", value=self.name, limit=f"a person adds from 1 to {self.max_contribution} counts in a step"
            )
        if not self.follows and (self.others < 0).any():
            raise InvalidInputError(name="pair", value=self.name, limit="a count is negative")

    @property
    def steps(self) -> int:
        return len(self.others)

    @property
    def bins(self) -> int:
        return int(self.others.shape[1])

    def check(self, guarantee: Guarantee) -> None:
        """Refuse a pair that the guarantee does not call neighbours: all of the person lies in w successive steps."""
        there = np.flatnonzero(self.person.any(axis=1))
        spread = int(there[-1] - there[0]) + 1
        if guarantee.w is not None and spread > guarantee.w:
            raise InvalidInputError(
                name="pair",
                value=self.name,
                limit=f"the person is there within {spread} steps, neighbours differ within {guarantee.w}",
            )

    def feed(self, present: bool) -> Callable[[int, NDArray[Any] | None], Sealed]:
        """Sealed counts of step t with or without the person, given what was published before."""
        added = self.person if present else np.zeros_like(self.person)

        def counts(t: int, published: NDArray[Any] | None) -> Sealed:
            others: Counts = self.others[t]
            if self.follows and published is not None:
                others = np.maximum(np.rint(published).astype(np.int64) + others, 0)
            return seal(others + added[t], t, self.max_contribution, shape=self.shape or (self.bins,))

        return counts

    def seen(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Published values (trials × steps × bins) less what the attacker knows about the others."""
        if not self.follows:
            return values
        known = np.empty_like(values)
        known[:, 0] = self.others[0]
        known[:, 1:] = np.maximum(np.rint(values[:, :-1]) + self.others[1:], 0)
        return values - known


def _table(steps: int, bins: int, value: int = 0) -> Counts:
    return np.full((steps, bins), value, dtype=np.int64)


def _person(steps: int, bins: int, first: int, last: int, bin_: int = 0) -> Counts:
    """One count in one bin in the steps first..last, both included."""
    person = _table(steps, bins)
    person[first : last + 1, bin_] = 1
    return person


def constant(w: int | None, steps: int = 4, bins: int = 1, crowd: int = 50) -> Pair:
    """A crowd that never changes and a person who is there as long as the window allows."""
    last = steps - 1 if w is None else min(w, steps) - 1
    return Pair("constant history", _table(steps, bins, crowd), _person(steps, bins, 0, last))


def empty(w: int | None, steps: int = 4, bins: int = 1) -> Pair:
    """Nobody but the person."""
    last = steps - 1 if w is None else min(w, steps) - 1
    return Pair("empty steps", _table(steps, bins), _person(steps, bins, 0, last))


def one_event(steps: int, at: int = 1, jump: bool = False, crowd: int = 20) -> Pair:
    """A person who is there in one step of a constant history, perhaps just where it jumps."""
    others = _table(steps, 1, crowd)
    others[at:] += crowd if jump else 0
    return Pair("one event at a jump" if jump else "one event", others, _person(steps, 1, at, at))


def border_burst(w: int, steps: int | None = None, border: int | None = None, crowd: int = 20) -> Pair:
    """A burst around the end of a window (the first by default), and a person on both sides of the border."""
    end = w if border is None else border
    length = max(steps or 2 * w, end + 1)
    others = _table(length, 1, crowd)
    others[end - 1 : end + 1] += 30
    first = end - (w + 1) // 2
    return Pair("burst at a window's border", others, _person(length, 1, first, min(first + w, length) - 1))


def every_bin(w: int | None, steps: int = 3, bins: int = 3) -> Pair:
    """One person who counts once in every bin."""
    last = steps - 1 if w is None else min(w, steps) - 1
    person = _table(steps, bins)
    person[: last + 1] = 1
    return Pair("one person in every bin", _table(steps, bins, 20), person, max_contribution=bins)


def moving(w: int | None, steps: int = 4, bins: int = 2) -> Pair:
    """A person who is in another bin at every step: bins that are charged apart would see a new person each."""
    last = steps - 1 if w is None else min(w, steps) - 1
    person = _table(steps, bins)
    for t in range(last + 1):
        person[t, t % bins] = 1
    return Pair("a person who moves from bin to bin", _table(steps, bins, 20), person)


def ties(bins: int, position: int = 0, crowd: int = 3) -> Pair:
    """One step of equal bins: where structure is chosen from data, one person breaks every tie."""
    return Pair(f"ties, person in bin {position}", _table(1, bins, crowd), _person(1, bins, 0, 0, position))


def cliff(bins: int, crowd: int = 40) -> Pair:
    """One step, half of the bins empty, and a person at the edge of the empty half."""
    others = _table(1, bins)
    others[0, : bins // 2] = crowd
    return Pair("a person at the edge of an empty half", others, _person(1, bins, 0, 0, bins // 2))


def known_threshold(level: int, w: int | None, steps: int = 8, first: int = 1) -> Pair:
    """A constant distance to the last release just at the threshold: many comparisons that all depend on the person.

    One secret noise serves them all; if each comparison cost something, so many would betray the person.
    """
    last = steps - 1 if w is None else min(first + w, steps) - 1
    others = _table(steps, 1, level)
    others[0] = CROWD
    return Pair("constant history at the threshold", others, _person(steps, 1, first, last), follows=True)


def alternation(level: int, w: int | None, steps: int = 8) -> Pair:
    """Steps above the last release where the person makes a positive likelier, and below it where less likely.

    The worst case of the sparse vector: an answer "no, no, ..., yes" needs noise to give way in both directions.
    """
    last = steps - 1 if w is None else min(w, steps - 1)
    others = _table(steps, 1)
    others[:, 0] = np.where(np.arange(steps) % 2 == 1, level, -level)
    others[0] = CROWD
    return Pair("sparse-vector alternation", others, _person(steps, 1, 1, last), follows=True)


def follower(level: int, w: int | None, steps: int = 8, quiet: int = 3) -> Pair:
    """Long quiet, in which a controller lowers its threshold, and then distances that meet it, with the person."""
    others = _table(steps, 1)
    others[quiet + 1 :] = level
    others[0] = CROWD
    last = steps - 1 if w is None else min(quiet + w, steps - 1)
    return Pair("a person who follows the controller", others, _person(steps, 1, quiet + 1, last), follows=True)
