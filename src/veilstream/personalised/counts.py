"""Mechanisms that publish counts of people who each chose their own epsilon.

Each is frozen parameters and ``estimate(x, meter)``, which gives estimates of the counts of everybody on the roster.
All but *Minimum* look at some people more than at others, and scale up: they take it for granted that budgets have
nothing to do with the data. Where those with large budgets differ, the estimate leans towards them; ``Values.std``
tells of noise alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, Protocol

import numpy as np

from veilstream.errors import InvalidInputError
from veilstream.personalised.ensemble import combine_counts
from veilstream.personalised.meter import PersonalMeter
from veilstream.personalised.partition import (
    Group,
    at_least,
    count_loss,
    everybody,
    privacy_aware,
    rounds,
    utility_based,
)
from veilstream.personalised.people import PeopleCounts
from veilstream.personalised.roster import UNIT, Levels
from veilstream.privacy.rationals import Exact, rational
from veilstream.trusted.statistics.personalised import personal_count_scores, personal_median_scores
from veilstream.values.values import Values

ONE: Final = Fraction(1)
SPREAD: Final = 0.1
"""Assumed p(1 − p) of a frequency p: right for p = 0.11, and wrong by little elsewhere."""


class CountMechanism(Protocol):
    """Publishes counts once, for at most each person's own epsilon."""

    def estimate(self, x: PeopleCounts, meter: PersonalMeter) -> Values: ...


@dataclass(frozen=True, slots=True)
class Minimum:
    """Everybody is charged the lowest budget of all: noise Lap(1/ε_min), no assumption about budgets.

    >>> from veilstream.personalised import PersonalAccounts, Roster, count_levels
    >>> roster = Roster.of_budgets([0.1] * 50 + [1] * 950)
    >>> x = count_levels(roster, np.repeat([0, 1], [50, 950]), np.arange(1000) % 2, bins=2)
    >>> values = Minimum().estimate(x, PersonalMeter(PersonalAccounts(roster)))
    >>> values.numbers.shape, round(values.std, 1)
    ((2,), 14.1)
    """

    def estimate(self, x: PeopleCounts, meter: PersonalMeter) -> Values:
        (group,) = everybody(x.roster)
        return meter.group(x, group, group.epsilon, "minimum")


@dataclass(frozen=True, slots=True)
class Threshold:
    """Only people with at least ``threshold`` are counted, at that price, and scaled up to all."""

    threshold: Exact

    def estimate(self, x: PeopleCounts, meter: PersonalMeter) -> Values:
        groups = at_least(x.roster, self.threshold)
        return combine_counts(x.roster, groups, [meter.group(x, groups[0], groups[0].epsilon, "threshold")], 0.0)


@dataclass(frozen=True, slots=True)
class Sampling:
    """A secret sample, into which small budgets come seldom, measured with ``threshold`` (the mean budget by default).

    A person with ε < T is drawn with probability (e^ε − 1)/(e^T − 1), then measured with T: that costs ε. The
    scale-up uses the expected share of people drawn, a public number; the size of the sample is private.

    >>> import numpy as np
    >>> from veilstream.personalised import LedgerAccounts, Roster, count_levels, release_counts
    >>> roster = Roster.of_budgets(["1/8"] * 50 + ["1"] * 950)
    >>> x = count_levels(roster, np.repeat([0, 1], [50, 950]), np.arange(1000) % 2, bins=2)
    >>> with LedgerAccounts(roster) as accounts:
    ...     release_counts(x, Sampling(), accounts).values.numbers.shape
    (2,)

    Jorgensen, Yu, Cormode: Conservative or liberal? Personalized differential privacy, ICDE 2015 (thesis, Definition
    5.1.1). Here the probability is a multiple of 2⁻³² not above the one printed.
    """

    threshold: Exact | None = None

    def units(self, roster: Levels) -> int:
        """The threshold in units of budgets."""
        if self.threshold is None:
            return int((roster.units * roster.sizes).sum()) // roster.people
        units = int(rational(self.threshold, "threshold") * UNIT)
        if units < 1:
            raise InvalidInputError(name="threshold", value=self.threshold, limit=f"it must be at least 1/{UNIT}")
        return units

    def estimate(self, x: PeopleCounts, meter: PersonalMeter) -> Values:
        threshold = Fraction(self.units(x.roster), UNIT)
        values, share = meter.sampled(x, threshold, "sample")
        return Values(values.numbers / share, values.std / share, values.law)


