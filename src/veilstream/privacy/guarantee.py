"""What a stream promises: epsilon (and delta) for all of one unit's data inside any w successive timestamps."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from fractions import Fraction

from veilstream.errors import InvalidBudgetError
from veilstream.privacy.rationals import GRID, Exact, rational

MAX_EPSILON = 10**6
"""Above this, e^epsilon protects nobody and a typing error is likelier than a wish."""
MAX_WINDOW = 10**9
USUAL_PURE_SHARE = Fraction(1, 10)
"""Of epsilon, for pure charges where there are Gaussian ones too."""


@dataclass(frozen=True, slots=True, init=False)
class Guarantee:
    """All data of one unit inside any ``w`` successive timestamps costs at most ``epsilon``.

    ``w=1`` protects an event (what one person does in one timestamp), an int a window of that many timestamps
    (w-event privacy; also neighbours at most δ timestamps apart with w = δ), ``None`` a whole person for ever.

    With ``delta > 0`` the budget is fixed up front in two parts: ``pure`` = pure_share · epsilon for pure charges,
    which add up, and ``mu_squared`` for Gaussian charges, whose μ² add up. μ is the largest value with

        Φ(μ/2 − ε'/μ) − e^ε' Φ(−μ/2 − ε'/μ) ≤ delta,     ε' = epsilon − pure − 2⁻³⁰,

    rounded down. Both parts may be spent in any order, adaptively: pure losses never pass ``pure``, the Gaussian
    likelihood ratio is a martingale, and the left side is the mean of a convex function of it, so that it is largest
    when all of μ² is spent. The 2⁻³⁰ pays for the noise being discrete (see ``Meter.gaussian``).

    >>> g = Guarantee("0.5", w=24)
    >>> g.epsilon, g.w, g.pure, g.mu_squared
    (Fraction(1, 2), 24, Fraction(1, 2), Fraction(0, 1))
    >>> print(g)
    epsilon 1/2 within any 24 successive steps
    """

    epsilon: Fraction
    w: int | None
    delta: Fraction
    pure_share: Fraction
    mu_squared: Fraction
    pure: Fraction = field(repr=False, compare=False)
    """The part of epsilon that pure charges may use."""

    def __init__(self, epsilon: Exact, w: int | None, delta: Exact = 0, pure_share: Exact | None = None) -> None:
        exact = rational(epsilon, "epsilon", InvalidBudgetError)
        if not 0 < exact <= MAX_EPSILON:
            raise InvalidBudgetError(
                name="epsilon", value=epsilon, limit=f"it must be above 0 and at most {MAX_EPSILON}"
            )
        if w is not None and (type(w) is not int or not 1 <= w <= MAX_WINDOW):
            raise InvalidBudgetError(
                name="window", value=w, limit=f"a whole number from 1 to {MAX_WINDOW}, or None for user level"
            )
        slack = rational(delta, "delta", InvalidBudgetError)
        if not 0 <= slack < 1:
            raise InvalidBudgetError(name="delta", value=delta, limit="it must be at least 0 and below 1")
        default = Fraction(1) if slack == 0 else USUAL_PURE_SHARE
        share = default if pure_share is None else rational(pure_share, "pure_share", InvalidBudgetError)
        if not 0 <= share <= 1 or (slack == 0 and share != 1):
            raise InvalidBudgetError(name="pure_share", value=share, limit="between 0 and 1, and 1 when delta is 0")
        object.__setattr__(self, "epsilon", exact)
        object.__setattr__(self, "w", w)
        object.__setattr__(self, "delta", slack)
        object.__setattr__(self, "pure_share", share)
        object.__setattr__(self, "pure", exact * share)
        object.__setattr__(self, "mu_squared", gaussian_budget(exact * (1 - share), slack))

    def per_timestamp(self) -> Guarantee:
        """What each single timestamp may cost so that ``w`` of them cost no more than ``pure``.

        Streams that differ within w timestamps are w streams apart that differ in one, so whoever promises pure/w for
        one timestamp promises ``pure`` for a window.

        >>> print(Guarantee(1, w=4).per_timestamp())
        epsilon 1/4 for what one person contributes in one step
        """
        if self.w is None:
            raise InvalidBudgetError(f"{self}: there is no end of timestamps to share it")
        return self if self.w == 1 else Guarantee(self.pure / self.w, w=1)

    def steps_at_once(self, steps: int) -> int:
        """How many of ``steps`` successive timestamps one unit may have data in."""
        return steps if self.w is None else min(self.w, steps)

    def to_json(self) -> str:
        """Canonical text, exact."""
        return json.dumps(
            {
                "epsilon": str(self.epsilon),
                "w": self.w,
                "delta": str(self.delta),
                "pure_share": str(self.pure_share),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Guarantee:
        return cls(**json.loads(text))

    def __str__(self) -> str:
        cost = f"epsilon {self.epsilon}" + (f", delta {self.delta}" if self.delta else "")
        match self.w:
            case None:
                return f"{cost} for all that one person ever contributes"
            case 1:
                return f"{cost} for what one person contributes in one step"
            case w:
                return f"{cost} within any {w} successive steps"


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The smallest delta for which one Gaussian charge of ``mu`` is (epsilon, delta)-private."""
    from scipy.special import log_ndtr

    near = float(log_ndtr(mu / 2 - epsilon / mu))
    far = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return -math.exp(near) * math.expm1(far - near)


def gaussian_budget(epsilon: Fraction, delta: Fraction) -> Fraction:
    """μ² that (epsilon, delta) affords, rounded down; 0 when there is none.

    >>> float(gaussian_budget(Fraction(1), Fraction(1, 10**6))) ** 0.5 # doctest: +ELLIPSIS
    0.236...
    """
    usable = float(epsilon - Fraction(1, GRID))
    if delta == 0 or usable <= 0:
        return Fraction(0)
    # One part in a million below delta covers the floating-point error of gaussian_delta many times over.
    target = math.log(float(delta) * (1 - 1e-6))

    def excess(log_mu: float) -> float:
        value = gaussian_delta(usable, math.exp(log_mu))
        return (math.log(value) if value > 0 else -1e9) - target

    from scipy.optimize import brentq

    root = brentq(excess, math.log(1e-9), math.log(1e9), xtol=1e-12)
    mu = math.exp(float(root)) * (1 - 1e-9)
    return Fraction(mu) ** 2
