"""Which steps share one budget: a sliding window, a horizon, or one of many stretches that double in length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Final

from veilstream.errors import InvalidBudgetError
from veilstream.privacy.guarantee import Guarantee

MOST_STEPS: Final = 10_000_000
"""As many as a calendar may have; a schedule takes some hundred bytes for each."""
FIRST_STRETCH: Final = 128
"""Steps of the first stretch of a stream at user level without a horizon."""
MOST_UNITS: Final = 1 << 60
"""Sums of charges in units fit into 64 bits."""
DIVISORS: Final = math.lcm(*range(1, 21))
"""Equal shares of up to 20 blocks, and of more, are whole numbers of units."""
DAY: Final = timedelta(days=1)
WEEK: Final = timedelta(weeks=1)
YEAR: Final = timedelta(days=365.25)
MOST_PHASES: Final = 300
"""Phases of a day or a week: each costs six numbers per bin."""
MOST_PHASES_OF_A_YEAR: Final = 60
"""A year in more steps takes too long to come round."""


@dataclass(frozen=True, slots=True)
class Period:
    """``window`` successive steps, or all steps of a stretch that ends with ``last``, share ``share`` of the budget.

    ``steady`` says that a person counts in so many steps, whichever these are: then longer gaps between looks save
    nothing, and every step has the same share.
    """

    window: int
    last: int | None = None
    share: Fraction = Fraction(1)
    steady: bool = False

    def __post_init__(self) -> None:
        if self.window > MOST_STEPS:
            raise InvalidBudgetError(
                name="window",
                of="ModelBased",
                value=self.window,
                limit=f"at most {MOST_STEPS:,} steps may share a budget, for which schedules of looks are worked out",
                next_step="give a shorter window or horizon, or take mechanism 'uniform'",
            )

    @property
    def units(self) -> int:
        """Of a whole budget: charges are whole multiples of one, so that sums are exact and equal shares leave nothing.

        >>> Period(window=7).even * 7 == Period(window=7).units
        True
        """
        least = self.window * DIVISORS if self.window * DIVISORS <= MOST_UNITS else self.window
        return least * max(1, MOST_UNITS // least)

    @property
    def even(self) -> int:
        """Uniform's charge for a step, in units."""
        return self.units // self.window

    def kept(self, reserve: Fraction) -> int:
        """A part of Uniform's charge, to be kept for every step to come, in units."""
        return int(reserve * self.even)

    def begins(self, step: int) -> bool:
        """Whether a stretch of its own begins at ``step``."""
        return self.last is not None and step == self.last - self.window + 1


def period_at(step: int, guarantee: Guarantee, horizon: int | None) -> Period:
    """The period of a step.

    At user level without a horizon stretch number i = 0, 1, 2, ... has 128·2^i steps and the share 2/((i+2)(i+3)) of
    the budget; these add up to 1. Over N steps the noise is about (log₂(N/128) + 2)²/4 times that of Uniform with the
    horizon N, its square root for Gaussian noise: the price of not saying when the stream ends. It is 4 for 200 to 800
    steps, 7 for 3,200 and 22 for 100,000; shorter first stretches and shares that fall faster gain below 100 steps
    and lose twice as much later on.

    >>> user = Guarantee(1, w=None)
    >>> [str(period_at(step, user, None).share) for step in (0, 127, 128, 383, 384)]
    ['1/3', '1/3', '1/6', '1/6', '1/10']
    """
    if guarantee.presence is not None and guarantee.reach is not None:
        return Period(guarantee.reach, steady=True)
    if guarantee.w is not None:
        return Period(guarantee.w)
    if horizon is not None:
        return Period(horizon, horizon - 1)
    number = (step // FIRST_STRETCH + 1).bit_length() - 1
    length = FIRST_STRETCH << number
    return Period(length, FIRST_STRETCH * ((2 << number) - 1) - 1, Fraction(2, (number + 2) * (number + 3)))


def calendar_periods(step: timedelta) -> tuple[int, ...]:
    """Seasons that a calendar suggests for steps of this length: of a day, of a week, and of a year in long steps.

    >>> [calendar_periods(timedelta(**step)) for step in ({"minutes": 5}, {"hours": 1}, {"days": 1}, {"weeks": 1})]
    [(288,), (24, 168), (7,), (52,)]
    """
    found = [
        cycle // step for cycle in (DAY, WEEK) if cycle % step == timedelta(0) and 2 <= cycle // step <= MOST_PHASES
    ]
    yearly = round(YEAR / step)
    return (*found, yearly) if 2 <= yearly <= MOST_PHASES_OF_A_YEAR else tuple(found)
