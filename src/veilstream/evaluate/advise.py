"""What to expect of a stream, and which mechanism to take, from public facts alone.

The noise of ``uniform`` is known exactly. What mechanisms that repeat values lose by repeating them depends on how the
counts move, so it is simulated on a synthetic stream of the same size: every bin moves around its expected count, by
``change`` of it in a step on average. No private datum is read and nothing is spent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.random import Generator, Philox  # noqa: TID251 (a synthetic stream is public and repeats)
from numpy.typing import NDArray

from veilstream.data.domain import MAX_BINS
from veilstream.errors import InvalidInputError
from veilstream.evaluate.compare import candidates
from veilstream.evaluate.metrics import mean_absolute_error
from veilstream.evaluate.runner import METRIC, VALUE, Progress
from veilstream.evaluate.summary import summary
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import Uniform
from veilstream.privacy.guarantee import MAX_WINDOW, Guarantee
from veilstream.testing.simulation import simulate
from veilstream.values.values import NoiseLaw, half_width

LEVEL: Final = 0.95
LARGEST_COUNT: Final = 10**12
LARGEST_CHANGE: Final = 10
"""A count that is usually eleven times the one before it."""
MOST_SIMULATED: Final = 400
"""Windows of more steps than this are not simulated: only ``uniform``, which is exact, is told."""
MOST_BINS: Final = 128
"""A simulation needs no more bins to know the error of one."""
SPREAD: Final = 0.5
"""Standard deviation of the logarithm of a bin over a long time: two bins in three stay within a factor of 1.65."""
DEFAULT: Final = "model"
"""How new streams are released if nothing else is asked for."""
SIMPLE_ENOUGH: Final = 1.02
"""A simpler mechanism within this factor of the best is the better advice."""
DELTAS: Final = ("1e-9", "1e-6")
"""Probabilities of failure that are worth a look: far below one in the number of people."""
EPSILONS: Final = tuple(map(Fraction, ("1/10", "1/4", "1/2", "1", "2", "4")))


@dataclass(frozen=True, slots=True)
class Facts:
    """What is public about a stream before anything is counted.

    ``count`` is what a bin is expected to hold in a step, ``w`` the window in steps (None at user level, then ``steps``
    says how many there will be), ``per_person`` the most that one person adds to a step, ``change`` the part of its
    count by which a bin moves in a step.
    """

    count: float
    bins: int
    w: int | None
    steps: int | None = None
    per_person: int = 1
    change: float = 0.05

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("count", self.count, 0, LARGEST_COUNT),
            ("bins", self.bins, 1, MAX_BINS),
            ("window", self.w or 1, 1, MAX_WINDOW),
            ("steps", self.steps or 1, 1, MAX_WINDOW),
            ("per_person", self.per_person, 1, LARGEST_COUNT),
            ("change", self.change, 0, LARGEST_CHANGE),
        ):
            if not least <= value <= most:
                raise _refused(name, value, f"at least {least} and at most {most:,} is needed")
        if self.w is None and self.steps is None:
            raise _refused("steps", None, "at user level one budget lasts for all steps: say how many there will be")

    @property
    def sharing(self) -> int:
        """How many steps share a budget."""
        return self.w if self.w is not None else self.steps or 1

    @property
    def uniform(self) -> Uniform:
        return Uniform() if self.w is not None else Uniform(horizon=self.steps)


@dataclass(frozen=True, slots=True)
class Choice:
    """A mechanism with its expected error in one bin: the mean of its absolute value with the 95 % interval of that
    mean (both ends equal it where it is exact), and the half width that holds 95 % of the errors."""

    mechanism: str
    epsilon: Fraction
    w: int | None
    mean_error: float
    low: float
    high: float
    error_95: float
    relative_error: float
    fresh: float
    exact: bool


def uniform_choice(facts: Facts, epsilon: Fraction) -> Choice:
    """The exact error of a release in every step.

    >>> choice = uniform_choice(Facts(count=500, bins=6, w=24), Fraction(1))
    >>> choice.error_95, round(choice.mean_error, 1), round(choice.relative_error, 3)
    (72.0, 24.0, 0.048)
    """
    guarantee, mechanism = Guarantee(epsilon, facts.w), facts.uniform
    mean = mechanism.expected_error(guarantee, facts.bins, facts.per_person)
    half = mechanism.usefulness(guarantee, facts.bins, 1 - LEVEL, 1, facts.per_person).at_release
    relative = mean / facts.count if facts.count else math.inf
    return Choice("uniform", epsilon, facts.w, mean, mean, mean, half, relative, 1.0, exact=True)


def gaussian_choice(facts: Facts, epsilon: Fraction, delta: str) -> Choice:
    """The error of Gaussian noise in every step, all of the budget for it: what allowing ``delta`` buys.

    >>> hours = Facts(count=500, bins=6, w=40)
    >>> round(gaussian_choice(hours, Fraction(1), "1e-6").mean_error / uniform_choice(hours, Fraction(1)).mean_error, 2)
    0.53
    """
    budget = Guarantee(epsilon, facts.w, delta).with_pure_share(0)
    sigma = facts.per_person * math.sqrt(facts.sharing / float(budget.mu_squared))
    mean = sigma * math.sqrt(2 / math.pi)
    half = float(half_width(LEVEL, sigma, NoiseLaw.GAUSSIAN, integer=True))
    relative = mean / facts.count if facts.count else math.inf
    return Choice("uniform", epsilon, facts.w, mean, mean, mean, half, relative, 1.0, exact=True)


def epsilon_for(facts: Facts, error: float) -> Fraction:
    """The least epsilon, of two digits, with which 95 % of the noises of a bin released in every step are within
    ``error``.

    >>> epsilon_for(Facts(count=500, bins=6, w=24), 50)
    Fraction(3, 2)
    >>> [uniform_choice(Facts(count=500, bins=6, w=24), Fraction(e)).error_95 for e in ("1.4", "1.5")]
    [51.0, 48.0]
    """
    if not error > 0:
        raise _refused("error", error, "more than 0 is needed: noise is what protects people")
    around = facts.sharing * facts.per_person * math.log(1 / (1 - LEVEL)) / error
    epsilon = _two_digits(max(0.7 * around, 1e-9))
    while uniform_choice(facts, epsilon).error_95 > error:
        epsilon = _two_digits(float(epsilon) * 1.000001, after=epsilon)
    return epsilon


def _two_digits(value: float, after: Fraction | None = None) -> Fraction:
    """The least number of two digits from ``value`` on, and above ``after``."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 1)
    number = math.ceil(Fraction(value) / unit) * unit
    return number + unit if after is not None and number <= after else number


