"""Stretching where budgets have nothing to do with the data, and everybody at the lowest budget where they do."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from veilstream.errors import InvalidInputError
from veilstream.personalised.counts import Stretching
from veilstream.personalised.meter import PersonalMeter
from veilstream.personalised.partition import everybody
from veilstream.personalised.people import PeopleCounts
from veilstream.personalised.roster import UNIT, Levels
from veilstream.privacy.rationals import rational
from veilstream.values.values import Values

FALSE_ALARM: Final = 0.01
"""How likely noise alone makes the check fail."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Asks first, for ``check`` of every budget twice, whether *Stretching* and *Minimum* agree, and publishes either.

    Stretching counts people in proportion to their budgets: where those with large budgets differ from the others, it
    is wrong by up to ``Stretching.worst_bias`` people, and its noise does not tell. Minimum assumes nothing. Both are
    measured with ``check`` of the budgets (the lowest for Minimum). If they differ in some bin by more than their noise
    explains, 99 times in 100, the rest of the budgets goes to Minimum, else to Stretching. What the choice
    reads was charged, and nobody pays more than their own epsilon: check·ε_min + check·ε_i + (1 − 2·check)·ε_i ≤ ε_i.

    Noise grows by 1/(1 − 2·check), a third by default, and a bias below about ln(200·bins)/(check·ε_min) people goes
    unnoticed: the check bounds what can be lost, it does not remove it.

    >>> from veilstream.personalised import PersonalAccounts, Roster, count_levels
    >>> roster = Roster.of_budgets([0.5] * 2000 + [4] * 2000)
    >>> follow = count_levels(roster, np.repeat([0, 1], 2000), np.repeat([0, 1], 2000), bins=2)
    >>> values = Checked().estimate(follow, PersonalMeter(PersonalAccounts(roster)))
    >>> bool(np.abs(values.numbers - 2000).max() < 200)
    True
    """

    stretching: Stretching = field(default_factory=Stretching)
    check: Fraction = Fraction(1, 8)

    def __post_init__(self) -> None:
        object.__setattr__(self, "check", rational(self.check, "check"))
        if not 0 < self.check < Fraction(1, 2):
            raise InvalidInputError(
                name="check", of="Checked", value=self.check, limit="a Fraction above 0 and below 1/2"
            )

    def estimate(self, x: PeopleCounts, meter: PersonalMeter) -> Values:
        (group,) = everybody(x.roster)
        plain = meter.group(x, group, group.epsilon * self.check, "check, minimum")
        stretched = self.stretching.estimate_share(x, meter, self.check, "check, stretched counts")
        rest = 1 - 2 * self.check
        differs = np.abs(plain.numbers - stretched.numbers).max() > self._allowed(plain, stretched, x.bins)
        if differs:
            return meter.group(x, group, group.epsilon * rest, "minimum")
        return self.stretching.estimate_share(x, meter, rest, "stretched counts")

    def unnoticed(self, roster: Levels, bins: int) -> float:
        """About how many people counts may be wrong by, besides noise, without the check noticing it: public.

        >>> from veilstream.personalised import Roster
        >>> roster = Roster.of_budgets([0.5] * 2000 + [4] * 2000)
        >>> round(Checked(Stretching(spread=0)).unnoticed(roster, bins=2)), Checked().unnoticed(roster, bins=2)
        (96, 0.0)
        """
        seen = math.log(2 * bins / FALSE_ALARM) / float(self.check * Fraction(int(roster.units[0]), UNIT))
        return min(seen, self.stretching.worst_bias(roster))

    def _allowed(self, plain: Values, stretched: Values, bins: int) -> float:
        """Noise of two Laplace laws passes it in one of the bins with probability at most ``FALSE_ALARM``."""
        scales = sum(float(np.max(values.std)) / math.sqrt(2) for values in (plain, stretched))
        return scales * math.log(2 * bins / FALSE_ALARM)
