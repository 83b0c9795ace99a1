"""Public post-processing, free of privacy cost: non-negative, whole, with a given total.

Wrap a histogram or a whole stream; what a mechanism keeps for itself stays as it was, only what it publishes changes.

>>> import numpy as np
>>> from veilstream import Guarantee, simulate
>>> from veilstream.histograms import Geometric
>>> from veilstream.streams import Sample
>>> tidy = PostProcessed(Geometric(), (ConsistentTotal(1000), Whole()))
>>> y = simulate(Sample(tidy), Guarantee("1/10", w=1), np.full((1, 50), 20), seed=1)
>>> float(y.min()) >= 0, float(y.sum())
(True, 1000.0)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from veilstream.errors import InvalidInput
from veilstream.guarantee import Guarantee
from veilstream.mechanism import HistogramMechanism, StreamMechanism
from veilstream.meter import Meter
from veilstream.sealed import Sealed
from veilstream.types import Law, Numbers, Values

S = TypeVar("S")


class Step(Protocol):
    """A function of published values alone; ``noisy`` are the values before the first step."""

    def apply(self, values: Values, noisy: Values) -> Values: ...


@dataclass(frozen=True, slots=True)
class NonNegative:
    """Negative values become 0. Every value moves towards the truth or stays, but sums over many bins grow.

    An interval around a value still holds the truth as often as before, so the noise's description is kept.
    """

    def apply(self, values: Values, noisy: Values) -> Values:
        return replace(values, numbers=np.maximum(values.numbers, 0))


@dataclass(frozen=True, slots=True)
class ConsistentTotal:
    """The nearest non-negative values (least squares) with a given sum.

    ``total`` is public knowledge, such as a census total; by default it is the sum of the noisy values, which is
    unbiased where clipping alone would inflate it. The solution subtracts one number from all values and
    sets what falls below 0 to 0. A negative total counts as 0.
    """

    total: int | None = None

    def __post_init__(self) -> None:
        if self.total is not None and (type(self.total) is not int or self.total < 0):
            raise InvalidInput(f"total {self.total!r}: a whole number from 0 upwards; nothing was released")

    def apply(self, values: Values, noisy: Values) -> Values:
        numbers = values.numbers.astype(np.float64)
        sums = noisy.numbers.sum(axis=-1, keepdims=True) if self.total is None else np.array([float(self.total)])
        total = np.maximum(sums, 0.0)
        ordered = -np.sort(-numbers, axis=-1)
        places = np.arange(1, int(numbers.shape[-1]) + 1)
        excess = (np.cumsum(ordered, axis=-1) - total) / places
        last = (ordered > excess).sum(axis=-1, keepdims=True)
        taken = np.take_along_axis(excess, np.maximum(last, 1) - 1, axis=-1)
        projected = np.where(total > 0, np.maximum(numbers - taken, 0.0), 0.0)
        return replace(values, numbers=projected, law=Law.MIXED)


@dataclass(frozen=True, slots=True)
class Whole:
    """Whole numbers that keep the sum (rounded): all are rounded down, and the largest remainders up.

    Adds an error below 1 to each value.
    """

    def apply(self, values: Values, noisy: Values) -> Values:
        if values.numbers.dtype.kind == "i":
            return values
        numbers: Any = values.numbers
        floor = np.floor(numbers)
        missing = np.rint((numbers - floor).sum(axis=-1, keepdims=True))
        rank = np.argsort(np.argsort(floor - numbers, axis=-1, kind="stable"), axis=-1, kind="stable")
        whole: Numbers = (floor + (rank < missing)).astype(np.int64)
        std = np.sqrt(np.square(values.std) + 0.25)
        return replace(values, numbers=whole, std=float(std) if std.ndim == 0 else std, law=Law.MIXED)


def post_process(values: Values, steps: tuple[Step, ...]) -> Values:
    """``values`` after all ``steps``, in order.

    >>> noisy = Values(np.array([-2.0, 3.5, 4.5]), 1.0)
    >>> post_process(noisy, (NonNegative(),)).numbers.tolist()
    [0.0, 3.5, 4.5]
    >>> post_process(noisy, (ConsistentTotal(),)).numbers.tolist()
    [0.0, 2.5, 3.5]
    >>> post_process(noisy, (ConsistentTotal(), Whole())).numbers.tolist()
    [0, 3, 3]
    """
    result = values
    for step in steps:
        result = step.apply(result, values)
    return result


def _default_steps() -> tuple[Step, ...]:
    return (ConsistentTotal(),)


@dataclass(frozen=True, slots=True)
class PostProcessed:
    """A histogram whose published values are post-processed.

    Inside a stream that goes on working with its releases (DSAT, budget absorption) it works with the
    processed ones; to change only what is shown, wrap the stream with :class:`PostProcessedStream`.
    """

    histogram: HistogramMechanism
    steps: tuple[Step, ...] = field(default_factory=_default_steps)

    @property
    def oblivious(self) -> bool:
        return bool(getattr(self.histogram, "oblivious", False))

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        return post_process(self.histogram.estimate(x, epsilon, meter), self.steps)


@dataclass(frozen=True, slots=True)
class PostProcessedStream(Generic[S]):
    """A stream whose published values are post-processed as its last stage; its state sees none of it."""

    stream: StreamMechanism[S]
    steps: tuple[Step, ...] = field(default_factory=_default_steps)

    def start(self, guarantee: Guarantee, bins: int) -> S:
        return self.stream.start(guarantee, bins)

    def step(self, state: S, now: Sealed, meter: Meter) -> tuple[S, Values]:
        state, values = self.stream.step(state, now, meter)
        return state, post_process(values, self.steps)
