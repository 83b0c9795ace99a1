"""How many steps a budget must cover, and the share of it that each release at a public time gets."""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction

from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.privacy.guarantee import MAX_WINDOW, Guarantee


class Rate(StrEnum):
    """How often to release where no number is given."""

    EVERY_STEP = "every-step"


def whole(value: int | Rate | None, name: str, mechanism: object) -> None:
    """Refuse a parameter that is not a whole number of steps (None and a rate are left to the guarantee)."""
    if value is None or isinstance(value, Rate):
        return
    if type(value) is not int or not 1 <= value <= MAX_WINDOW:
        raise InvalidInputError(
            name=name,
            of=type(mechanism).__name__,
            value=value,
            limit=f"a whole number of at least 1 and at most {MAX_WINDOW:,} is needed",
        )


def steps_to_cover(guarantee: Guarantee, horizon: int | None, mechanism: object) -> int:
    """The number of timestamps that share one budget: the period of the guarantee, or the horizon at user level.

    Where people count in few steps for ever, the horizon is the number of steps over which releases are paced.
    """
    if guarantee.period is not None:
        return guarantee.period
    if horizon is None:
        name = type(mechanism).__name__
        raise InvalidInputError(
            name="horizon of",
            value=name,
            limit="missing, but at user level (w=None) one budget lasts for the whole stream; give the public "
            f"number of steps, as in {name}(horizon=500), or a window w",
        )
    return horizon


def share(guarantee: Guarantee, horizon: int | None, interval: int, mechanism: object) -> Fraction:
    """The pure budget of each release if one is made every ``interval`` timestamps.

    Where people count in few steps for ever, no horizon is needed.
    """
    if guarantee.period is None and guarantee.endless:
        return guarantee.pure / guarantee.shares(None)
    return guarantee.pure / guarantee.shares(-(-steps_to_cover(guarantee, horizon, mechanism) // interval))


def within_horizon(guarantee: Guarantee, step: int, horizon: int | None) -> None:
    """At user level nothing can be published after the horizon that the budget was planned for."""
    if not guarantee.endless and horizon is not None and step >= horizon:
        raise BudgetExceededError(
            f"step {step + 1} of a stream planned for {horizon} steps at user level: the budget "
            f"{guarantee.pure} is spoken for"
        )