@dataclass(frozen=True, slots=True)
class Stretching:
    """Everybody counts in proportion to their budget: (Σ ε_i x_i + Lap(1)) · n/Σ ε_i.

    A person moves the sum by ε_i, so one noise of scale 1 gives each exactly their own ε_i. Large budgets may be
    capped: with ω_i = min(ε_i, c) the noise on a frequency has variance 2/(Σω)², and uneven weights add
    ``spread``·(Σω²/(Σω)² − 1/n) where 1/n each would be right. c is the budget with the smallest sum, found from the
    public roster; ``spread=0`` caps nothing, a large one ends at *Minimum*.

    Stretching is due to Alaggan, Gambs, Kermarrec: Heterogeneous differential privacy, JPC 2016. The cap is ours.

    >>> from veilstream.personalised import Roster
    >>> roster = Roster.of_budgets([0.1] * 50 + [1] * 950)
    >>> [float(Fraction(Stretching(s).cap(roster), UNIT)) for s in (0, 0.1, 100)]
    [1.0, 1.0, 0.0999...]
    """

    spread: float = SPREAD

    def __post_init__(self) -> None:
        _check_spread(self.spread, self)

    def cap(self, roster: Levels) -> int:
        """The largest weight, in units of budgets."""
        budgets, sizes = roster.units / UNIT, roster.sizes.astype(np.float64)
        below = np.cumsum(sizes * budgets)
        above = sizes.sum() - np.cumsum(sizes)
        total = below + above * budgets
        squares = np.cumsum(sizes * budgets**2) + above * budgets**2
        error = (2 + self.spread * squares) / total**2
        return int(roster.units[len(error) - 1 - int(np.argmin(error[::-1]))])

    def worst_bias(self, roster: Levels) -> float:
        """The most people by which a count is wrong, apart from noise, if budgets follow the data: public.

        With weights ω_i·n/Σω where 1 would be right, that is the sum of what is above 1: the count of exactly those.

        >>> from veilstream.personalised import Roster
        >>> round(Stretching(spread=0).worst_bias(Roster.of_budgets([0.1] * 50 + [1] * 950)))
        45
        """
        weights = np.minimum(roster.units, self.cap(roster)) / UNIT
        relative = weights * roster.people / float((weights * roster.sizes).sum())
        return float((np.maximum(relative - 1, 0.0) * roster.sizes).sum())

    def estimate(self, x: PeopleCounts, meter: PersonalMeter) -> Values:
        return self.estimate_share(x, meter, ONE, "stretched counts")

    def estimate_share(self, x: PeopleCounts, meter: PersonalMeter, share: Fraction, purpose: str) -> Values:
        """The same for a share of everybody's budget."""
        cap = self.cap(x.roster)
        values = meter.stretched(x, share, purpose, cap)
        factor = x.roster.people * UNIT / int((np.minimum(x.roster.units, cap) * x.roster.sizes).sum())
        return Values(np.asarray(values.numbers * factor, dtype=np.float64), values.std * factor, values.law)


