"""Durations of the public calendar: a count and a unit."""

from __future__ import annotations

import re
from typing import Final

from veilstream.arguments import is_a
from veilstream.errors import InvalidInputError

MICROSECONDS: Final = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
"""Units of a fixed length; days and weeks only where no clock changes."""
DAYS: Final = {"d": 1, "w": 7}
MONTHS: Final = {"mo": 1, "q": 3, "y": 12}


def parse_duration(every: str) -> tuple[int, str]:
    """Count and unit of a duration.

    >>> parse_duration("15m")
    (15, 'm')
    """
    match = re.fullmatch(r"([0-9]{1,18})(us|ms|s|mo|m|h|d|w|q|y)", every) if is_a(every, str) else None
    if match is None or int(match[1]) < 1:
        raise InvalidInputError(
            name="duration",
            value=every,
            limit="a count of at least 1 and a unit of us, ms, s, m, h, d, w, mo, q, y are needed",
            next_step="write it as 15m, 1h, 1d, 1w or 1mo",
        )
    return int(match[1]), match[2]
