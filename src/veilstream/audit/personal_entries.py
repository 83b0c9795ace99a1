"""Claims of the personalised methods: to each person their own epsilon, whatever the others chose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.attack import Claim
from veilstream.audit.pool import PooledNoise
from veilstream.audit.runs import Seed
from veilstream.personalised import (
    CountMechanism,
    ExponentialCount,
    ExponentialMedian,
    Minimum,
    Partitioned,
    PersonalAccounts,
    PersonalMeter,
    PrivateLogisticRegression,
    PrivateSVM,
    Roster,
    Sampling,
    Stretching,
    Threshold,
    count_levels,
)

BUDGETS: Final = (Fraction(1, 2), Fraction(1), Fraction(2))
PEOPLE: Final = 12
"""Four of each budget; the attacked person is the last of theirs."""


class _Meter(PersonalMeter):
    """Draws from a pool of repeatable noise: the accounts are its own."""

    def __init__(self, roster: Roster, noise: PooledNoise) -> None:
        super().__init__(PersonalAccounts(roster))
        self._noise = noise


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts of a small town in which one person of ``level`` is or is not."""

    mechanism: CountMechanism
    level: int
    bins: int

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        noise = PooledNoise(seed)
        levels = np.arange(PEOPLE) % len(BUDGETS)
        roster = Roster.of_budgets([str(BUDGETS[level]) for level in levels.tolist()])
        places = np.arange(PEOPLE) // len(BUDGETS) % self.bins
        places[PEOPLE - len(BUDGETS) + self.level] = 0 if present else -1
        x = count_levels(roster, levels, places, self.bins)
        outputs = np.empty((trials, 1 if _chooses(self.mechanism) else self.bins))
        for trial in range(trials):
            outputs[trial] = self.mechanism.estimate(x, _Meter(roster, noise)).numbers
        return outputs


def _chooses(mechanism: CountMechanism) -> bool:
    return isinstance(mechanism, ExponentialCount | ExponentialMedian)


def _claims(mechanism: CountMechanism, bins: int = 2) -> list[Claim]:
    return [
        Claim(f"a person with budget {budget}", budget, _Counts(mechanism, level, bins), quick=100, deep=20_000)
        for level, budget in enumerate(BUDGETS)
    ]


@dataclass(frozen=True, slots=True)
class _Coefficients:
    """Coefficients of a classifier; a row of zeros adds no slope, so it is as if its person were not there."""

    kind: type[Any]
    strategy: str
    perturbation: str
    level: int

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        rows = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0], [-0.8, 0.6]] * 3)[:PEOPLE]
        labels = np.arange(PEOPLE) % 2
        levels = np.arange(PEOPLE) % len(BUDGETS)
        budgets = [str(BUDGETS[level]) for level in levels.tolist()]
        rows[PEOPLE - len(BUDGETS) + self.level] = (0.6, 0.8) if present else (0.0, 0.0)
        model = self.kind(
            strategy=self.strategy, perturbation=self.perturbation, regularisation=0.5, minimum=1, fit_intercept=False
        )
        outputs = np.empty((trials, 2))
        for trial in range(trials):
            one = seed if isinstance(seed, tuple) else (seed,)
            model.fit_simulated(rows, labels, budgets, (*one, trial))
            outputs[trial] = (model.weights_[:, None] * model.coef_).sum(axis=0)
        return outputs


def _classifier(kind: type[Any]) -> list[Claim]:
    cases = [
        ("weighted", "objective", 2),
        ("weighted", "output", 0),
        ("sampling", "objective", 0),
        ("utility", "output", 2),
    ]
    return [
        Claim(
            f"a person with budget {BUDGETS[level]}, strategy {strategy}, {perturbation} perturbation",
            BUDGETS[level],
            _Coefficients(kind, strategy, perturbation, level),
            quick=64,
            deep=4_000,
        )
        for strategy, perturbation, level in cases
    ]


PERSONAL_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {
    "Minimum": lambda: _claims(Minimum()),
    "Threshold": lambda: _claims(Threshold("1")),
    "Sampling": lambda: _claims(Sampling()),
    "Stretching": lambda: _claims(Stretching()) + _claims(Stretching(spread=0)),
    "Partitioned": lambda: _claims(Partitioned()) + _claims(Partitioned(by="waste", number=2)),
    "ExponentialCount": lambda: _claims(ExponentialCount(), bins=1),
    "ExponentialMedian": lambda: _claims(ExponentialMedian(), bins=3),
    "PrivateLogisticRegression": lambda: _classifier(PrivateLogisticRegression),
    "PrivateSVM": lambda: _classifier(PrivateSVM),
}
"""Class in ``veilstream.personalised`` -> its claims."""