def synthetic_stream(facts: Facts, steps: int, seed: int) -> NDArray[np.int64]:
    """A public stream that moves as the facts say: Poisson counts around a bin's own level, whose logarithm wanders."""
    generator = Generator(Philox(seed))
    bins = min(facts.bins, MOST_BINS)
    # A logarithm whose steps have mean size ``change`` wanders; it is drawn back as much as keeps its spread.
    size = facts.change * math.sqrt(math.pi / 2)
    keep = math.sqrt(max(0.0, 1 - min(size / SPREAD, 1.0) ** 2))
    level = np.zeros((steps, bins))
    level[0] = generator.normal(0, SPREAD if facts.change else 0.0, bins)
    for t in range(1, steps):
        level[t] = keep * level[t - 1] + size * generator.normal(size=bins)
    expected = facts.count * np.exp(level - SPREAD**2 / 2 * bool(facts.change))
    return generator.poisson(expected) if facts.change else np.round(expected).astype(np.int64)


def mechanism_choices(
    facts: Facts,
    epsilon: Fraction,
    *,
    mechanisms: Sequence[str] | None = None,
    runs: int = 5,
    seed: int = 1,
    progress: Progress | None = None,
) -> list[Choice]:
    """All mechanisms that publish counts of a step, best first; ``uniform`` exactly, the others by simulation."""
    exact = uniform_choice(facts, epsilon)
    if facts.sharing > MOST_SIMULATED or facts.sharing == 1 or facts.count == 0:
        return [exact]
    steps = facts.sharing if facts.w is None else 3 * facts.w
    guarantee = Guarantee(epsilon, facts.w)
    contenders = candidates([guarantee], steps, min(facts.bins, MOST_BINS), names=mechanisms)
    chosen = {name: mechanism for name, mechanism in contenders.items() if name != "uniform"}
    found = [exact]
    for number, (name, mechanism) in enumerate(chosen.items()):
        if progress is not None:
            progress(number, len(chosen))
        found.append(_simulated(name, mechanism, guarantee, facts, steps, runs, seed))
    return sorted(found, key=lambda choice: choice.mean_error)


def _simulated(
    name: str,
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    facts: Facts,
    steps: int,
    runs: int,
    seed: int,
) -> Choice:
    errors: list[float] = []
    fresh: list[float] = []
    gaps: list[NDArray[np.float64]] = []
    # The first window begins with a full budget, which later ones do not.
    settled = slice(facts.w or 0, None)
    for run in range(runs):
        stream = synthetic_stream(facts, steps, seed + run)
        released = simulate(mechanism, guarantee, stream, seed + run, max_contribution=facts.per_person)
        errors.append(mean_absolute_error(np.asarray(released)[settled], stream[settled]))
        gaps.append(np.abs(np.asarray(released) - stream)[settled].ravel())
        fresh.append(float(np.mean(released.fresh[settled])))
    table = pl.DataFrame({"mechanism": [name] * runs, METRIC: ["error"] * runs, VALUE: errors})
    mean, low, high = summary(table, ["mechanism"]).select("mean", "low", "high").row(0)
    half = float(np.quantile(np.concatenate(gaps), LEVEL))
    share = float(np.mean(fresh))
    return Choice(name, guarantee.epsilon, facts.w, mean, low, high, half, mean / facts.count, share, exact=False)


def best(choices: Sequence[Choice]) -> Choice:
    """The least error, unless the simplest mechanism, or else the default one, is about as good."""
    least = min(choice.mean_error for choice in choices)
    plain = next((choice for choice in choices if choice.exact), None)
    default = next((choice for choice in choices if choice.mechanism == DEFAULT), None)
    for usual in (plain, default):
        if usual is not None and usual.mean_error <= SIMPLE_ENOUGH * least:
            return usual
    return min(choices, key=lambda choice: choice.mean_error)


def longer_steps(facts: Facts, epsilon: Fraction, factors: Sequence[int]) -> list[tuple[int, Choice]]:
    """The exact error if steps were so many times as long: fewer share the budget, and each holds more people."""
    rows: list[tuple[int, Choice]] = []
    for factor in factors:
        if factor > facts.sharing:
            break
        longer = replace(
            facts,
            count=facts.count * factor,
            w=None if facts.w is None else -(-facts.w // factor),
            steps=None if facts.steps is None else max(1, -(-facts.steps // factor)),
        )
        rows.append((factor, uniform_choice(longer, epsilon)))
    return rows


def _refused(name: str, value: object, limit: str) -> InvalidInputError:
    return InvalidInputError(name=name, value=value, limit=limit, outcome="nothing was read or spent")
