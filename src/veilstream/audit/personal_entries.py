"""Claims of the personalised methods: to each person their own epsilon, whatever the others chose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.attack import Claim, Draw
from veilstream.audit.estimates import estimates
from veilstream.audit.pool import PooledNoise
from veilstream.audit.runs import Seed
from veilstream.mechanisms.session import Session
from veilstream.personalised import (
    Checked,
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
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.batch import ForkingMeter
from veilstream.trusted.meter import Meter, NoiseSource

BUDGETS: Final = (Fraction(1, 2), Fraction(1), Fraction(2))
PEOPLE: Final = 12
"""Four of each budget; the attacked person is the last of theirs."""
SOLVED: Final = 20_000
"""Deep trials where a minimum is found in each."""
STRENGTH: Final = {"objective": 0.02, "output": 5.0}
"""Of the regularisation: with little of it noise drives the minimum to where the loss is steep, with much of it the
minimum moves as far as it may."""


class _Meter(PersonalMeter):
    """Draws for ``runs`` at once (for one if there are none): the accounts are its own."""

    def __init__(self, roster: Roster, noise: NoiseSource, *runs: int) -> None:
        super().__init__(PersonalAccounts(roster))
        self._noise = noise
        self._runs = runs

    def _ordinary(self, epsilon: Fraction, size: int, t: int) -> Meter:
        meter = partial(ForkingMeter, batch=self._runs) if self._runs else Meter
        return Session(Accountant(Guarantee(epsilon, w=1), size), self._noise, meter).at(t)


def _people(count: int) -> tuple[Roster, NDArray[np.int64]]:
    """A roster of as many people of each budget, and who has which."""
    levels = np.arange(count) % len(BUDGETS)
    return Roster.of_budgets(np.array([float(budget) for budget in BUDGETS])[levels]), levels


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts of a small town in which one person of ``level`` is or is not; the others share the first bins.

    If they share one, all budgets of the town lie on one side; if they share none, nobody else has a record.
    """

    mechanism: CountMechanism
    level: int
    bins: int
    shared: int

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        roster, levels = _people(PEOPLE)
        bins_of_people = np.arange(PEOPLE) // len(BUDGETS) % self.shared if self.shared else np.full(PEOPLE, -1)
        bins_of_people[PEOPLE - len(BUDGETS) + self.level] = 0 if present else -1
        x = count_levels(roster, levels, bins_of_people, self.bins)

        def estimate(source: NoiseSource, runs: int) -> NDArray[Any]:
            return self.mechanism.estimate(x, _Meter(roster, source, runs)).numbers

        return estimates(estimate, trials, seed)


