"""What numbers mean, in words."""

from __future__ import annotations

import math
from fractions import Fraction

from veilstream.privacy.guarantee import Guarantee


def number(value: Fraction | float) -> str:
    """A short decimal: four digits, or the whole part of what is larger.

    >>> number(Fraction(1, 24)), number(Fraction(1, 4)), number(73.54), number(97_580.3)
    ('0.04167', '0.25', '73.54', '97,580')
    """
    exact = float(value)
    return f"{exact:,.0f}" if 1e4 <= abs(exact) < 1e15 else f"{exact:,.4g}"


def plural(count: int, noun: str) -> str:
    """A count and what is counted.

    >>> plural(1, "bin"), plural(3_600, "box")
    ('1 bin', '3,600 boxes')
    """
    ending = "" if count == 1 else "es" if noun.endswith("x") else "s"
    return f"{count:,} {noun}{ending}"


def promise(guarantee: Guarantee, every: str | int | None = None) -> str:
    """What the guarantee says to one of the people in the data.

    >>> print(promise(Guarantee(1, w=24), "1h"))
    Whatever one person did within any 24 successive steps (24 x 1h) changes the probability of any published result by
    a factor of at most e^1 = 2.718. What lies further apart is protected window by window, not all together.
    """
    match guarantee.w:
        case None if guarantee.per is not None:
            who = f"Whatever one person did within one block of {guarantee.per}"
            after = " What one person does in several blocks is protected block by block, not all together."
        case None:
            who, after = "Whatever one person ever did in this stream", ""
        case 1:
            who = "Whatever one person did within one step"
            after = " What one person does over many steps is protected step by step, not all together."
        case w:
            length = f" ({w} x {every})" if isinstance(every, str) else ""
            who = f"Whatever one person did within any {w} successive steps{length}"
            after = " What lies further apart is protected window by window, not all together."
    factor = f"a factor of at most e^{number(guarantee.epsilon)} = {_factor(guarantee.epsilon)}"
    slack = f", except with a probability of about {number(guarantee.delta)}" if guarantee.delta else ""
    if guarantee.presence is not None:
        after += f" For this a person counts in at most {guarantee.presence} of the steps in which they come."
    return f"{who} changes the probability of any published result by {factor}{slack}.{after}"


def _factor(epsilon: Fraction) -> str:
    return "infinity for all practical purposes" if epsilon > 100 else f"{math.exp(float(epsilon)):.4g}"
