"""The door from people's counts to numbers: it charges every level its own cost first and draws afterwards."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.session import Session
from veilstream.noise import ExactSampler, SecureNoise
from veilstream.personalised.accounts import LevelCosts, PersonalAccounts, Whole
from veilstream.personalised.partition import Group
from veilstream.personalised.people import PeopleCounts
from veilstream.personalised.roster import UNIT, Roster
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import rational
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter, NoiseSource
from veilstream.trusted.statistics.empirical_risk import (
    SLACK,
    WEIGHT,
    BitNoise,
    Risk,
    SealedExamples,
    objective_perturbed,
    output_perturbed,
)
from veilstream.trusted.statistics.losses import Loss
from veilstream.trusted.statistics.personalised import PersonalScores, sampled_counts, sampling_rates, weighted_counts
from veilstream.values.values import NoiseLaw, Values

Perturbation: TypeAlias = Literal["objective", "output"]
HIDING: Final = 64
"""The share 1/HIDING of a budget hides that a minimum is found with finite precision."""


class PersonalMeter:
    """Answers questions about people with personal budgets.

    Each answer is admitted by the accounts of all levels, with what it costs a person of each, before an ordinary
    Meter draws it from the secure source. There is no seed: see ``SimulatedMeter``.
    """

    def __init__(self, accounts: PersonalAccounts) -> None:
        self.accounts = accounts
        self._noise: NoiseSource = SecureNoise()
        self._made: list[tuple[LevelCosts, Span, str]] = []

    @property
    def charges(self) -> list[Charge]:
        """What was charged through this meter, as a ledger records it."""
        return [charge for costs, span, purpose in self._made for charge in costs.charges(span, purpose)]

    def charged(self) -> list[Fraction]:
        """What a person of each level was charged through this meter."""
        totals: Whole = np.zeros(self.accounts.roster.levels, dtype=object)
        for costs, _, _ in self._made:
            totals = totals + costs.parts.astype(object) * costs.scale
        return [Fraction(total) for total in totals.tolist()]

    def group(self, x: PeopleCounts, group: Group, epsilon: Fraction, purpose: str) -> Values:
        """Counts of a group plus Laplace noise of scale 1/epsilon; costs its people ``epsilon``, others nothing."""
        self._same_roster(x)
        costs = LevelCosts.of_levels(x.roster, group.levels, epsilon)
        meter = self._admitted(costs, epsilon, purpose, x.table)
        return meter.laplace(x.of_group(group), epsilon, purpose)

    def stretched(self, x: PeopleCounts, share: Fraction, purpose: str, cap: int | None = None) -> Values:
        """Σ over people of ω_i·x_i plus Laplace noise of scale 1/share, ω_i = min(ε_i, cap/2²⁴); costs share·ω_i.

        A person moves the sum by exactly their ω_i, so noise of scale 1 costs them ω_i.
        """
        self._same_roster(x)
        units = x.roster.units if cap is None else np.minimum(x.roster.units, cap)
        highest = Fraction(int(units.max()), UNIT)
        meter = self._admitted(LevelCosts.at_rate(units, share / UNIT), highest * share, purpose, x.table)
        values = meter.laplace(weighted_counts(x.table, units), highest * share, purpose)
        return Values(values.numbers / UNIT, values.std / UNIT, NoiseLaw.LAPLACE)

    def sampled(self, x: PeopleCounts, threshold: Fraction, purpose: str) -> tuple[Values, float]:
        """Counts of a secret sample plus Laplace noise of scale 1/threshold, and the expected share of people drawn.

        A person with at least the threshold T is always in and pays T; one with less is drawn with probability
        (e^ε − 1)/(e^T − 1) and pays ε. Neither the sample nor its size is ever shown; the expected share is public.
        """
        self._same_roster(x)
        words = self._bits(purpose)
        level = _threshold_units(threshold)
        units = x.roster.units
        rates = sampling_rates(units, level, UNIT)
        costs = LevelCosts.at_rate(np.minimum(units, level), Fraction(1, UNIT))
        meter = self._admitted(costs, Fraction(level, UNIT), purpose, x.table)
        values = meter.laplace(sampled_counts(x.table, rates, words), Fraction(level, UNIT), purpose)
        return values, float((rates * (x.roster.sizes / 2.0**32)).sum() / x.roster.people)

    def select(self, x: PeopleCounts, scores: PersonalScores, share: Fraction, purpose: str) -> int:
        """A candidate with probability ∝ exp(share · score/2), where a person moves no score by more than their budget.

        ``scores`` come from ``veilstream.trusted.statistics.personalised`` and are in units of budget; costs share·ε_i.
        """
        self._same_roster(x)
        if not np.array_equal(scores.units, x.roster.units):
            raise InvalidInputError(name="scores for", value=purpose, limit="of other budgets than the roster's")
        highest = x.roster.highest
        meter = self._admitted(LevelCosts.at_rate(x.roster.units, share / UNIT), highest * share, purpose, x.table)
        return meter.select(scores.scores, highest * share, purpose)

    def classifier(
        self,
        x: SealedExamples,
        weights: NDArray[np.int64],
        epsilon: Fraction,
        loss: Loss,
        regularisation: float,
        purpose: str,
        *,
        perturbation: Perturbation = "objective",
    ) -> NDArray[np.float64]:
        """The coefficients of a linear classifier; costs a person of level ℓ epsilon · weights[ℓ]/2²⁴."""
        roster = self.accounts.roster
        risk = self._risk(x, weights, roster.sizes, loss, regularisation)
        self._charge(LevelCosts.at_rate(weights, epsilon / WEIGHT), epsilon, purpose, x.span)
        return self._solve(x, weights, epsilon, risk, purpose, perturbation)

    def sampled_classifier(
        self,
        x: SealedExamples,
        threshold: Fraction,
        loss: Loss,
        regularisation: float,
        purpose: str,
        *,
        perturbation: Perturbation = "objective",
    ) -> NDArray[np.float64]:
        """The same from a secret sample as in ``sampled``; N is the expected size of the sample, which is public."""
        roster = self.accounts.roster
        words = self._bits(purpose)
        level = _threshold_units(threshold)
        rates = sampling_rates(roster.units, level, UNIT)
        everyone = np.full(roster.levels, WEIGHT, dtype=np.int64)
        expected = Fraction(sum((rates.astype(object) * roster.sizes).tolist()), 1 << 32)
        risk = replace(self._risk(x, everyone, roster.sizes, loss, regularisation), total=expected)
        costs = LevelCosts.at_rate(np.minimum(roster.units, level), Fraction(1, UNIT))
        self._charge(costs, Fraction(level, UNIT), purpose, x.span)
        return self._solve(x.sampled(rates, words), everyone, Fraction(level, UNIT), risk, purpose, perturbation)

    def _risk(
        self, x: SealedExamples, weights: NDArray[np.int64], sizes: NDArray[np.int64], loss: Loss, strength: float
    ) -> Risk:
        if not 0 < strength < float("inf"):
            raise InvalidInputError(name="regularisation", value=strength, limit="it must be above 0")
        inside = weights > 0
        if not inside.any() or int(weights.max()) > WEIGHT or int(weights.min()) < 0:
            raise InvalidInputError(f"weights: from 0 to {WEIGHT}, and one above 0")
        total = Fraction(int((weights * sizes).sum()), WEIGHT)
        smallest = Fraction(int(weights[inside].min()), WEIGHT)
        return Risk(loss, strength, total, smallest, int(sizes[inside].sum()), x.dimensions)

    def _solve(
        self,
        x: SealedExamples,
        weights: NDArray[np.int64],
        epsilon: Fraction,
        risk: Risk,
        purpose: str,
        perturbation: Perturbation,
    ) -> NDArray[np.float64]:
        if perturbation == "output":
            solution, price = output_perturbed(x, weights, risk, epsilon), epsilon
        else:
            needed = 4 * risk.loss.curvature / (risk.total * epsilon)
            stronger = math.nextafter(max(risk.regularisation, float(needed)), math.inf)
            risk = replace(risk, regularisation=stronger)
            bent = SLACK * risk.loss.curvature / (risk.total * risk.strength)
            price = epsilon * risk.smallest / HIDING
            scale = SLACK * risk.root / (epsilon - epsilon / HIDING - bent)
            solution = objective_perturbed(x, weights, risk, scale, price, self._bits(purpose))
        meter = self._ordinary(price, solution.size, x.span.last)
        return np.asarray(meter.laplace(solution, price, purpose).numbers, dtype=np.float64)

    def _bits(self, purpose: str) -> BitNoise:
        if not isinstance(self._noise, BitNoise):
            raise InvalidInputError(name="noise for", value=purpose, limit="it needs a source of bits")
        return self._noise

    def _admitted(self, costs: LevelCosts, largest: Fraction, purpose: str, x: Sealed) -> Meter:
        self._charge(costs, largest, purpose, x.span)
        return self._ordinary(largest, x.size, x.span.last)

    def _ordinary(self, epsilon: Fraction, size: int, t: int) -> Meter:
        """The Meter that draws what the accounts have admitted."""
        return Session(Accountant(Guarantee(epsilon, w=1), size), self._noise).at(t)

    def _charge(self, costs: LevelCosts, largest: Fraction, purpose: str, span: Span) -> None:
        if not largest > 0:
            raise InvalidBudgetError(f"charge {largest} for {purpose!r}: it must be above 0")
        if self.accounts.w is not None or span.last > self.accounts.now:
            self.accounts.advance(span.last)
        self.accounts.admit(costs, purpose)
        self._made.append((costs, span, purpose))

    def _same_roster(self, x: PeopleCounts) -> None:
        if x.roster is not self.accounts.roster:
            raise InvalidInputError("counts of another roster than that of the accounts")


class SimulatedMeter(PersonalMeter):
    """The same with repeatable noise, for experiments: its accounts are its own, so no ledger can stand behind them.

    >>> SimulatedMeter(Roster.of_budgets(["1/4", "1"]), seed=7).accounts.left()
    [Fraction(1, 4), Fraction(1, 1)]
    """

    def __init__(self, roster: Roster, seed: int | tuple[int, ...], w: int | None = None) -> None:
        super().__init__(PersonalAccounts(roster, w))
        self._noise = ExactSampler(SeededSource(seed))


def _threshold_units(threshold: Fraction) -> int:
    level = int(rational(threshold, "threshold") * UNIT)
    if level < 1:
        raise InvalidBudgetError(name="threshold", value=threshold, limit=f"it must be at least 1/{UNIT}")
    return level
