"""How large the error of a release is, as a convex function of the epsilon it gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError

Reals = NDArray[np.float64]

LARGEST_GEOMETRIC = 300.0
"""Beyond it the geometric error is below 1e-130, and its curvature no longer tells budgets apart."""


class ErrorFunction(Protocol):
    """A convex, falling error, bin by bin of an array of epsilons, with its first two derivatives."""

    def value(self, epsilon: Reals) -> Reals: ...
    def slope(self, epsilon: Reals) -> Reals: ...
    def curvature(self, epsilon: Reals) -> Reals: ...


@dataclass(frozen=True, slots=True)
class PowerError:
    """``scale`` / ε^``power``.

    Power 2 and scale 2 is the variance of Laplace noise; power 1 its mean absolute error, or the variance of Gaussian
    noise whose μ² is shared out like ε.

    >>> PowerError().value(np.array([0.5, 1.0])).tolist()
    [8.0, 2.0]
    """

    power: float = 2
    scale: float = 2

    def __post_init__(self) -> None:
        for name in ("power", "scale"):
            if not 0 < getattr(self, name) < np.inf:
                raise InvalidInputError(
                    name=name, of="PowerError", value=getattr(self, name), limit="above 0 is needed"
                )

    def value(self, epsilon: Reals) -> Reals:
        return self.scale * epsilon**-self.power

    def slope(self, epsilon: Reals) -> Reals:
        return -self.power * self.scale * epsilon ** -(self.power + 1)

    def curvature(self, epsilon: Reals) -> Reals:
        return self.power * (self.power + 1) * self.scale * epsilon ** -(self.power + 2)


@dataclass(frozen=True, slots=True)
class GeometricError:
    """Variance 1/(2 sinh²(ε/2)) of discrete Laplace noise: below 2/ε², and far below for ε above 2.

    >>> GeometricError().value(np.array([0.1, 4.0])).round(3).tolist()
    [199.833, 0.038]
    """

    def value(self, epsilon: Reals) -> Reals:
        value: Reals = 0.5 / np.sinh(_half(epsilon)) ** 2
        return value

    def slope(self, epsilon: Reals) -> Reals:
        half = _half(epsilon)
        slope: Reals = -0.5 * np.cosh(half) / np.sinh(half) ** 3
        return slope

    def curvature(self, epsilon: Reals) -> Reals:
        half = _half(epsilon)
        curvature: Reals = 0.25 * (2 * np.cosh(half) ** 2 + 1) / np.sinh(half) ** 4
        return curvature


def _half(epsilon: Reals) -> Reals:
    if epsilon.max(initial=0) > LARGEST_GEOMETRIC:
        raise InvalidInputError(f"epsilon {epsilon.max():.4g} for GeometricError: at most {LARGEST_GEOMETRIC:g}")
    return epsilon / 2


class StepErrors:
    """A function of its own for each of the ``kept`` steps."""

    def __init__(self, functions: Sequence[ErrorFunction], selected: NDArray[np.int64]) -> None:
        self._steps: dict[int, list[int]] = {}
        self._functions: dict[int, ErrorFunction] = {}
        for step, original in enumerate(selected):
            function = functions[int(original)]
            self._steps.setdefault(id(function), []).append(step)
            self._functions[id(function)] = function

    def value(self, epsilon: Reals) -> Reals:
        return self._each(epsilon, "value")

    def slope(self, epsilon: Reals) -> Reals:
        return self._each(epsilon, "slope")

    def curvature(self, epsilon: Reals) -> Reals:
        return self._each(epsilon, "curvature")

    def _each(self, epsilon: Reals, name: str) -> Reals:
        result = np.empty_like(epsilon)
        for key, steps in self._steps.items():
            result[steps] = getattr(self._functions[key], name)(epsilon[steps])
        return result
