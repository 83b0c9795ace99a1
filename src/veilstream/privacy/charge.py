"""Spans of time, and charges: what one use of private data costs the windows that it touches."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from veilstream.arguments import is_a
from veilstream.errors import InvalidInputError
from veilstream.privacy.profile import Profile

Times: TypeAlias = NDArray[np.int32 | np.int64]
Names: TypeAlias = NDArray[np.int64] | NDArray[np.bool_]
"""Bins: their positions, or for every bin whether it is one of them."""


WHOLE: Final = (int, np.integer)


def time_type(t: int) -> type[np.int32] | type[np.int64]:
    """What holds ``t`` and all before it that a stream has seen: four bytes as long as they do."""
    return np.int32 if abs(t) < (1 << 31) - 1 else np.int64


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The timestamps ``first..last``, both included.

    >>> Span(3, 5).steps, Span(3, 5).touches(Span(5, 9)), Span(3, 5) | Span(7, 7)
    (3, True, Span(first=3, last=7))
    """

    first: int
    last: int

    def __post_init__(self) -> None:
        if not (is_a(self.first, *WHOLE) and is_a(self.last, *WHOLE)):
            raise InvalidInputError(name="span", limit="its ends are whole numbers")
        if self.first > self.last:
            raise InvalidInputError(f"span {self.first}..{self.last}: first is after last")

    @property
    def steps(self) -> int:
        """The number of timestamps."""
        return self.last - self.first + 1

    def touches(self, other: Span) -> bool:
        """Whether the two have a timestamp in common."""
        if not is_a(other, Span):
            raise InvalidInputError(name="span", limit=f"a Span is needed, not {type(other).__name__}")
        return self.first <= other.last and other.first <= self.last

    def __or__(self, other: Span) -> Span:
        return Span(min(self.first, other.first), max(self.last, other.last))


@dataclass(frozen=True, slots=True)
class Charge:
    """What one use of private data costs every window that ``span`` touches.

    ``epsilon`` counts towards the pure budget and ``mu_squared`` towards the Gaussian one. At event
    level (w = 1) a charge may name ``bins``, by their positions or by a truth value for every bin: it then counts for
    those bins alone, because one event lies in one bin. ``starts`` gives, position by position, where the span of each
    begins (never before ``span.first``). Without bins, ``starts`` is the record of a ``profile``: the charge is a row
    of a running sum, and ``mu_squared`` what it costs a timestamp that it reads with weight 1.
    A charge with a ``block`` grows: a later charge of the same block stands in its place, with a further span and an
    epsilon that is no smaller, which every window that any of the spans touches then pays; one of epsilon 0 says that
    the block will grow no more and changes nothing else.

    >>> charge = Charge(Fraction(1, 24), Span(7, 7), "publish")
    >>> charge.epsilon, charge.span.steps
    (Fraction(1, 24), 1)
    """

    epsilon: Fraction
    span: Span
    purpose: str
    mu_squared: Fraction = Fraction(0)
    block: int | None = None
    bins: Names | None = field(default=None, repr=False, compare=False)
    starts: Times | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (is_a(self.epsilon, Fraction) and is_a(self.mu_squared, Fraction)):
            raise InvalidInputError(name="charge", limit="epsilon and mu_squared are Fractions")
        if not (is_a(self.span, Span) and is_a(self.purpose, str)):
            raise InvalidInputError(name="charge", limit="it has a Span and a purpose in words")
        if self.bins is not None and not (is_a(self.bins, np.ndarray) and self.bins.dtype.kind in "ib"):
            raise InvalidInputError(name="charge", limit="bins are an array of positions, or of a truth value for each")
        if self.starts is not None and not (is_a(self.starts, np.ndarray) and self.starts.dtype.kind == "i"):
            raise InvalidInputError(name="charge", limit="starts are an array of whole numbers")
        if self.starts is None or self.profile is not None:
            return
        if self.bins is None or self.bins.dtype == np.bool_ or self.bins.shape != self.starts.shape:
            raise InvalidInputError(
                name="charge for",
                value=self.purpose,
                limit=f"{self.starts.size} starts, where each needs the position of its bin",
            )

    def names_bins_of(self, bins: int) -> bool:
        """Whether the bins that it names are among so many: a position that wraps around would charge another bin.

        >>> Charge(Fraction(1), Span(0, 0), "publish", bins=np.array([-1])).names_bins_of(3)
        False
        """
        if self.bins is None or self.bins.dtype == np.bool_:
            # Truth values are counted where they are read.
            return True
        return self.bins.size == 0 or (int(self.bins.min()) >= 0 and int(self.bins.max()) < bins)

    @property
    def profile(self) -> Profile | None:
        """Which timestamps a row of a running sum reads with which weights; None for any other charge."""
        return None if self.starts is None or self.bins is not None else Profile.decoded(self.starts)

    @property
    def positions(self) -> NDArray[np.int64] | None:
        """Of the bins that it names, None for all."""
        if self.bins is None or self.bins.dtype != np.bool_:
            return cast("NDArray[np.int64] | None", self.bins)
        return np.flatnonzero(self.bins)
