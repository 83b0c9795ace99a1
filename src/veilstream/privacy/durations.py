"""Durations of the public calendar: a count and a unit."""

from __future__ import annotations

import re
from datetime import datetime
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

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
PROBED: Final = range(datetime(1830, 1, 1).toordinal(), datetime(2110, 1, 1).toordinal(), 3)
"""Days of which some show every time that a zone ever had.

The first clocks of zones were set in 1835, the last rule that is written out ends in 2087, and no time of a zone held
for less than three days.
"""


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


@cache
def clock_changes(zone: str) -> int:
    """By how many microseconds two stretches of as many days on the clock of ``zone`` are apart at most.

    A stretch is longer than its days by what the clock was ahead of UTC at its beginning and is not at its end.

    >>> clock_changes("UTC"), clock_changes("America/New_York") // MICROSECONDS["h"]
    (0, 1)
    """
    clock = ZoneInfo(zone)
    ahead = [datetime.fromordinal(day).replace(tzinfo=clock).utcoffset() for day in PROBED]
    seconds = [offset.total_seconds() for offset in ahead if offset is not None]
    return round((max(seconds) - min(seconds)) * MICROSECONDS["s"])
