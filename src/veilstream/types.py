"""The plain values that pass between the parts: spans of time, charges, noisy values, releases."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInput

Numbers: TypeAlias = NDArray[np.int64] | NDArray[np.float64]
Rational: TypeAlias = Fraction | int
Times: TypeAlias = NDArray[np.int32 | np.int64]
Names: TypeAlias = NDArray[np.int64] | NDArray[np.bool_]
"""Bins: their positions, or for every bin whether it is one of them."""


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
        if self.first > self.last:
            raise InvalidInput(f"span {self.first}..{self.last}: first is after last; no span was made")

    @property
    def steps(self) -> int:
        return self.last - self.first + 1

    def touches(self, other: Span) -> bool:
        return self.first <= other.last and other.first <= self.last

    def __or__(self, other: Span) -> Span:
        return Span(min(self.first, other.first), max(self.last, other.last))


@dataclass(frozen=True, slots=True)
class Charge:
    """What one use of private data costs every window that ``span`` touches.

    ``epsilon`` counts towards the pure budget and ``mu_squared`` towards the Gaussian one. At event
    level (w = 1) a charge may name ``bins``, by their positions or by a truth value for every bin: it then counts for
    those bins alone, because one event lies in one bin. ``since`` gives, position by position, where the span of each
    begins (never before ``span.first``).
    A charge with a ``block`` grows: a later charge of the same block stands in its place, with a longer span; one of
    epsilon 0 says that the block will grow no more and changes nothing else.
    """

    epsilon: Fraction
    span: Span
    purpose: str
    mu_squared: Fraction = Fraction(0)
    block: int | None = None
    bins: Names | None = field(default=None, repr=False, compare=False)
    since: Times | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.since is None:
            return
        if self.bins is None or self.bins.dtype == np.bool_ or self.bins.shape != self.since.shape:
            raise InvalidInput(
                f"charge for {self.purpose!r}: {self.since.size} beginnings, where each needs the position of its bin; "
                "nothing was charged"
            )

    @property
    def positions(self) -> NDArray[np.int64] | None:
        """Of the bins that it names, None for all."""
        if self.bins is None or self.bins.dtype != np.bool_:
            return cast("NDArray[np.int64] | None", self.bins)
        return np.flatnonzero(self.bins)


class Law(StrEnum):
    """The law of the noise behind a value's standard deviation."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    MIXED = "mixed"
    """Symmetric and unimodal, otherwise unknown: sums and averages of several noises."""


def half_width(level: float, std: Any, law: Law, integer: bool) -> Any:
    """Half the width of the symmetric interval that holds the noise with probability at least ``level``.

    Laplace on the integers and in the continuum, and Gaussian, by their own quantiles; ``MIXED`` by Gauss'
    inequality P(|X| > kσ) ≤ 4/(9k²), which any symmetric unimodal law obeys.

    >>> int(half_width(0.95, 14.13, Law.LAPLACE, integer=True))
    30
    >>> float(half_width(0.95, 1.0, Law.MIXED, integer=False).round(2))
    2.98
    """
    if not 0 < level < 1:
        raise InvalidInput(f"interval level {level}: it lies strictly between 0 and 1; no interval was made")
    std = np.asarray(std, dtype=np.float64)
    miss = 1 - level
    with np.errstate(divide="ignore", invalid="ignore"):
        match law:
            case Law.LAPLACE if integer:
                rate = 2 * np.arcsinh(1 / (math.sqrt(2) * std))
                tail = np.log(2 / (miss * (1 + np.exp(-rate)))) / rate
                width = np.maximum(np.ceil(tail - 1), 0)
            case Law.LAPLACE:
                width = std / math.sqrt(2) * math.log(1 / miss)
            case Law.GAUSSIAN:
                from scipy.special import ndtri

                width = std * float(ndtri(1 - miss / 2))
            case Law.MIXED:
                width = std * math.sqrt(max(4 / (9 * miss), 1.0))
    return np.where(std == 0, 0.0, width)[()]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Noisy, hence public, numbers with the standard deviation of their noise.

    ``std`` is one number for all bins or one per bin. It speaks of noise alone: not of the bias of a method that
    smooths, nor of what has changed since a value was released.
    """

    numbers: Numbers
    std: float | NDArray[np.float64]
    law: Law = Law.MIXED
    fresh: bool = True

    def again(self) -> Values:
        """The same values, marked as republished; they are closed to writing, so that a ledger knows them again."""
        for part in (self.numbers, self.std):
            if isinstance(part, np.ndarray):
                _close(part)
        return replace(self, fresh=False)


def _close(x: NDArray[Any]) -> None:
    x.setflags(write=False)
    if isinstance(x.base, np.ndarray) and x.base.size == x.size:
        x.base.setflags(write=False)


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """One committed release. Only the ledger makes these, after the transaction that holds them."""

    stream: str
    seq: int
    t: int
    values: Numbers = field(repr=False)
    std: float | NDArray[np.float64] = field(repr=False)
    law: Law
    fresh: bool
    spent: Fraction
    left: Fraction

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Low and high ends that hold the value before noise with probability at least ``level``, bin by bin."""
        width = half_width(level, self.std, self.law, integer=self.values.dtype.kind == "i")
        exact = np.asarray(self.values, dtype=np.float64)
        return exact - width, exact + width