@dataclass(frozen=True, slots=True)
class Partitioned:
    """Groups of similar budgets, each measured with the lowest of its own; frequencies combined by inverse variance.

    ``by="waste"`` parts people so that least budget is wasted (``privacy_aware``), ``by="utility"`` so that the result
    is most precise (``utility_based``). ``number`` rounds measure again with what is left over. ``minimum`` is the
    smallest group allowed; ``spread`` as in ``frequency_weights``.

    >>> from veilstream.personalised import PersonalAccounts, Roster, count_levels
    >>> roster = Roster.of_budgets([0.1] * 50 + [1] * 950)
    >>> x = count_levels(roster, np.repeat([0, 1], [50, 950]), np.arange(1000) % 2, bins=2)
    >>> accounts = PersonalAccounts(roster)
    >>> values = Partitioned(by="utility").estimate(x, PersonalMeter(accounts))
    >>> [str(left) for left in accounts.left()], round(values.std, 1)
    (['0', '0'], 1.5)
    """

    by: Literal["waste", "utility"] = "utility"
    k: int | None = None
    minimum: int = 1
    number: int = 1
    spread: float = SPREAD

    def __post_init__(self) -> None:
        _check_spread(self.spread, self)
        if self.by not in ("waste", "utility"):
            raise InvalidInputError(name="by", of="Partitioned", value=self.by, limit="'waste' or 'utility'")
        if self.k is not None and self.by == "utility":
            raise InvalidInputError(
                name="k", of="Partitioned", value=self.k, limit="by='utility' finds the number itself"
            )
        if type(self.number) is not int or self.number < 1:
            raise InvalidInputError(name="number", of="Partitioned", value=self.number, limit="a whole number from 1")

    def groups(self, roster: Levels) -> list[Group]:
        """One round of groups, from public budgets alone."""
        if self.by == "utility":
            return utility_based(roster, count_loss(self.spread), self.minimum)
        k = None if self.k is None else min(self.k, roster.levels)
        return privacy_aware(roster, k, self.minimum)

    def plan(self, roster: Levels) -> list[list[Group]]:
        """The groups of all rounds."""
        return rounds(roster, self.groups, self.number)

    def estimate(self, x: PeopleCounts, meter: PersonalMeter) -> Values:
        return self.estimate_planned(self.plan(x.roster), x, meter)

    def estimate_planned(self, plan: list[list[Group]], x: PeopleCounts, meter: PersonalMeter) -> Values:
        """The same by a ``plan`` that was made before, for many questions to one roster."""
        groups = [group for one in plan for group in one]
        names = [f"round {at + 1}, group {k + 1}" for at, one in enumerate(plan) for k in range(len(one))]
        values = [meter.group(x, g, g.epsilon, name) for g, name in zip(groups, names, strict=True)]
        return combine_counts(x.roster, groups, values, self.spread)


@dataclass(frozen=True, slots=True)
class ExponentialCount:
    """One count by the personalised exponential mechanism: r with probability ∝ exp(−(budget to be given up for r)/2).

    Unbiased by budgets: no scaling up. The noise is that of the cheapest people near the truth, so few small budgets
    do little harm, many of them much.

    Jorgensen, Yu, Cormode, ICDE 2015; candidates are 0..n, n of the public roster. Answers are whole; the spread of
    the choice depends on who is counted, so none is stated (``std`` is nan).
    """

    def estimate(self, x: PeopleCounts, meter: PersonalMeter) -> Values:
        if x.bins != 1:
            raise InvalidInputError(f"{x.bins} bins: a personal exponential count is of one")
        scores = personal_count_scores(x.table, x.roster.sizes, x.roster.units)
        return Values(np.asarray([meter.select(x, scores, ONE, "count")], dtype=np.int64), float("nan"))


@dataclass(frozen=True, slots=True)
class ExponentialMedian:
    """The bin of the median by the personalised exponential mechanism (see ``personal_median_scores``).

    >>> from veilstream.personalised import PersonalAccounts, Roster, count_levels
    >>> roster = Roster.of_budgets([0.1] * 50 + [1] * 950)
    >>> x = count_levels(roster, np.repeat([0, 1], [50, 950]), np.arange(1000) % 9, bins=9)
    >>> int(ExponentialMedian().estimate(x, PersonalMeter(PersonalAccounts(roster))).numbers[0])
    4

    Jorgensen, Yu, Cormode, ICDE 2015.
    """

    def estimate(self, x: PeopleCounts, meter: PersonalMeter) -> Values:
        scores = personal_median_scores(x.table, x.roster.sizes, x.roster.units)
        return Values(np.asarray([meter.select(x, scores, ONE, "median")], dtype=np.int64), float("nan"))


def _check_spread(spread: float, mechanism: object) -> None:
    if not 0 <= spread < float("inf"):
        name = type(mechanism).__name__
        raise InvalidInputError(f"spread {spread!r} of {name}: a number from 0")