@dataclass(frozen=True, slots=True)
class SampledBins:
    """Sampled counts of as many bins as there are trials, in each of which one person of ``level`` is or is not.

    People are drawn one by one and bins get noise of their own, so that bins are independent trials.
    """

    mechanism: Sampling
    level: int

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        roster, levels = _people(len(BUDGETS) * trials)
        bins_of_people = np.where((levels == self.level) & present, np.arange(levels.size) // len(BUDGETS), -1)
        x = count_levels(roster, levels, bins_of_people, trials)
        values = self.mechanism.estimate(x, _Meter(roster, PooledNoise(seed)))
        return np.asarray(values.numbers, dtype=np.float64)[:, None]


@dataclass(frozen=True, slots=True)
class _RunByRun:
    """The same as ``_Counts`` for a mechanism that chooses by what it was answered, one run after the other."""

    mechanism: CountMechanism
    level: int

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        roster, levels = _people(PEOPLE)
        bins_of_people = np.arange(PEOPLE) // len(BUDGETS) % 2
        bins_of_people[PEOPLE - len(BUDGETS) + self.level] = 0 if present else -1
        x, noise = count_levels(roster, levels, bins_of_people, 2), PooledNoise(seed)
        runs = [self.mechanism.estimate(x, _Meter(roster, noise)).numbers for _ in range(trials)]
        return np.asarray(runs, dtype=np.float64)


def _claims(make: Callable[[int], Draw], where: str = "") -> list[Claim]:
    return [
        Claim(f"a person with budget {budget}{where}", budget, make(level), quick=5_000)
        for level, budget in enumerate(BUDGETS)
    ]


def _of_town(mechanism: CountMechanism, bins: int = 2, variant: str = "") -> list[Claim]:
    return _claims(lambda level: _Counts(mechanism, level, bins, bins), variant)


def _on_one_side(mechanism: CountMechanism) -> list[Claim]:
    return _claims(lambda level: _Counts(mechanism, level, 2, 1), ", everybody in one bin")


def _of_nobody(mechanism: CountMechanism, bins: int) -> list[Claim]:
    return _claims(lambda level: _Counts(mechanism, level, bins, 0), ", nobody else")


@dataclass(frozen=True, slots=True)
class _Coefficients:
    """Coefficients of all groups' classifiers on one feature, which one person alone has, or nobody.

    A row of zeros adds no slope: it is as if its person were not there, and the curvature of others would only hide
    the attacked one.
    """

    kind: type[Any]
    strategy: str
    perturbation: str
    level: int

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        roster = _people(PEOPLE)[0]
        rows, labels = np.zeros((PEOPLE, 1)), np.zeros(PEOPLE, dtype=np.int64)
        person = PEOPLE - len(BUDGETS) + self.level
        rows[person], labels[person] = float(present), 1
        model = self.kind(
            strategy=self.strategy,
            perturbation=self.perturbation,
            regularisation=STRENGTH[self.perturbation],
            minimum=1,
            fit_intercept=False,
        )

        def fitted(meter: PersonalMeter) -> NDArray[np.float64]:
            model._fit(rows, labels, roster, None, meter)
            return np.asarray(model.coef_, dtype=np.float64)

        if self.perturbation == "output" and self.strategy != "sampling":
            # One minimum for all runs, with noise of their own: groups × runs.
            models = fitted(_Meter(roster, PooledNoise(seed), trials))
            return models.reshape(-1, trials).T
        noise = PooledNoise(seed)
        return np.stack([fitted(_Meter(roster, noise)).reshape(-1) for _ in range(trials)])


def _classifier(kind: type[Any]) -> list[Claim]:
    cases = [
        ("weighted", "objective", 2),
        ("weighted", "output", 0),
        ("weighted", "output", 2),
        ("sampling", "objective", 0),
        ("utility", "output", 2),
    ]
    return [
        Claim(
            f"a person with budget {BUDGETS[level]}, strategy {strategy}, {perturbation} perturbation",
            BUDGETS[level],
            _Coefficients(kind, strategy, perturbation, level),
            quick=2_000 if perturbation == "output" else 100,
            deep=1_000_000 if perturbation == "output" else SOLVED,
        )
        for strategy, perturbation, level in cases
    ]


PERSONAL_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {
    "Minimum": lambda: _of_town(Minimum()),
    "Threshold": lambda: _of_town(Threshold("1")),
    "Sampling": lambda: _claims(lambda level: SampledBins(Sampling(), level)),
    "Stretching": lambda: _of_town(Stretching()) + _of_town(Stretching(spread=0), variant=", no budget capped"),
    "Checked": lambda: [
        replace(claim, quick=200, deep=SOLVED) for claim in _claims(lambda level: _RunByRun(Checked(), level))
    ],
    "Partitioned": lambda: (
        _of_town(Partitioned()) + _of_town(Partitioned(by="waste", number=2), variant=", two rounds")
    ),
    "ExponentialCount": lambda: _of_town(ExponentialCount(), bins=1) + _of_nobody(ExponentialCount(), 1),
    "ExponentialMedian": lambda: [
        *_of_town(ExponentialMedian(), bins=3),
        *_on_one_side(ExponentialMedian()),
        *_of_nobody(ExponentialMedian(), 9),
    ],
    "PrivateLogisticRegression": lambda: _classifier(PrivateLogisticRegression),
    "PrivateSVM": lambda: _classifier(PrivateSVM),
}
"""Class in ``veilstream.personalised`` -> its claims."""
