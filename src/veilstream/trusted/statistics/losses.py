"""Losses of linear classifiers, with the bounds on slope and curvature that privacy rests on."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError

Floats: TypeAlias = NDArray[np.float64]


class Loss(Protocol):
    """A convex loss of the margin, at most 1 at 0, with slope between −1 and 0 and curvature at most ``curvature``."""

    @property
    def curvature(self) -> Fraction: ...
    def value(self, margin: Floats) -> Floats: ...
    def slope(self, margin: Floats) -> Floats: ...
    def bend(self, margin: Floats) -> Floats: ...


@dataclass(frozen=True, slots=True)
class Logistic:
    """ln(1 + e^−z): slope −1/(1 + e^z), curvature at most 1/4."""

    @property
    def curvature(self) -> Fraction:
        return Fraction(1, 4)

    def value(self, margin: Floats) -> Floats:
        return np.logaddexp(0.0, -margin)

    def slope(self, margin: Floats) -> Floats:
        from scipy.special import expit

        return -np.asarray(expit(-margin), dtype=np.float64)

    def bend(self, margin: Floats) -> Floats:
        likely = -self.slope(margin)
        return likely * (1 - likely)


@dataclass(frozen=True, slots=True)
class HuberHinge:
    """The hinge loss with its corner rounded over 1 ± ``width``: curvature 1/(2·width) there, else 0."""

    width: Fraction = Fraction(1, 2)

    def __post_init__(self) -> None:
        # A sharper corner leaves Newton's method without a minimum that it can certify.
        if not Fraction(1, 10) <= self.width <= 1:
            raise InvalidInputError(f"width {self.width} of the Huber loss: from 1/10 to 1")

    @property
    def curvature(self) -> Fraction:
        return 1 / (2 * self.width)

    def value(self, margin: Floats) -> Floats:
        short = np.clip(1 + float(self.width) - margin, 0.0, 2 * float(self.width))
        return short**2 / (4 * float(self.width)) + np.maximum(1 - float(self.width) - margin, 0.0)

    def slope(self, margin: Floats) -> Floats:
        return np.clip((margin - 1 - float(self.width)) / (2 * float(self.width)), -1.0, 0.0)

    def bend(self, margin: Floats) -> Floats:
        return np.where(np.abs(margin - 1) < float(self.width), float(self.curvature), 0.0)
