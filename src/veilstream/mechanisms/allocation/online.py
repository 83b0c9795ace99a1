"""Budgets for weights that become known one step at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.allocation.bounds import log_up, whole_root
from veilstream.mechanisms.allocation.schedule import in_units, whole_window
from veilstream.privacy.rationals import GRID, Exact, rational

ROOT_BITS = 32
"""Roots of weights are whole numbers up to 2³², relative to the largest weight: window sums then fit 63 bits."""
EAGERNESS = Fraction(3, 2)


@dataclass(frozen=True, slots=True, eq=False)
class OnlineState:
    """What the next budget depends on: the last window − 1 steps, oldest first."""

    roots: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    shares: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class OnlineRule:
    """A budget for each step from the weights so far, with every window of ``window`` steps within ``epsilon``.

    Let a = w^(1/(p+1)) for an error ∝ ε^−p (p = ``power``; 2 for the variance of Laplace noise), Aᵢ the sum of a over
    the ``window`` = δ steps that end at i, and L = 1 + ln(1 + (δ−1)·a_max/a_min), where ``bounds`` are public limits of
    the weights above 0. A part ``steady`` of epsilon follows the steady rule, the rest shares out what remains:

        εᵢ = steady·ε·aᵢ/(Aᵢ·L)  +  c/(1+c) · [(1−steady)·ε − what this part spent in the last δ−1 steps],
        c = (3/2)·aᵢ/(Aᵢ + m·√(a_min·a_max)),  m = δ − (steps in Aᵢ): a guess for steps before the first.

    *Feasible.* In the window of steps 1..δ let Bᵢ = a₁ + ... + aᵢ over its steps with weight above 0. Aᵢ ≥ Bᵢ as the
    trailing window of i holds them all, so Σaᵢ/Aᵢ ≤ Σaᵢ/Bᵢ = 1 + Σ_{i>1}(1 − B_{i−1}/Bᵢ) ≤ 1 + ln(B_δ/B₁) ≤ L,
    by 1 − 1/x ≤ ln x and B_δ/a₁ ≤ 1 + (δ−1)·a_max/a_min. The second part never spends more than remains. Both are
    computed in whole multiples of 2⁻³⁰ and rounded down, L is rounded up: no float takes part.

    *Competitive.* With steady = 1 the cost Σwᵢεᵢ^−p is (L/ε)^p·Σaᵢ·Aᵢ^p. Cut time into blocks of δ steps with sums
    S_b: by Hölder every schedule costs at least ΣS_b^{p+1}/ε^p, and Aᵢ ≤ S_{b−1} + S_b for i in block b. So the rule
    costs at most (L/ε)^p Σ_b S_b(S_{b−1}+S_b)^p ≤ (2L)^p·ΣS_b^{p+1}/ε^p: at most (2L)^p times the optimum, 4L² for
    p = 2, and (2L/steady)^p with a part of the budget. On ordinary weights less of ``steady`` costs less, but with 0
    weights that keep growing leave nothing for the largest (docs/benchmarks/allocation.md).

    >>> rule = OnlineRule(Fraction(1), window=3, bounds=(1, 8))
    >>> state, spent = OnlineState(), []
    >>> for weight in [1, 8, 0, 1, 1, 8]:
    ...     state, epsilon = rule.next(state, weight)
    ...     spent.append(epsilon)
    >>> [round(float(e), 3) for e in spent]
    [0.332, 0.273, 0.0, 0.182, 0.259, 0.189]

    Fang and Chang: Differential privacy with δ-neighbourhood for spatial and dynamic datasets, ASIACCS 2014, names the
    online problem (section 7); the rule and its proofs are given here.
    """

    epsilon: Fraction
    window: int
    bounds: tuple[Exact, Exact] = (1, 1)
    power: int = 2
    steady: Fraction = Fraction(1, 2)
    _lowest: int = field(init=False, repr=False)
    _slowness: Fraction = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole_window(self.window)
        if not self.epsilon > 0:
            raise InvalidBudgetError(name="epsilon", value=self.epsilon, limit="above 0 is needed")
        if type(self.power) is not int or not 1 <= self.power <= 8:
            raise InvalidInputError(name="power", value=self.power, limit="a whole number from 1 to 8 is needed")
        if not 0 <= self.steady <= 1:
            raise InvalidInputError(name="steady", value=self.steady, limit="between 0 and 1 is needed")
        low, high = (rational(bound, "bounds") for bound in self.bounds)
        if not 0 < low <= high or self._root(low, high) < 1:
            raise InvalidInputError(
                f"bounds {low} and {high} of the weights: above 0, rising and less than 2^{self._bits} apart are needed"
            )
        object.__setattr__(self, "bounds", (low, high))
        object.__setattr__(self, "_lowest", self._root(low, high))
        spread = Fraction((self.window - 1) << ROOT_BITS, self._lowest)
        object.__setattr__(self, "_slowness", 1 + log_up(1 + spread))

    @property
    def slowness(self) -> Fraction:
        """L, rounded up."""
        return self._slowness

    def next(self, state: OnlineState, weight: Exact) -> tuple[OnlineState, Fraction]:
        """The state after a step of ``weight``, and its budget; weight 0 gets none."""
        root = self._checked_root(rational(weight, "weight"))
        steady, share = self._units(state, root) if root else (0, 0)
        keep = self.window - 1
        later = OnlineState(_push(state.roots, root, keep), _push(state.shares, share, keep))
        return later, Fraction(steady + share, GRID)

    def _units(self, state: OnlineState, root: int) -> tuple[int, int]:
        whole = in_units(self.epsilon)
        safe = whole * self.steady.numerator // self.steady.denominator
        trailing = root + int(state.roots.sum())
        steady = safe * root * self._slowness.denominator // (trailing * self._slowness.numerator)
        missing = self.window - 1 - state.roots.size
        typical = whole_root(self._lowest << ROOT_BITS, 2)
        eager = EAGERNESS.numerator * root
        around = EAGERNESS.denominator * (trailing + missing * typical)
        remains = whole - safe - int(state.shares.sum())
        return steady, remains * eager // (eager + around)

    def _checked_root(self, weight: Fraction) -> int:
        low, high = (rational(bound, "bounds") for bound in self.bounds)
        if weight and not low <= weight <= high:
            raise InvalidInputError(name="weight", value=weight, limit=f"outside its public bounds {low} to {high}")
        return self._root(weight, high) if weight else 0

    def _root(self, weight: Fraction, high: Fraction) -> int:
        relative = weight / high
        return whole_root((relative.numerator << self._bits) // relative.denominator, self.power + 1)

    @property
    def _bits(self) -> int:
        return ROOT_BITS * (self.power + 1)


def _push(values: NDArray[np.int64], value: int, keep: int) -> NDArray[np.int64]:
    grown = np.append(values, np.int64(value))
    return grown[max(0, grown.size - keep) :]
