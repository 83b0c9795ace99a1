"""The public clock: which step a row belongs to, until when it may arrive, and when its step is closed and shown.

A row counts in a step iff it arrived before the step's public end plus a public grace period. That is a function of the
row and the calendar alone. A rule that looks at other rows, such as a watermark that follows the newest time seen,
lets one person decide whether somebody else's row counts, and so moves counts by more than the bound.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.data import Calendar
from veilstream.data.calendar import LARGEST_TIME, MAX_STEPS, MISSING, OUTSIDE
from veilstream.data.instants import Instants
from veilstream.errors import InvalidInputError
from veilstream.privacy.durations import MICROSECONDS, parse_duration

ClockKind: TypeAlias = Literal["wall", "manual"]
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST_YEAR: Final = datetime(9000, 1, 1, tzinfo=UTC)
VARIABLE_UNITS: Final = ("mo", "q", "y")
LOG: Final = logging.getLogger("veilstream.live")
LARGEST_JUMP: Final = MICROSECONDS["h"]
FAR_FUTURE: Final = 1 << 62
"""A tick after every step."""


class Clock(Protocol):
    """Tells the present in microseconds since 1970 UTC."""

    def now(self) -> int: ...

    def seconds_until(self, tick: int) -> float:
        """How long to wait, in seconds of this machine, until the clock shows ``tick``."""
        ...

    def seconds_since(self, tick: int) -> float:
        """For how long, in seconds of this machine, the clock has shown ``tick`` or later; negative before."""
        ...


class WallClock:
    """The machine's clock; within a process it never goes back, and does not follow a jump of more than an hour ahead.

    Steps would be closed for ever by a time server that is wrong for a moment. The time since the machine started
    shows how much has passed; a new process takes the machine's time as it is.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest, self._elapsed = 0, 0
        self.jumped = False
        """Whether the machine's clock is ahead of what has passed."""

    def now(self) -> int:
        with self._lock:
            shown, elapsed = time.time_ns() // 1000, _since_start()
            expected = self._latest + elapsed - self._elapsed
            jumped = self._latest > 0 and shown > expected + LARGEST_JUMP
            if jumped and not self.jumped:
                LOG.error("the machine's clock jumped ahead and is not followed; correct it, or restart this process")
            self.jumped = jumped
            self._latest, self._elapsed = expected if jumped else max(self._latest, shown), elapsed
            return self._latest

    def seconds_until(self, tick: int) -> float:
        return max(0.0, (tick - self.now()) / 1e6)

    def seconds_since(self, tick: int) -> float:
        return (self.now() - tick) / 1e6


def _since_start() -> int:
    """Microseconds since the machine started, with the time for which it was suspended where the system tells."""
    kind = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic_ns() if kind is None else time.clock_gettime_ns(kind)) // 1000


@dataclass(frozen=True, slots=True)
class ScaledClock:
    """A clock for replays: it shows ``start`` until ``began``, then runs ``speed`` times as fast as the machine's."""

    start: int
    speed: float
    began: float = field(default_factory=time.monotonic)

    def now(self) -> int:
        return self.start + int(max(0.0, time.monotonic() - self.began) * self.speed * 1e6)

    def seconds_until(self, tick: int) -> float:
        return max(0.0, (tick - self.now()) / 1e6 / self.speed)

    def seconds_since(self, tick: int) -> float:
        return (self.now() - tick) / 1e6 / self.speed


@dataclass(slots=True)
class SettableClock:
    """A clock that somebody else moves: tests, and replays of history."""

    tick: int

    def now(self) -> int:
        return self.tick

    def seconds_until(self, tick: int) -> float:
        return 0.0 if tick <= self.tick else 0.01

    def seconds_since(self, tick: int) -> float:
        return (self.tick - tick) / 1e6


def duration(text: str) -> int:
    """A fixed duration in microseconds: ``0`` or a number with a unit of us, ms, s, m, h, d, w.

    >>> duration("90s"), duration("0s")
    (90000000, 0)
    """
    if re.fullmatch(r"0(us|ms|s|m|h|d|w)?", text):
        return 0
    count, unit = parse_duration(text)
    if unit in VARIABLE_UNITS:
        raise InvalidInputError(name="duration", value=text, limit="a unit of us, ms, s, m, h, d or w is needed")
    return count * MICROSECONDS[unit]


