"""The best budgets for weights that are all known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.allocation.errors_of_budget import ErrorFunction, PowerError, StepErrors
from veilstream.mechanisms.allocation.newton import Optimum, minimise
from veilstream.mechanisms.allocation.schedule import Schedule, clip, clip_cycle, exact_weights, in_units, whole_window
from veilstream.mechanisms.allocation.windows import Windows, cyclic, sliding
from veilstream.privacy.rationals import GRID, Exact, rational

LONGEST_CYCLE = 2000


def optimal_schedule(
    weights: Sequence[Exact],
    epsilon: Exact,
    window: int,
    *,
    error: ErrorFunction | Sequence[ErrorFunction] | None = None,
    repeat: bool = False,
) -> Schedule:
    """Budgets that minimise Σ wᵢ·Err(εᵢ) while every ``window`` successive ones stay within ``epsilon``.

    The problem is convex. Its optimum makes wᵢ·Err'(εᵢ) = −Σ of the multipliers of the windows that hold i; for the
    default error 2/ε² that is εᵢ = (4wᵢ/Σλ)^(1/3). With one window (n ≤ δ), or weights that repeat with the window over
    whole windows, this is the closed form εᵢ = ε·aᵢ/Σa, a = w^(1/3). Otherwise Newton's method finds it, at a cost of
    n·min(δ, n−δ)² a step. Windows at the ends count too: {1..δ}, and all steps together if there are fewer than δ.

    ``error`` is one function for all steps or one for each. ``repeat`` plans one period of weights that go on for ever.
    The solution is rounded down to multiples of 2⁻³⁰ and checked window by window in whole numbers.

    >>> s = optimal_schedule([1, 1, 8, 1, 1, 8], epsilon=1, window=3)
    >>> [round(float(e), 4) for e in s.budgets], s.fullest <= 1, s.gap < 1e-6
    ([0.25, 0.25, 0.5, 0.25, 0.25, 0.5], True, True)

    Fang and Chang: Differential privacy with δ-neighbourhood for spatial and dynamic datasets, ASIACCS 2014, problem 1.
    Corrected: the printed windows begin at k = 1 and so leave out the first, {1..δ}, which theorem 2 needs.
    """
    exact = exact_weights(weights)
    budget, delta = _budget(epsilon), whole_window(window)
    if repeat and len(exact) > LONGEST_CYCLE:
        raise InvalidInputError(f"weights that repeat after {len(exact)} steps: at most {LONGEST_CYCLE} can be planned")
    positions = np.flatnonzero([weight > 0 for weight in exact]).astype(np.int64)
    numbers = np.array([float(exact[i]) for i in positions])
    function = _function(error, positions, len(exact))
    windows = cyclic(positions, len(exact), delta) if repeat else sliding(positions, len(exact), delta)
    solution = solve(numbers, function, windows, float(budget))
    units = np.zeros(len(exact), dtype=np.int64)
    units[positions] = np.floor(solution.budgets * GRID).astype(np.int64)
    place = clip_cycle if repeat else clip
    padded = place([int(unit) for unit in units], in_units(budget), delta)
    smallest = min(padded[i] for i in positions)
    if smallest < 1:
        raise InvalidBudgetError(
            f"epsilon {budget} over a window of {delta}: a step with weight above 0 would get less than 2^-30"
        )
    rounded = np.array([padded[i] for i in positions]) / GRID
    cost = float(numbers @ function.value(rounded))
    return Schedule(tuple(Fraction(unit, GRID) for unit in padded), budget, delta, repeat, cost, solution.lower)


def solve(weights: NDArray[np.float64], error: ErrorFunction, windows: Windows, limit: float) -> Optimum:
    """The optimum before rounding, for weights above 0.

    It starts near εᵢ ∝ aᵢ/(fullest window that holds i), scaled to be feasible: a good guess, because it is the optimum
    where weights repeat within a window.
    """
    a = np.cbrt(weights / weights.max())
    sums = windows.sums(a)
    # A power mean of the sums of a step's windows stands for the largest; the floor drowns what cancels in gather.
    crowded = np.maximum(windows.gather((sums / sums.max()) ** 4), 1e-8) ** 0.25
    start = a / crowded
    start *= 0.9 * limit / float(windows.sums(start).max())
    return minimise(weights, error, windows, limit, start)


def _budget(epsilon: Exact) -> Fraction:
    budget = rational(epsilon, "epsilon", InvalidBudgetError)
    if not budget > 0:
        raise InvalidBudgetError(name="epsilon", value=budget, limit="above 0 is needed")
    return budget


def _function(
    error: ErrorFunction | Sequence[ErrorFunction] | None, positions: NDArray[np.int64], steps: int
) -> ErrorFunction:
    if error is None:
        return PowerError()
    if not isinstance(error, Sequence):
        return error
    if len(error) != steps:
        raise InvalidInputError(f"{len(error)} error functions for {steps} weights: one for each")
    return StepErrors(error, positions)
