"""``advise``: from public facts to epsilon, window, step length and mechanism, with what each would cost in error."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

import polars as pl

from veilstream.arguments import checks_arguments
from veilstream.errors import InvalidInputError
from veilstream.evaluate.advise import (
    DELTAS,
    EPSILONS,
    Choice,
    Facts,
    best,
    epsilon_for,
    gaussian_choice,
    longer_steps,
    mechanism_choices,
    uniform_choice,
)
from veilstream.jobs.command import publish_command
from veilstream.jobs.window import steps_of_window
from veilstream.jobs.wording import number
from veilstream.privacy.durations import parse_duration
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence_choice import PresenceCurve, Promise, presence_curve, visits_of_mean
from veilstream.privacy.rationals import Exact
from veilstream.release.measure import Measure

MAX_RUNS: Final = 10_000
FACTORS: Final = (1, 2, 3, 4, 6, 12, 24, 48, 168)
USEFUL: Final = 0.1
"""A relative error that most readers of a table accept."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to expect, and what to take. Every figure comes from public facts; nothing was read or spent.

    ``choices`` are mechanisms at ``epsilon``, best first; ``epsilons`` and ``steps`` tell the exact error of a release
    in every step for other budgets, and for steps so many times as long that hold as many times the people
    (fewer if the same people stay).
    """

    facts: Facts
    every: str | int
    epsilon: Fraction
    choices: tuple[Choice, ...]
    recommended: Choice
    epsilons: tuple[Choice, ...]
    steps: tuple[tuple[int, Choice], ...]
    deltas: tuple[tuple[str, Choice], ...] = ()
    """What Gaussian noise in every step errs for some deltas, where that is less than without."""
    presence: PresenceCurve | None = None
    """The error of a release in every step over c, the steps in which one person counts, where visits are known."""

    @property
    def table(self) -> pl.DataFrame:
        """The mechanisms, one row each."""
        return pl.DataFrame([{**asdict(choice), "epsilon": float(choice.epsilon)} for choice in self.choices])

    @property
    def measure(self) -> Measure:
        """What each number counts."""
        return Measure.of_events(self.facts.per_person, self.every)

    @property
    def verdict(self) -> str:
        """Whether the numbers would be worth publishing, and what would make them so."""
        few = self.bounded_presence
        error = self.recommended.mean_error
        if few is not None and self.presence is not None:
            error = self.presence.error(few)
        relative = error / self.facts.count
        share = f"{relative:.1%} of a count of {number(self.facts.count)}"
        if relative <= USEFUL:
            return f"the mean error of {error:,.3g} is {share}: good for most uses"
        return f"the mean error of {error:,.3g} is {share}; {self._cure()}"

    def _cure(self) -> str:
        cures: list[str] = []
        if math.isfinite(taken := uniform_choice(self.facts, self.epsilon).relative_error):
            cures.append(f"epsilon {number(self.epsilon * math.ceil(taken / USEFUL))}")
        longer = next((factor for factor, choice in self.steps if choice.relative_error <= USEFUL), None)
        if longer is not None:
            cures.append(f"steps {longer} times as long if they hold as many times the people")
        return f"for {USEFUL:.0%} take {', or '.join([*cures, 'fewer bins'])}"

    @property
    def bounded_presence(self) -> int | None:
        """In how many steps a person should count; None where that errs more than what is recommended without."""
        best = None if self.presence is None else self.presence.best
        if self.presence is None or best is None or self.presence.error(best) >= self.recommended.mean_error:
            return None
        return best

    @property
    def command(self) -> str:
        """The command to paste; words in capitals are yours to fill in."""
        few = self.bounded_presence
        command = publish_command(
            self.recommended.mechanism if few is None else "uniform",
            every=self.every,
            window=self.facts.w,
            epsilon=self.epsilon,
            steps=self.facts.steps,
            per_person=self.facts.per_person,
        )
        return command if few is None else f"{command} --presence {few}"

    def plot(self, path: str | Path) -> Path:
        """A picture of the error over epsilon and of the mechanisms."""
        from veilstream.evaluate.advice_picture import draw_advice

        windows = {"1 step": replace(self.facts, w=1)}
        if self.facts.w is not None and self.facts.w > 1:
            windows[f"{self.facts.w} steps"] = self.facts
        if self.facts.steps is not None:
            windows[f"all {self.facts.steps:,} steps (user)"] = replace(self.facts, w=None)
        return draw_advice(windows, self.choices, self.recommended, path, unit=self.measure.counted)


@checks_arguments
def advise(
    *,
    count: float | None = None,
    population: float | None = None,
    bins: int = 1,
    every: str | int = "1h",
    window: int | str = "24h",
    steps: int | None = None,
    epsilon: Exact | None = None,
    error: float | str | None = None,
    per_person: int = 1,
    change: float = 0.05,
    visits: float | Sequence[float] | None = None,
    runs: int = 10,
    progress: Callable[[int, int], None] | None = None,
) -> Advice:
    """Advice for a stream whose bins hold about ``count`` (or ``population`` over all bins) in a step of ``every``.

    Give ``epsilon``, or the ``error`` that 95 % of the noises may have (50, or "10%" of the count) and learn which
    epsilon that takes. ``window`` is how long one person is protected together: steps, a duration, or "user" with the
    number of ``steps``. ``per_person`` is the most that one person adds to a step, ``change`` the part by which a count
    moves from step to step. ``visits`` is how often one person comes in a window: on average, or how many people come
    once, twice, …; then the advice says whether they should count in few steps (``presence``).

    >>> advice = advise(count=500, bins=6, every="1h", window="24h", error=50)
    >>> str(advice.epsilon), [choice.error_95 for choice in advice.choices if choice.mechanism == "uniform"]
    ('3/2', [48.0])
    >>> print(advice.verdict)
    the mean error of ...% of a count of 500: good for most uses
    >>> advise(count=500)
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: epsilon: either it or the wanted error must be given; nothing was read or spent
    """
    if (count is None) == (population is None):
        step = "give --count 300, what a bin holds in a step, or --population 10000, all bins together; not both"
        raise _refused("count", "either it or the population must be given", step)
    if not 1 <= runs <= MAX_RUNS:
        raise _refused("runs", f"from 1 to {MAX_RUNS} simulations are possible")
    if (epsilon is None) == (error is None):
        step = "give --epsilon 1, or --error 20 to learn which epsilon that takes; not both"
        raise _refused("epsilon", "either it or the wanted error must be given", step)
    if isinstance(every, str) and not every.isdecimal():
        parse_duration(every)
    expected = population / bins if population is not None else count
    assert expected is not None
    facts = Facts(expected, bins, steps_of_window(window, every), steps, per_person, change)
    if epsilon is not None:
        budget = Guarantee(epsilon, facts.w).epsilon
    else:
        assert error is not None
        budget = epsilon_for(facts, _absolute(error, expected))
    curve = None if visits is None else _presence(facts, budget, visits)
    choices = tuple(mechanism_choices(facts, budget, runs=runs, progress=progress))
    return Advice(
        facts,
        every,
        budget,
        choices,
        best(choices),
        tuple(uniform_choice(facts, other) for other in sorted({*EPSILONS, budget})),
        tuple(longer_steps(facts, budget, FACTORS)),
        tuple(_worthwhile(facts, budget)),
        curve,
    )


def _presence(facts: Facts, epsilon: Fraction, visits: float | Sequence[float]) -> PresenceCurve:
    """The error over c of one bin, by how often people come in a window, or in the whole stream."""
    steps = facts.w if facts.w is not None else facts.steps
    assert steps is not None
    if isinstance(visits, int | float):
        people = visits_of_mean(float(visits), facts.count / facts.per_person, steps)
    elif not visits or len(visits) > steps or not all(math.isfinite(number) and number >= 0 for number in visits):
        raise _refused("visits", f"how many people come once, twice, … in a window of {steps} steps, none below 0")
    else:
        people = [float(number) / facts.bins for number in visits]
    promise = Promise.FOR_EVER if facts.w is None else Promise.WINDOW
    horizon = steps if facts.w is None else None
    return presence_curve(
        people, epsilon, steps=steps, promise=promise, horizon=horizon, max_contribution=facts.per_person
    )


def _worthwhile(facts: Facts, epsilon: Fraction) -> Iterator[tuple[str, Choice]]:
    """The deltas with which noise in every step errs less than without."""
    without = uniform_choice(facts, epsilon).mean_error
    for delta in DELTAS:
        choice = gaussian_choice(facts, epsilon, delta)
        if choice.mean_error < without:
            yield delta, choice


def _absolute(error: float | str, count: float) -> float:
    """An error in counts; a percentage is one of the count."""
    if not isinstance(error, str):
        return float(error)
    found = re.fullmatch(r"\s*(?:±|\+-)?\s*(\d+(?:\.\d+)?)\s*(%?)\s*", error)
    if found is None:
        raise InvalidInputError(
            name="error",
            value=error,
            limit="write counts, e.g. 50, or a part of the count, e.g. 10%",
            outcome="nothing was read or spent",
        )
    return float(found[1]) * (count / 100 if found[2] else 1)


def _refused(name: str, limit: str, next_step: str | None = None) -> InvalidInputError:
    return InvalidInputError(name=name, limit=limit, outcome="nothing was read or spent", next_step=next_step)
