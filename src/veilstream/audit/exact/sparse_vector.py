"""The exact probability of a block's answers: a sum over its secret noise in closed form.

Given the secret ρ the answers are independent, and each of their chances is c·q^{±(ρ−g)} or 1 − c·q^{±(ρ−g)} on either
side of g. Between two successive values of g (and 0, where the law of ρ bends) the product is a sum of exponentials in
ρ, and the sum over all whole ρ there is one of geometric series. No tail is cut off. Every factor of the form 1 − c·q^…
lies between 1/3 and 1, so that for at most six comparisons cancellation costs less than six digits of the sixteen.
"""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


def log_chance(gaps: NDArray[np.int64], answers: NDArray[np.bool_], scale_rho: float, scale_nu: float) -> Floats:
    """ln P(answers) for every row of ``gaps``: answer i is whether gaps[i] + ν_i ≥ ρ, on one grid of whole numbers.

    >>> one = log_chance(np.array([[0], [3]]), np.array([True]), 2.0, 2.0)
    >>> two = log_chance(np.array([[0], [3]]), np.array([False]), 2.0, 2.0)
    >>> np.allclose(np.exp(one) + np.exp(two), 1, atol=1e-14)
    True
    """
    distinct, inverse = np.unique(gaps, axis=0, return_inverse=True)
    chances = _chance(distinct.astype(np.float64), answers, scale_rho, scale_nu)
    return np.log(chances)[inverse.reshape(-1)]


def _chance(gaps: Floats, answers: NDArray[np.bool_], scale_rho: float, scale_nu: float) -> Floats:
    rows = len(gaps)
    edges = np.sort(np.concatenate([gaps, np.zeros((rows, 1))], axis=1), axis=1)
    ends = [np.full(rows, -np.inf), *edges.T, np.full(rows, np.inf)]
    total = np.zeros(rows)
    for low, high in pairwise(ends):
        total += _segment(low, high, gaps, answers, scale_rho, scale_nu)
    return total


def _segment(
    low: Floats, high: Floats, gaps: Floats, answers: NDArray[np.bool_], scale_rho: float, scale_nu: float
) -> Floats:
    """The part of the sum with low < ρ ≤ high, where every factor has one form."""
    half = 1 / (1 + math.exp(-1 / scale_nu))
    weight = math.tanh(1 / (2 * scale_rho))
    after = high[:, None] > gaps
    # On this side ρ > g: q^(ρ-g); on the other ρ ≤ g: q^(1-ρ+g). As e^(slope·ρ + shift).
    slope = np.where(after, -1.0, 1.0) / scale_nu
    shift = np.where(after, gaps, -gaps - 1) / scale_nu
    simple = answers[None, :] == after
    rho_slope = np.where(high > 0, -1.0, 1.0) / scale_rho
    # Every product of factors as a sum over which of them give their exponential and which their 1, if they have one.
    picked = np.array(list(product((False, True), repeat=gaps.shape[1])))
    factors = np.where(simple[:, None, :], np.where(picked, half, 0.0), np.where(picked, -half, 1.0)).prod(axis=2)
    rates = rho_slope[:, None] + slope @ picked.T
    series = _geometric(low[:, None], high[:, None], rates, shift @ picked.T)
    return np.asarray(weight * (factors * series).sum(axis=1))


def _geometric(low: Floats, high: Floats, rate: Floats, start: Floats) -> Floats:
    """Σ e^(rate·ρ + start) over whole ρ with low < ρ ≤ high; an infinite end is one towards which it falls."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        upward = np.where(np.isinf(high), np.exp(rate * (low + 1) + start) / -np.expm1(rate), 0.0)
        downward = np.where(np.isinf(low), np.exp(rate * high + start) / -np.expm1(-rate), 0.0)
        steps = high - low
        ratio = np.where(rate == 0, steps, np.expm1(rate * steps) / np.expm1(rate))
        inside = np.exp(rate * (low + 1) + start) * ratio
    finite = np.isfinite(low) & np.isfinite(high)
    return np.where(finite, np.where(steps > 0, inside, 0.0), np.where(np.isinf(high), upward, downward))
