"""Public post-processing, free of privacy cost: non-negative, whole, with a given total."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from veilstream.errors import InvalidInputError
from veilstream.values.projection import onto_simplex
from veilstream.values.values import NoiseLaw, Numbers, Values


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
            raise InvalidInputError(name="total", value=self.total, limit="a whole number from 0 upwards")

    def apply(self, values: Values, noisy: Values) -> Values:
        total = noisy.numbers.sum(axis=-1, keepdims=True) if self.total is None else float(self.total)
        projected = onto_simplex(values.numbers.astype(np.float64), total)
        return replace(values, numbers=projected, law=NoiseLaw.MIXED)


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
        return replace(values, numbers=whole, std=float(std) if std.ndim == 0 else std, law=NoiseLaw.MIXED)


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
