"""From rows to (step, bin), with an explicit policy for what lies outside the public domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.axes import Categories
from veilstream.data.calendar import MISSING, OUTSIDE, Calendar
from veilstream.data.domain import Domain
from veilstream.data.read_options import has_decimal_comma
from veilstream.errors import InvalidInputError, UnknownValueError

Policy: TypeAlias = Literal["error", "drop"]


@dataclass(slots=True)
class Dropped:
    """How many rows were left out, and why. For the operator alone: the numbers are exact, do not publish
    them.

    They do not show in ``repr``; read the attributes.
    """

    no_user: int = field(default=0, repr=False)
    unknown: int = field(default=0, repr=False)
    outside_time: int = field(default=0, repr=False)
    missing_time: int = field(default=0, repr=False)
    last_step: int = field(default=-1, repr=False)
    """The last step of the calendar in which a row lies."""
    presence: int = field(default=0, repr=False)
    """Rows of people who counted in enough steps."""
    missing_value: int = field(default=0, repr=False)
    """Values that are missing in columns that are measured."""
    unreadable: int = field(default=0, repr=False)
    """Rows of a file that do not have the fields of its header."""
    late: int = field(default=0, repr=False)
    """Rows that arrived after their step was closed."""
    _bounded: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]], repr=False)

    def add(self, other: Dropped) -> None:
        """Count the rows that another part of the source left out, too.

        >>> one, other = Dropped(unknown=2, last_step=5), Dropped(unknown=1, last_step=3)
        >>> one.add(other)
        >>> one.unknown, one.last_step
        (3, 5)
        """
        for name in (
            "no_user",
            "unknown",
            "outside_time",
            "missing_time",
            "presence",
            "missing_value",
            "unreadable",
            "late",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.last_step = max(self.last_step, other.last_step)
        for numbers in other._bounded.values():
            self._bounded[-1 - len(self._bounded)] = numbers

    def note_bounding(self, part: int, rows: int, counted: int) -> None:
        """Remember of a part of the steps how many rows there were and how many counted."""
        self._bounded[part] = rows, counted

    @property
    def bounded_share(self) -> float:
        """The part of the rows that the limits per person left out, of the steps counted so far."""
        rows = sum(rows for rows, _ in self._bounded.values())
        counted = sum(counted for _, counted in self._bounded.values())
        return 1 - counted / rows if rows else 0.0


def left_out(unknown: Policy) -> Dropped | None:
    """Where a reader notes the rows that cannot be read; None if they are refused."""
    return Dropped() if unknown == "drop" else None


@dataclass(slots=True)
class Encoder:
    """Steps and flat bins of the rows of one source, batch after batch.

    ``unknown`` decides about values outside the public bins, times outside the public range, and what cannot be read;
    ``missing_time`` about rows without a time. With "drop" what becomes of a row depends on that row alone.
    """

    domain: Domain
    calendar: Calendar
    time: str
    unknown: Policy = "error"
    missing_time: Policy = "error"
    dropped: Dropped = field(default_factory=Dropped)
    missing_value: Policy = "error"

    def __post_init__(self) -> None:
        for name in ("unknown", "missing_time", "missing_value"):
            policy: object = getattr(self, name)
            if policy not in get_args(Policy):
                raise InvalidInputError(f"{name}='{policy}': choose 'error' or 'drop'", outcome="nothing was read")

    def encode(self, frame: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_] | None]:
        """Step and flat bin of every row, and which rows to keep (None for all)."""
        steps = self._steps(frame[self.time])
        self.dropped.last_step = max(self.dropped.last_step, int(steps.max(initial=-1)))
        flat = self.domain.encode(frame)
        if steps.min(initial=0) >= 0 and flat.min(initial=0) >= 0:
            return steps, flat, None
        self._outside_bins(frame, steps, flat)
        return steps, flat, (steps >= 0) & (flat >= 0)

    def _steps(self, column: pl.Series) -> NDArray[np.int64]:
        found = self.calendar.read(column)
        if self.unknown == "error":
            found.require_readable(column)
        steps = self.calendar.place(found)
        missing, outside = int(np.count_nonzero(steps == MISSING)), int(np.count_nonzero(steps == OUTSIDE))
        if missing and self.missing_time == "error":
            raise InvalidInputError(
                f"time column '{self.time}': a row has no time, every row needs one",
                name=self.time,
                operator_note=f"{missing} such rows in this batch",
                next_step="fill it, or leave such rows out with --missing-time drop",
            )
        if outside and self.unknown == "error":
            raise UnknownValueError(
                f"time column '{self.time}': a row lies outside the public range from {self.calendar.start} "
                f"to {self.calendar.end} (excluded)",
                name=self.time,
                operator_note=f"{outside} such rows in this batch",
                next_step="widen --start and --end, or leave such rows out with --unknown drop",
            )
        self.dropped.missing_time += missing
        self.dropped.outside_time += outside
        return steps

    def note_missing_values(self, absent: NDArray[np.bool_], names: Sequence[str]) -> None:
        """Refuse or count the values that are missing (columns × rows) in measured columns of these names."""
        lacking = absent.sum(axis=1)
        if self.missing_value == "error" and lacking.any():
            name = names[int(lacking.argmax())]
            raise InvalidInputError(
                f"column '{name}': a row has no value, every row that is measured needs one",
                name=name,
                operator_note=f"{int(lacking.max())} such rows in this batch",
                next_step="fill it, or leave such values out with --missing-value drop",
            )
        self.dropped.missing_value += int(lacking.sum())

    def _outside_bins(self, frame: pl.DataFrame, steps: NDArray[np.int64], flat: NDArray[np.int64]) -> None:
        strange = (steps >= 0) & (flat < 0)
        if self.unknown == "error" and strange.any():
            name = self.domain.unknown_attributes(frame.filter(strange))[0]
            hint = "add it to the domain, or leave such rows out with --unknown drop"
            if has_decimal_comma(frame.filter(strange)[name]) and not isinstance(self.domain.axes[name], Categories):
                hint = "numbers with a decimal comma need --decimal ','"
            raise UnknownValueError(
                f"attribute '{name}': a row has a value that is missing or not in the public domain",
                name=name,
                operator_note=f"{int(np.count_nonzero(strange))} such rows in this batch",
                next_step=hint,
            )
        self.dropped.unknown += int(np.count_nonzero(strange))
