"""Running totals from a binary tree of noisy sums, refined from below: for guarantees without delta.

Every dyadic block of steps is measured once when it is complete. Its estimate joins its own noisy sum and the sum of
its halves' estimates by the inverse of their variances (Honaker 2015), and a total adds up the blocks of the binary
digits of the step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np

from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import round_down
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw, Values

FIRST_BLOCK: Final = 64
"""Steps of the first tree of a stream without end; each tree has twice as many as the one before."""
FAR: Final = 1 << 20
"""Steps for which a stream without end is planned where a unit may lie in two trees."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeState:
    """The complete blocks of the present tree, one for each binary digit of ``steps`` that is 1, and what went before.

    ``exact`` are their sealed sums, ``estimates`` and ``variances`` what was released of them.
    """

    steps: int = 0
    length: int = 0
    exact: list[Sealed | None] = field(default_factory=list[Sealed | None])
    estimates: list[Any] = field(default_factory=list[Any])
    variances: list[float] = field(default_factory=list[float])
    before: Any = None
    before_variance: float = 0.0
    last: Any = None


def level_budgets(guarantee: Guarantee, length: int) -> list[Fraction]:
    """For each level what one noisy sum costs: within ε for all that one unit can touch, and least variance in sum.

    A unit touches at most ⌈(w−1)/2^j⌉ + 1 blocks of 2^j in w successive steps, no more than it has steps, and moves
    each by as many counts as it has steps in it.

    >>> [str(epsilon) for epsilon in level_budgets(Guarantee(1, w=1), 4)]
    ['357913941/1073741824', '357913941/1073741824', '357913941/1073741824']
    """
    reach = guarantee.reach
    assert reach is not None
    levels = range(length.bit_length())
    touched = [min(reach, -(-(reach - 1) // (1 << j)) + 1) for j in levels]
    moved = [guarantee.steps_at_once(1 << j) for j in levels]
    shape = [Fraction((m * m / n) ** (1 / 3)) for m, n in zip(moved, touched, strict=True)]
    total = sum((n * s for n, s in zip(touched, shape, strict=True)), Fraction(0))
    return [round_down(guarantee.pure * s / total) for s in shape]


def tree_length(guarantee: Guarantee, horizon: int | None, before: int) -> int:
    """How many steps the tree has that begins after one of ``before`` steps (0 for the first)."""
    if horizon is not None:
        return 1 << max(0, (horizon - 1).bit_length())
    if guarantee.reach != 1:
        return FAR
    return 2 * before if before else FIRST_BLOCK


def next_node(state: TreeState, now: Sealed, horizon: int | None, meter: Meter) -> tuple[TreeState, Values]:
    """The total with the blocks that are complete with the present step."""
    length = state.length or tree_length(meter.guarantee, horizon, 0)
    budgets = level_budgets(meter.guarantee, length if horizon is None else horizon)
    exact, estimates, variances = list(state.exact), list(state.estimates), list(state.variances)
    position = state.steps
    block = now
    noisy = meter.laplace(block, budgets[0], "total")
    estimate, variance = noisy.numbers.astype(np.float64), float(noisy.std) ** 2
    level = 0
    while position >> level & 1:
        earlier = exact[level]
        assert earlier is not None
        block = earlier + block
        estimate, variance = estimates[level] + estimate, variances[level] + variance
        exact[level], estimates[level], variances[level] = None, np.zeros(0), 0.0
        level += 1
        if level < len(budgets):
            noisy = meter.laplace(block, budgets[level], "total")
            own = float(noisy.std) ** 2
            share = variance / (own + variance)
            estimate, variance = (1 - share) * estimate + share * noisy.numbers, own * variance / (own + variance)
    for _ in range(len(exact), level + 1):
        exact.append(None)
        estimates.append(np.zeros(0))
        variances.append(0.0)
    exact[level], estimates[level], variances[level] = block, estimate, variance
    total, spread = state.before, state.before_variance
    for held, part, own in zip(exact, estimates, variances, strict=True):
        if held is not None:
            total, spread = part if total is None else total + part, spread + own
    values = Values(total, math.sqrt(spread), NoiseLaw.MIXED)
    if position + 1 == length and horizon is None:
        longer = tree_length(meter.guarantee, horizon, length)
        return TreeState(0, longer, before=total, before_variance=spread, last=total), values
    carried = (state.before, state.before_variance)
    return TreeState(position + 1, length, exact, estimates, variances, *carried, last=total), values
