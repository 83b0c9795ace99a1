"""Minimise a separable convex error under window constraints: a primal-dual barrier method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import VeilstreamError
from veilstream.mechanisms.allocation.errors_of_budget import ErrorFunction
from veilstream.mechanisms.allocation.windows import Windows

Reals = NDArray[np.float64]

MOST_STEPS = 200
TO_THE_BOUNDARY = 0.99
STALLED = 30


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """Budgets with every window below the limit, the multipliers of the windows, and a proved lower bound.

    For any multipliers λ ≥ 0 and any feasible z, F(z) ≥ F(z) + λ·(Az − limit) ≥ L(x) + ∇L(x)·(z − x) by convexity of
    the Lagrangian L; every z lies in [0, limit], so the least value of the right side over that box bounds the
    optimum from below. ``lower`` is that number: a small gap is a certificate that does not trust the solver.
    """

    budgets: Reals
    multipliers: Reals
    cost: float
    lower: float


def minimise(
    weights: Reals, error: ErrorFunction, windows: Windows, limit: float, start: Reals, tolerance: float = 1e-9
) -> Optimum:
    """Minimise Σ weights·error(x) under A x ≤ ``limit``, from a strictly feasible ``start``.

    Newton steps on the perturbed optimality conditions
    F'(x) + Aᵀλ = 0,  s = limit − A x,  λ·s = μ
    with μ falling. Each step solves one system with A (F'')⁻¹ Aᵀ + diag(s/λ) for the change of λ and is shortened until
    x, s and λ stay positive and the residual falls, as in Boyd and Vandenberghe, Convex Optimization, section 11.7.
    """
    scale = float(weights @ error.value(start))
    weights = weights / scale

    x, slack = start.copy(), limit - windows.sums(start)
    duals = _first_multipliers(weights, error, windows, x, slack)
    shrink, best = 0.2, Optimum(x, duals, 1.0, -np.inf)
    idle = 0
    for _ in range(MOST_STEPS):
        target = shrink * float(duals @ slack) / windows.count
        gradient = weights * error.slope(x) + windows.gather(duals)
        flexibility = 1 / (weights * error.curvature(x))
        right = target / duals - slack - windows.sums(flexibility * gradient)
        dual_step = windows.solve(flexibility, slack / duals, right)
        step = -flexibility * (gradient + windows.gather(dual_step))
        moved = windows.sums(step)
        before = _residual(gradient * x, duals * slack - target)
        length = min(_room(x, step), _room(slack, -moved), _room(duals, dual_step), 1.0)
        while True:
            trial, trial_slack = x + length * step, slack - length * moved
            trial_duals = duals + length * dual_step
            bend = weights * error.slope(trial) + windows.gather(trial_duals)
            after = _residual(bend * trial, trial_duals * trial_slack - target)
            if after <= (1 - 0.01 * length) * before or length < 1e-6:
                break
            length /= 2
        x, duals = trial, trial_duals
        slack = np.maximum(limit - windows.sums(x), trial_slack * 1e-3)
        shrink = 0.05 if length > 0.9 else 0.2 if length > 0.3 else 0.6
        now = _certified(weights, error, windows, limit, x, duals)
        idle = 0 if now.lower > best.lower or now.cost < best.cost else idle + 1
        if now.cost - now.lower < best.cost - best.lower:
            best = now
        if best.cost - best.lower <= tolerance * best.cost or idle >= STALLED:
            break
    if not best.cost - best.lower <= 1e-2 * best.cost:
        raise VeilstreamError(
            f"schedule of {x.size} budgets: the solver's gap is {best.cost / max(best.lower, 1e-300) - 1:.1e} after "
            f"{MOST_STEPS} steps, at most 1e-2 is accepted"
        )
    return Optimum(best.budgets, best.multipliers * scale, best.cost * scale, best.lower * scale)


def _first_multipliers(weights: Reals, error: ErrorFunction, windows: Windows, x: Reals, slack: Reals) -> Reals:
    """Multipliers ∝ 1/slack (on the central path's shape) that balance the gradient in the mean."""
    shape = 1 / slack
    pull = -float((weights * error.slope(x)) @ x)
    return shape * (pull / float(windows.gather(shape) @ x))


def _residual(dual: Reals, central: Reals) -> float:
    return float(np.sqrt(dual @ dual + central @ central))


def _room(position: Reals, step: Reals) -> float:
    """How far along ``step`` the position stays positive, with a little left."""
    falling = step < 0
    if not falling.any():
        return np.inf
    return TO_THE_BOUNDARY * float((position[falling] / -step[falling]).min())


def _certified(weights: Reals, error: ErrorFunction, windows: Windows, limit: float, x: Reals, duals: Reals) -> Optimum:
    cost = float(weights @ error.value(x))
    gradient = weights * error.slope(x) + windows.gather(duals)
    lagrangian = cost + float(duals @ (windows.sums(x) - limit))
    drop = float(np.maximum(gradient * x, -gradient * (limit - x)).sum())
    return Optimum(x, duals, cost, lagrangian - drop)
