"""A sound lower bound on epsilon from outputs on two neighbours.

If a mechanism is (ε, δ)-private, every event E obeys P(E | left) ≤ e^ε · P(E | right) + δ, and the same with the
sides exchanged. So any E whose two probabilities are known gives ε ≥ ln((P(E | left) − δ)/P(E | right)). The event is
*learned* on one half of the trials and its probabilities are *bounded* on the other half (Clopper and Pearson 1934):
however it was found, the bound is above the true ε with probability at most 1 − confidence, and no correction for the
number of events that were tried is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from veilstream.audit.events import EVENTS, Floats, Learner, Scorer
from veilstream.errors import InvalidInputError

CONFIDENCE: Final = 0.999
CUTS: Final = 200
TAIL_CUTS: Final = 24
"""Further cuts at either end, evenly in the logarithm of the share beyond them: pure losses are often rare."""
CAUTION: Final = 3.0
"""Standard deviations by which a share that was counted on few trials is distrusted before cuts are compared: of
thousands of cuts some look that good by chance."""
FEWEST_TRIALS: Final = 64
_Amounts: TypeAlias = Floats | float


@dataclass(frozen=True, slots=True)
class Bound:
    """ε is at least ``epsilon``: ``event`` came ``left_hits`` times on one side and ``right_hits`` on the other.

    ``trials`` are those of each side that were counted, after those on which the event was learned.
    """

    epsilon: float
    event: str
    left_hits: int
    right_hits: int
    trials: int


@dataclass(frozen=True, slots=True)
class Event:
    """A set of outputs: those whose ``score`` is at least (or at most) ``cut``.

    ``left_first`` says on which side it is the likelier one.
    """

    name: str
    score: Scorer = field(repr=False)
    cut: float
    at_least: bool
    left_first: bool

    def hits(self, outputs: NDArray[Any]) -> int:
        """How many rows of trials × features are in the set."""
        scores = self.score(as_features(outputs))
        return int(np.count_nonzero(scores >= self.cut if self.at_least else scores <= self.cut))

    def __str__(self) -> str:
        side = "left" if self.left_first else "right"
        return f"{self.name} {'≥' if self.at_least else '≤'} {self.cut:.4g}, likelier on the {side}"


def as_features(outputs: NDArray[Any]) -> Floats:
    """Outputs as trials × features: one row a trial."""
    array = np.asarray(outputs, dtype=np.float64)
    return array.reshape(len(array), -1)


def proportion_low(hits: _Amounts, trials: _Amounts, miss: float) -> Floats:
    """Clopper-Pearson: a probability that is above the true one with probability at most ``miss``."""
    hits, trials = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    low = betaincinv(np.maximum(hits, 1e-9), trials - hits + 1, miss)
    return np.asarray(np.where(hits > 0, low, 0.0))


def proportion_high(hits: _Amounts, trials: _Amounts, miss: float) -> Floats:
    """Clopper-Pearson: a probability that is below the true one with probability at most ``miss``."""
    hits, trials = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    high = betaincinv(hits + 1, np.maximum(trials - hits, 1e-9), 1 - miss)
    return np.asarray(np.where(hits < trials, high, 1.0))


def epsilon_low(more: _Amounts, fewer: _Amounts, trials: _Amounts, confidence: float, delta: float) -> Floats:
    """ln((p − δ)/q), p bounded from below by ``more`` hits and q from above by ``fewer``; at least 0.

    >>> float(epsilon_low(900, 300, 1000, 0.999, 0.0).round(3))
    0.906
    """
    miss = (1 - confidence) / 2
    p = proportion_low(more, trials, miss) - delta
    q = proportion_high(fewer, trials, miss)
    return np.asarray(np.where(p > 0, np.maximum(np.log(np.maximum(p, 1e-300) / q), 0.0), 0.0))


@dataclass(frozen=True, slots=True)
class _Promise:
    """About what ``epsilon_low`` would give on ``counted`` trials for an event that was seen on ``trials`` others.

    By Wilson's intervals: quick enough for every cut of every score.
    """

    trials: int
    counted: int
    z: float
    delta: float

    def of(self, more: NDArray[Any], fewer: NDArray[Any]) -> Floats:
        p, q = _wilson(more / self.trials, self.trials, -CAUTION), _wilson(fewer / self.trials, self.trials, CAUTION)
        low = _wilson(np.maximum(p, 0.0), self.counted, -self.z) - self.delta
        high = _wilson(np.minimum(q, 1.0), self.counted, self.z)
        return np.asarray(np.log(np.maximum(low, 1e-300) / np.maximum(high, 1e-300)))


def _wilson(share: Floats, trials: int, z: float) -> Floats:
    root = z * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return np.asarray((share + z * z / (2 * trials) + root) / (1 + z * z / trials))


def choose_event(
    left: NDArray[Any],
    right: NDArray[Any],
    *,
    confidence: float = CONFIDENCE,
    delta: float = 0.0,
    events: Mapping[str, Learner] = EVENTS,
    counted: int | None = None,
) -> Event:
    """The event that promises the largest bound on ``counted`` other trials (as many as these by default).

    Scores are learned on the even rows, cuts are chosen on the odd ones, whose shares are taken with caution: a rare
    event whose ratio is large by chance does not win.
    """
    trials = min(len(left), len(right))
    one, other = as_features(left[:trials]), as_features(right[:trials])
    count = trials // 2
    z = float(ndtri(1 - (1 - confidence) / 2))
    promise = _Promise(count, trials if counted is None else counted, z, delta)
    best, chosen = -math.inf, None
    for learn in events.values():
        for name, score in learn(one[::2], other[::2]):
            value, event = _best_cut(name, score, one[1::2], other[1::2], promise)
            if value > best:
                best, chosen = value, event
    if chosen is None:
        raise InvalidInputError("events: none was given to choose from")
    return chosen


def _best_cut(name: str, score: Scorer, left: Floats, right: Floats, promise: _Promise) -> tuple[float, Event]:
    one, other = np.sort(score(left)[: promise.trials]), np.sort(score(right)[: promise.trials])
    cuts = np.unique(np.quantile(np.concatenate([one, other]), _shares(promise.trials), method="nearest"))
    best, event = -math.inf, Event(name, score, float(cuts[0]), True, True)
    for at_least in (True, False):
        if at_least:
            hits = [promise.trials - np.searchsorted(side, cuts, side="left") for side in (one, other)]
        else:
            hits = [np.searchsorted(side, cuts, side="right") for side in (one, other)]
        for left_first in (True, False):
            losses = promise.of(*(hits if left_first else hits[::-1]))
            at = int(np.argmax(losses))
            if losses[at] > best:
                best, event = float(losses[at]), Event(name, score, float(cuts[at]), at_least, left_first)
    return best, event


def _shares(trials: int) -> Floats:
    """Where cuts are tried: evenly, and closer and closer towards both ends."""
    tail = np.geomspace(min(4 / trials, 1 / CUTS), 1 / CUTS, TAIL_CUTS)
    shares: Floats = np.concatenate([np.linspace(0, 1, CUTS), tail, 1 - tail])
    return shares


def bound_of(
    event: Event, left_hits: int, right_hits: int, trials: int, *, confidence: float = CONFIDENCE, delta: float = 0.0
) -> Bound:
    """The bound from counts of an event on trials that had no part in choosing it."""
    more, fewer = (left_hits, right_hits) if event.left_first else (right_hits, left_hits)
    epsilon = float(epsilon_low(more, fewer, trials, confidence, delta))
    return Bound(epsilon, str(event), left_hits, right_hits, trials)


def lower_bound(
    left: NDArray[Any],
    right: NDArray[Any],
    *,
    confidence: float = CONFIDENCE,
    delta: float = 0.0,
    events: Mapping[str, Learner] = EVENTS,
) -> Bound:
    """A lower bound on ε from independent outputs on two neighbours, one row a trial, one column a feature.

    The first half of the rows chooses an event, the second half bounds it.

    >>> from veilstream.noise import ExactSampler
    >>> from veilstream.testing.simulation import SeededSource
    >>> noise = ExactSampler(SeededSource(1)).laplace(1, (2, 200_000))
    >>> bound = lower_bound(noise[0] + 1, noise[1])
    >>> 0.95 < bound.epsilon <= 1, bound.trials
    (True, 100000)
    """
    if not 0 < confidence < 1 or not 0 <= delta < 1:
        raise InvalidInputError(f"confidence {confidence} and delta {delta}: from 0, and below 1")
    trials = min(len(left), len(right))
    if trials < FEWEST_TRIALS:
        raise InvalidInputError(f"trials {trials} a side: at least {FEWEST_TRIALS} are needed")
    half = trials // 2
    rest = trials - half
    event = choose_event(left[:half], right[:half], confidence=confidence, delta=delta, events=events, counted=rest)
    hits = event.hits(left[half:trials]), event.hits(right[half:trials])
    return bound_of(event, *hits, rest, confidence=confidence, delta=delta)
