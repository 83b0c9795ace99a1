"""A privacy claim, and the attempt to refute it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.bounds import CONFIDENCE, FEWEST_TRIALS, Bound, bound_of, choose_event
from veilstream.audit.events import EVENTS, Learner
from veilstream.audit.pairs import Pair
from veilstream.audit.runs import Seed, stream_outputs
from veilstream.errors import CheckFailedError, InvalidInputError
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import Exact, rational

Draw: TypeAlias = Callable[[bool, int, Seed], NDArray[np.float64]]
"""Outputs with or without the person, as many as asked for, one a row."""

LEARNING: Final = 200_000
"""At most so many trials choose the event; all others bound it."""
CHUNK: Final = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """``draw`` with and without the person differ by at most (``epsilon``, ``delta``); ``name`` says on what data.

    ``quick`` and ``deep`` are how many trials a side a test and a long audit make.

    >>> def coin(present, trials, seed):  # a count with Laplace noise of scale 1
    ...     return np.random.default_rng(seed).laplace(present, 1, (trials, 1))
    >>> attack(Claim("one count", Fraction(1), coin), 4_000).passed
    True
    """

    name: str
    epsilon: Fraction
    draw: Draw = field(repr=False)
    delta: Fraction = Fraction(0)
    quick: int = 2_000
    deep: int = 1_000_000


@dataclass(frozen=True, slots=True)
class AttackResult:
    """The lower bound on epsilon that an attack on a claim has shown."""

    claim: str
    epsilon: Fraction
    bound: Bound

    @property
    def passed(self) -> bool:
        """Whether the bound is not above the claim."""
        return self.bound.epsilon <= float(self.epsilon)

    def require(self) -> None:
        """Raise CheckFailedError, with the pair and the event, where the claim is refuted."""
        if not self.passed:
            raise CheckFailedError(str(self))

    def __str__(self) -> str:
        bound = self.bound
        shown = f"epsilon is at least {bound.epsilon:.4f}, claimed {float(self.epsilon):.4g}"
        hits = f"{bound.left_hits} against {bound.right_hits} of {bound.trials} trials"
        return f"{'pass' if self.passed else 'FAIL'} on {self.claim!r}: {shown} (event: {bound.event}; {hits})"


def attack(
    claim: Claim,
    trials: int | None = None,
    *,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    events: Mapping[str, Learner] = EVENTS,
    chunk: int = CHUNK,
) -> AttackResult:
    """Try to refute a claim with ``trials`` runs a side.

    Half of them, 200,000 at most, learn an event, and the rest bound it. ``events`` are the ways to learn one.

    >>> from veilstream.audit.pairs import constant
    >>> from veilstream.mechanisms.streams import Sample
    >>> claim = stream_claim(Sample(), Guarantee(1, w=3), constant(3, steps=3))
    >>> result = attack(claim, 100_000)
    >>> result.passed, result.bound.epsilon > 0.9
    (True, True)
    """
    wanted = claim.quick if trials is None else trials
    if wanted < FEWEST_TRIALS:
        raise InvalidInputError(name="trials", value=wanted, limit=f"at least {FEWEST_TRIALS} a side are needed")
    delta = float(claim.delta)
    learning = min(wanted // 2, LEARNING)
    counted = wanted - learning
    first = [claim.draw(present, learning, (seed, int(present), 0)) for present in (True, False)]
    event = choose_event(*first, confidence=confidence, delta=delta, events=events, counted=counted)
    hits = [0, 0]
    for number, start in enumerate(range(0, counted, chunk)):
        size = min(chunk, counted - start)
        for side, present in enumerate((True, False)):
            hits[side] += event.hits(claim.draw(present, size, (seed, int(present), number + 1)))
    bound = bound_of(event, hits[0], hits[1], counted, confidence=confidence, delta=delta)
    return AttackResult(claim.name, claim.epsilon, bound)


def stream_claim(
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    pair: Pair,
    *,
    name: str | None = None,
    epsilon: Exact | None = None,
    quick: int = 2_000,
    deep: int = 1_000_000,
) -> Claim:
    """The claim that a stream mechanism makes about a pair of neighbours under its guarantee.

    ``epsilon`` claims another one than the guarantee's, such as what a mechanism that breaks its promise says it costs.

    >>> from veilstream.audit.pairs import constant
    >>> from veilstream.mechanisms.streams import Uniform
    >>> stream_claim(Uniform(), Guarantee(1, w=3), constant(3)).epsilon
    Fraction(1, 1)
    """
    pair.check(guarantee)
    claimed = guarantee.epsilon if epsilon is None else rational(epsilon, "epsilon")

    def draw(present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        return stream_outputs(mechanism, guarantee, pair, present, trials, seed)

    label = f"{pair.name}, {guarantee}" if name is None else name
    return Claim(label, claimed, draw, guarantee.delta, quick, deep)
