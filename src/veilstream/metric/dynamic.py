"""Neighbours in time: sequences that differ within δ successive steps, which a window guarantee covers as it is."""

from __future__ import annotations

from fractions import Fraction

from veilstream.errors import InvalidBudgetError
from veilstream.privacy.guarantee import Guarantee


def cost_of_stay(guarantee: Guarantee, steps: int) -> Fraction:
    """What everything that a person contributes within ``steps`` successive timestamps costs.

    Two sequences of contributions are d apart if all their differences lie within d successive steps; the empty
    sequence is the source. Neighbours at most δ apart are those of ``Guarantee(w=δ)``, and Theorem 2 of the paper (the
    budgets of any δ successive steps add up to ε) is what its accountant enforces. A stay of n steps is ⌈n/δ⌉ windows
    that end one after the other, each of which costs ε; a user-level guarantee covers any stay at once.

    The paper's examples: visitors who leave within 14 days pay ε and those who stay for 28 days 2ε.

    >>> flu = Guarantee("1/2", w=14)
    >>> cost_of_stay(flu, 14), cost_of_stay(flu, 28), cost_of_stay(flu, 15)
    (Fraction(1, 2), Fraction(1, 1), Fraction(1, 1))

    Fang, Chang: Differential privacy with δ-neighbourhood for spatial and dynamic datasets, ASIACCS 2014, sections
    6.1, 6.2 and 6.5. Corrected: the distance counts both ends, i_t − i_s + 1.
    """
    if type(steps) is not int or steps < 0:
        raise InvalidBudgetError(name="steps", value=steps, limit="a whole number from 0")
    if guarantee.w is None:
        return guarantee.epsilon if steps else Fraction(0)
    return -(-steps // guarantee.w) * guarantee.epsilon
