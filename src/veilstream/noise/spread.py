"""How wide the Laplace noise is that a charge buys."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

from veilstream.errors import InvalidBudgetError
from veilstream.noise.scale import LARGEST_SCALE, SMALLEST_SCALE

FAR_ABOVE: Final = LARGEST_SCALE**20
"""Where floating point ends nearly."""


def bounded_scale(scale: Fraction, purpose: str) -> Fraction:
    """``scale``, raised to the smallest that can be drawn; refused above the largest."""
    if scale > LARGEST_SCALE:
        raise InvalidBudgetError(
            name="noise for",
            value=purpose,
            limit=f"scale {float(min(scale, FAR_ABOVE)):.3g} is above {float(LARGEST_SCALE):.0e}: the epsilon is too "
            "small for this many releases",
        )
    return max(scale, SMALLEST_SCALE)


@lru_cache(maxsize=1024)
def laplace_law(sensitivity: Fraction, grid: int, epsilon: Fraction, purpose: str) -> tuple[Fraction, float]:
    """Scale in steps of the grid 2^-grid, and the standard deviation there."""
    scale = bounded_scale(sensitivity * (1 << grid) / epsilon, purpose)
    return scale, laplace_std(float(scale))


def laplace_std(scale: float) -> float:
    """Standard deviation of discrete Laplace noise: 1/(√2 sinh(1/(2·scale)))."""
    half = 1 / (2 * scale)
    return 0.0 if half > 700 else 1 / (math.sqrt(2) * math.sinh(half))
