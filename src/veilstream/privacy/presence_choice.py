"""Which presence c errs least, from how often people come: public facts, or a histogram that was paid for.

A small c leaves out rows, a large one asks for more noise. Both are known once it is known how many people come once,
twice, … in a stretch of steps: this is arithmetic on public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from veilstream.errors import InvalidInputError
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import Exact, rational


class Promise(StrEnum):
    """What a person is protected for."""

    WINDOW = "window"
    BLOCK = "block"
    FOR_EVER = "for ever"


@dataclass(frozen=True, slots=True)
class PresenceCurve:
    """The expected error of a release in every step, per step and bin, for each c from 1 on."""

    promise: Promise
    noise: tuple[float, ...]
    left_out: tuple[float, ...]
    """Rows left out in a step, on average."""
    plain: float
    """The error without a bound on presence."""

    def error(self, c: int) -> float:
        """E|noise − rows left out| for Laplace noise, were the same number left out in every step."""
        scale, missing = self.noise[c - 1], self.left_out[c - 1]
        return missing + scale * math.exp(-missing / scale)

    @property
    def best(self) -> int | None:
        """The c that errs least, None if no bound errs less."""
        chosen = min(range(1, len(self.noise) + 1), key=self.error)
        return chosen if self.error(chosen) < self.plain else None


def presence_curve(
    visits: Sequence[float],
    epsilon: Exact,
    *,
    steps: int,
    promise: Promise | str = Promise.WINDOW,
    horizon: int | None = None,
    max_contribution: int = 1,
) -> PresenceCurve:
    """The curve from ``visits``: how many people come in 1, 2, … of ``steps`` successive steps, on average.

    ``steps`` is the window or the block that is promised; for ever, it is any stretch, and ``horizon`` says for how
    many steps people are expected to be followed. Numbers may be negative, as noise makes them: their sums are less
    so, and below 0 count as 0. Rows left out:

    * of a block, what exceeds c;
    * of a window, each of k visits with the probability that of 2k−2 others, in this stretch and its neighbour, at
      least c lie in the steps before: measured on real streams it is near, and rather too large than too small;
    * for ever, what exceeds c of the k·horizon/steps visits to come.

    >>> shop = presence_curve([5000, 900, 300, 100, 40, 20], 1, steps=40)
    >>> shop.best, round(shop.error(5), 1), shop.plain
    (5, 11.0, 40.0)
    >>> regulars = [0.0] * 29 + [30.0]
    >>> presence_curve(regulars, 1, steps=30).best
    """
    budget, kind = float(rational(epsilon, "epsilon")), Promise(promise)
    if steps < 1 or budget <= 0 or (kind is Promise.FOR_EVER) != (horizon is not None):
        raise InvalidInputError(
            name="steps", value=steps, limit="at least 1, epsilon above 0, and a horizon if and only if it is for ever"
        )
    people = [float(number) for number in visits]
    most = {Promise.WINDOW: (steps - 1) // 2, Promise.BLOCK: steps, Promise.FOR_EVER: horizon or steps}[kind]
    counts = range(1, max(1, min(most, 4 * len(people))) + 1)
    noise = [_reach(kind, c) * max_contribution / budget for c in counts]
    left_out = [
        max(0.0, sum(number * _missing(kind, k, c, steps, horizon) for k, number in enumerate(people, 1)))
        for c in counts
    ]
    length = horizon or steps
    return PresenceCurve(
        kind, tuple(noise), tuple(rows / length for rows in left_out), length * max_contribution / budget
    )


def chosen_guarantee(curve: PresenceCurve, epsilon: Exact, steps: int, delta: Exact = 0) -> Guarantee:
    """The guarantee with the best c of a curve, or without a bound where none pays."""
    best = curve.best
    match curve.promise:
        case Promise.WINDOW:
            return Guarantee(epsilon, steps, delta, presence=best)
        case Promise.BLOCK:
            return Guarantee(epsilon, per=steps, delta=delta, presence=best or steps)
        case Promise.FOR_EVER:
            return Guarantee(epsilon, None, delta, presence=best)


def _reach(promise: Promise, c: int) -> int:
    return 2 * c if promise is Promise.WINDOW else c


def _missing(promise: Promise, k: int, c: int, steps: int, horizon: int | None) -> float:
    """Rows left out of somebody who comes k times in ``steps`` steps."""
    if promise is Promise.WINDOW:
        return float(k * sum(math.comb(2 * k - 2, j) for j in range(c, 2 * k - 1)) / 4 ** (k - 1))
    expected = k if horizon is None else k * horizon / steps
    return max(0.0, expected - c)


def visits_of_mean(mean: float, present: float, steps: int) -> list[float]:
    """How many people come once, twice, … in ``steps`` steps, if they come ``mean`` times on average and ``present``
    are there in a step: as if each came again with one probability after every visit.

    >>> [round(people) for people in visits_of_mean(2, present=100, steps=40)][:4]
    [1000, 500, 250, 125]
    """
    if not 1 <= mean <= steps:
        raise InvalidInputError(
            name="visits", value=mean, limit=f"people who come at all come between once and in all {steps} steps"
        )
    people, again = present * steps / mean, 1 - 1 / mean
    found = [people * (1 - again) * again ** (k - 1) for k in range(1, steps)]
    return [*found, people - sum(found)]
