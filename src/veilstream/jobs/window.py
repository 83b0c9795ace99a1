"""The window of a guarantee as people write it."""

from __future__ import annotations

import re

from veilstream.arguments import is_a
from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.privacy.durations import MICROSECONDS, MONTHS, parse_duration

LONGEST = 40
"""Letters of a window: no number of steps or duration needs more."""
LIMIT = "write 1 for event level, a whole number of steps, a duration such as '24h', or 'user'"


def steps_of_window(window: int | str, every: int | str | None = None) -> int | None:
    """How many steps of length ``every`` share a budget; None, user level, is all of them.

    >>> steps_of_window("user"), steps_of_window("24"), steps_of_window("24h", every="15m")
    (None, 24, 96)
    >>> steps_of_window("1d", every="5h")
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidBudgetError: window '1d': not a whole number of steps of 5h; give a number of steps;
    nothing was released
    """
    if isinstance(window, int):
        return window
    if not is_a(window, str) or len(window) > LONGEST:
        raise InvalidBudgetError(name="window", value=window, limit=LIMIT)
    if window == "user":
        return None
    if re.fullmatch(r"[+-]?[0-9]+", window.strip()):
        return int(window)
    try:
        window_length, step_length = _length(window), _length("" if every is None else str(every))
    except InvalidInputError:
        raise InvalidBudgetError(name="window", value=window, limit=LIMIT) from None
    if window_length[1] != step_length[1] or window_length[0] % step_length[0]:
        raise InvalidBudgetError(
            name="window", value=window, limit=f"not a whole number of steps of {every}; give a number of steps"
        )
    return window_length[0] // step_length[0]


def steps_of_distinct(distinct: int | str, every: int | str | None) -> int:
    """Over how many last steps people are counted once, from 1.

    >>> steps_of_distinct("7d", "1d"), steps_of_distinct("12", "1h")
    (7, 12)
    """
    limit = "'step', 'so-far', or of how many last steps people are counted: a number, or a duration such as 7d"
    try:
        steps = steps_of_window(distinct, every)
    except InvalidBudgetError:
        steps = None
    if steps is None or steps < 1:
        raise InvalidInputError(name="distinct", value=distinct, limit=limit, outcome="nothing was read")
    return steps


def _length(duration: str) -> tuple[int, str]:
    """A duration in months, or in microseconds."""
    count, unit = parse_duration(duration)
    return (count * MONTHS[unit], "months") if unit in MONTHS else (count * MICROSECONDS[unit], "microseconds")