@dataclass(frozen=True)
class Timetable:
    """Steps without an end, and the public moments of each.

    A row of step t counts iff it arrives before ``deadline(t)`` = end(t) + ``grace``. The step is closed at
    ``closes(t)``, half of ``delay`` later, so that batches which were under way are stored, and readers see its
    release at ``shown(t)`` = end(t) + ``grace`` + ``delay``, whatever the rows were.

    >>> hours = Timetable("2024-01-01", "1h", grace=60_000_000, delay=10_000_000)
    >>> [moment(hours.deadline(0)), moment(hours.closes(0)), moment(hours.shown(0))]
    ['2024-01-01T01:01:00+00:00', '2024-01-01T01:01:05+00:00', '2024-01-01T01:01:10+00:00']
    >>> hours.step_at(hours.begins(7))
    7
    """

    start: str | int
    every: str | int
    zone: str = "UTC"
    grace: int = 0
    delay: int = 0

    def __post_init__(self) -> None:
        for name in ("grace", "delay"):
            if getattr(self, name) < 0:
                raise InvalidInputError(name=name, value=getattr(self, name), limit="at least 0 is needed")
        _ = self.calendar

    @cached_property
    def calendar(self) -> Calendar:
        """The calendar up to as far as calendars go; used to read times and to place the beginnings of long steps."""
        if isinstance(self.start, int) or isinstance(self.every, int):
            if not (isinstance(self.start, int) and isinstance(self.every, int)):
                raise InvalidInputError(
                    name="every", value=self.every, limit="start and every are both whole numbers or neither is"
                )
            return Calendar(self.start, self.start + self.every * MAX_STEPS, self.every)
        first = Calendar(self.start, LAST_YEAR, "1y", self.zone).begins(0)
        assert isinstance(first, datetime)
        count, unit = parse_duration(self.every)
        if unit in VARIABLE_UNITS:
            return Calendar(self.start, min(LAST_YEAR, first + timedelta(days=365 * 400)), self.every, self.zone)
        width = count * MICROSECONDS[unit]
        reach = min((LAST_YEAR - first) // timedelta(microseconds=1), width * (MAX_STEPS - 2))
        if unit in ("d", "w"):
            reach = min(reach, 400 * 365 * MICROSECONDS["d"] + width)
        return Calendar(self.start, first + timedelta(microseconds=reach), self.every, self.zone)

    @cached_property
    def _width(self) -> int | None:
        """The length of every step, None where steps differ in length."""
        if isinstance(self.every, int):
            return self.every
        count, unit = parse_duration(self.every)
        if unit in VARIABLE_UNITS or (unit in ("d", "w") and self.zone != "UTC"):
            return None
        return count * MICROSECONDS[unit]

    @cached_property
    def _beyond(self) -> int:
        """The first step that no row can belong to."""
        if self._width is None:
            return self.calendar.steps - 1
        return ((LARGEST_TIME if isinstance(self.every, int) else _ticks(LAST_YEAR)) - self._first) // self._width

    @cached_property
    def _first(self) -> int:
        return _ticks(self.calendar.begins(0))

    def begins(self, t: int) -> int:
        """When step ``t`` begins."""
        if self._width is not None:
            return self._first + t * self._width
        return _ticks(self.calendar.begins(t))

    def ends(self, t: int) -> int:
        """When step ``t`` ends, which is when the next one begins."""
        return self.begins(t + 1)

    def deadline(self, t: int) -> int:
        """Rows of step ``t`` count if they arrive before this moment."""
        return self.ends(t) + self.grace

    @property
    def settle(self) -> int:
        """How long a batch may take from its arrival until it is stored."""
        return self.delay // 2

    def closes(self, t: int) -> int:
        """From this moment on nothing more is added to step ``t``."""
        return self.deadline(t) + self.settle

    def shown(self, t: int) -> int:
        """From this moment on readers may see the release of step ``t``."""
        return self.deadline(t) + self.delay

    def step_at(self, tick: int) -> int:
        """The step that ``tick`` lies in; negative before the first."""
        if self._width is not None:
            return (tick - self._first) // self._width
        if tick < self._first:
            return -1
        found = self.calendar.place(Instants(np.array([tick]), np.array([True]), None))
        return int(found[0])

    def place(self, found: Instants) -> NDArray[np.int64]:
        """The step of every instant, ``MISSING`` without a time, ``OUTSIDE`` before the first step or after the last.

        The calendar's own last step is none: where steps differ in length nothing says when it ends.
        """
        if self._width is None:
            steps = self.calendar.place(found)
        else:
            # Ticks far before the first step would wrap around if it were subtracted from them.
            steps = (np.maximum(found.ticks, self._first - 1) - self._first) // self._width
            steps[~found.present] = MISSING
        steps[steps >= self._beyond] = OUTSIDE
        return steps

    def judge(
        self, steps: NDArray[np.int64], arrived: NDArray[np.int64], ahead: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows arrived after their step's deadline, and which more than ``ahead`` before it began; what lies
        before the first step is late."""
        own, place = np.unique(np.maximum(steps, 0), return_inverse=True)
        deadlines = np.array([self.deadline(int(step)) for step in own], np.int64)
        earliest = np.array([max(self.begins(int(step)) - ahead, -FAR_FUTURE) for step in own], np.int64)
        late = (steps < 0) | (arrived >= deadlines[place])
        return late, ~late & (arrived < earliest[place])

    def label(self, t: int) -> str:
        """The beginning of step ``t`` as text."""
        if isinstance(self.every, int):
            return str(self.begins(t))
        return moment(self.begins(t)) if self.zone == "UTC" else self.calendar.label(t)


def _ticks(begin: datetime | int) -> int:
    return begin if isinstance(begin, int) else (begin - EPOCH) // timedelta(microseconds=1)


def moment(tick: int) -> str:
    """Microseconds since 1970 as ISO 8601 text.

    >>> moment(0)
    '1970-01-01T00:00:00+00:00'
    """
    return (EPOCH + timedelta(microseconds=tick)).isoformat()


def tick_of(when: str | int | datetime, zone: str = "UTC") -> int:
    """A public moment, given as text, datetime or ticks, in ticks.

    >>> tick_of("1970-01-01T00:00:01")
    1000000
    """
    if isinstance(when, int):
        return when
    return _ticks(Calendar(when, LAST_YEAR, "1y", zone).begins(0))
