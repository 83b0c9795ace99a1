"""What a stream promises: epsilon (and delta) for one unit, such as all data of a person in w successive timestamps."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import EllipsisType
from typing import Any

from veilstream.arguments import refuses
from veilstream.documents import read_json
from veilstream.errors import InvalidBudgetError
from veilstream.privacy.presence import Rule, dearest, rule_of
from veilstream.privacy.presence_blocks import Blocks
from veilstream.privacy.rationals import GRID, Exact, rational

MAX_EPSILON = 10**6
"""Above this, e^epsilon protects nobody and a typing error is likelier than a wish."""
MIN_EPSILON = Fraction(1, 10**15)
MIN_DELTA = Fraction(1, 10**100)
"""Less is less than any machine's chance of failing, and cannot be computed with in floating point."""
MAX_WINDOW = 10**9
SHY_OF_DELTA = 1e-6
"""The part of delta that is left over: it covers the floating-point error of ``_delta`` many times."""
SMALL_MU = 1e-3
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

    ``presence=c`` says that the data were bounded over time, so that a person counts in few steps (docs/presence.md):
    with ``w`` at a step before which they were present in fewer than c of the last w−1, with ``w=None`` in c steps for
    ever, and with ``per`` in c steps of each public block, in which the person is then the unit: a number of steps
    or a duration such as "1w".

    >>> g = Guarantee("0.5", w=24)
    >>> g.epsilon, g.w, g.pure, g.mu_squared
    (Fraction(1, 2), 24, Fraction(1, 2), Fraction(0, 1))
    >>> print(g)
    epsilon 1/2 within any 24 successive steps
    >>> print(Guarantee(1, per="1w", presence=2))
    epsilon 1 for what one person contributes in one block of 1w, where a person counts in at most 2 of its steps
    """

    epsilon: Fraction
    w: int | None
    delta: Fraction
    pure_share: Fraction
    mu_squared: Fraction
    pure: Fraction = field(repr=False, compare=False)
    """The part of epsilon that pure charges may use."""
    presence: int | None = None
    """In how many steps a person counts; None if in all."""
    per: Blocks | None = None
    """The blocks in which a person is one unit; None if units are windows or whole people."""

    def __init__(
        self,
        epsilon: Exact,
        w: int | EllipsisType | None = ...,
        delta: Exact = 0,
        pure_share: Exact | None = None,
        *,
        presence: int | None = None,
        per: int | str | Blocks | None = None,
    ) -> None:
        exact = rational(epsilon, "epsilon", InvalidBudgetError)
        if not 0 < exact <= MAX_EPSILON:
            raise InvalidBudgetError(
                name="epsilon", value=epsilon, limit=f"it must be above 0 and at most {MAX_EPSILON}"
            )
        if exact < MIN_EPSILON:
            raise InvalidBudgetError(
                name="epsilon", value=epsilon, limit=f"below {float(MIN_EPSILON):g} there is nothing but noise"
            )
        window = None if per is not None and w is ... else w
        if window is not None and (type(window) is not int or not 1 <= window <= MAX_WINDOW):
            raise InvalidBudgetError(
                name="window",
                value="missing" if window is ... else window,
                limit=f"a whole number from 1 to {MAX_WINDOW}, or None for user level",
            )
        blocks = per if per is None or isinstance(per, Blocks) else Blocks(per)
        _check_presence(presence, window, blocks)
        slack = rational(delta, "delta", InvalidBudgetError)
        if not 0 <= slack < 1:
            raise InvalidBudgetError(name="delta", value=delta, limit="it must be at least 0 and below 1")
        if 0 < slack < MIN_DELTA:
            raise InvalidBudgetError(
                name="delta", value=delta, limit=f"0, or at least {float(MIN_DELTA):g}", next_step="write 0 for none"
            )
        default = Fraction(1) if slack == 0 else USUAL_PURE_SHARE
        share = default if pure_share is None else rational(pure_share, "pure_share", InvalidBudgetError)
        if not 0 <= share <= 1 or (slack == 0 and share != 1):
            raise InvalidBudgetError(name="pure_share", value=share, limit="between 0 and 1, and 1 when delta is 0")
        object.__setattr__(self, "epsilon", exact)
        object.__setattr__(self, "w", window)
        object.__setattr__(self, "presence", presence)
        object.__setattr__(self, "per", blocks)
        object.__setattr__(self, "delta", slack)
        object.__setattr__(self, "pure_share", share)
        object.__setattr__(self, "pure", exact * share)
        object.__setattr__(self, "mu_squared", gaussian_budget(exact * (1 - share), slack))

    @property
    def rule(self) -> Rule | None:
        """Which sets of timestamps one unit can reach, None without ``presence``."""
        return None if self.presence is None else rule_of(self.presence, self.w, self.per)

    @property
    def presence_rule(self) -> str | None:
        """In which steps people count, as text to compare; None if in all.

        >>> Guarantee(1, w=40, presence=3).presence_rule
        '[3, 40, null]'
        """
        per = None if self.per is None else self.per.fields()
        return None if self.presence is None else json.dumps([self.presence, self.w, per])

    @property
    def reach(self) -> int | None:
        """In how many timestamps neighbouring data can differ; None if there is no limit.

        >>> [Guarantee(1, w=40).reach, Guarantee(1, w=40, presence=3).reach, Guarantee(1, w=None, presence=3).reach]
        [40, 6, 3]
        """
        rule = self.rule
        return self.w if rule is None else rule.reach

    @property
    def period(self) -> int | None:
        """How many successive timestamps share one budget, all later ones having a fresh one; None if all do.

        >>> [Guarantee(1, w=40).period, Guarantee(1, w=40, presence=3).period, Guarantee(1, per=7, presence=3).period]
        [40, 79, 7]
        """
        if self.per is not None:
            return self.per.longest
        return self.w if self.w is None or self.presence is None else 2 * self.w - 1

    @property
    def endless(self) -> bool:
        """Whether a stream can go on for ever: budget comes back, or no person meets more than a few steps."""
        return self.reach is not None

    def shares(self, releases: int | None, steps: int = 1) -> int:
        """How many of ``releases`` within one period, each of which reads ``steps`` timestamps, one unit can meet.

        ``releases=None`` says that there is no limit to them, which only ``presence`` allows; if no period ends, there
        is none either.

        >>> plain, seldom = Guarantee(1, w=40), Guarantee(1, w=40, presence=3)
        >>> [plain.shares(40), seldom.shares(79), seldom.shares(4), seldom.shares(None, steps=2)]
        [40, 6, 4, 12]
        """
        rule = self.rule
        if rule is not None:
            most = rule.reach * steps
            return most if releases is None or self.period is None else min(releases, most)
        if releases is None:
            raise InvalidBudgetError(f"{self}: there is no end of releases to share it")
        return releases

    def met(self, spent: Sequence[tuple[int, Fraction]], t: int) -> Fraction:
        """The most that one unit which counts at ``t`` has met of ``spent``, earlier steps with amounts of one period.

        >>> Guarantee(1, w=None, presence=3).met([(0, Fraction(1, 2)), (1, Fraction(1, 9)), (2, Fraction(1, 4))], t=3)
        Fraction(3, 4)
        """
        rule = self.rule
        if rule is None:
            return sum((amount for _, amount in spent), Fraction(0))
        unit = math.lcm(*(amount.denominator for _, amount in spent))
        whole = [(step, amount.numerator * (unit // amount.denominator)) for step, amount in spent]
        return Fraction(dearest(rule, whole, t), unit)

    def remembered(self, spent: Sequence[tuple[int, Fraction]], t: int) -> tuple[tuple[int, Fraction], ...]:
        """Those of ``spent`` that a unit which counts at ``t`` or later can have met."""
        if self.period is not None:
            return tuple(entry for entry in spent if entry[0] > t - self.period)
        if self.presence is None:
            return tuple(spent)
        return tuple(sorted(sorted(spent, key=lambda entry: -entry[1])[: self.presence - 1]))

    def per_timestamp(self) -> Guarantee:
        """What each single timestamp may cost so that all that one unit can reach cost no more than ``pure``.

        Streams that differ in w timestamps are w streams apart that differ in one, so whoever promises pure/w for
        one timestamp promises ``pure`` for a window.

        >>> print(Guarantee(1, w=4).per_timestamp())
        epsilon 1/4 for what one person contributes in one step
        """
        if self.reach is None:
            raise InvalidBudgetError(f"{self}: there is no end of timestamps to share it")
        return self if self.w == 1 else Guarantee(self.pure / self.reach, w=1)

    def steps_at_once(self, steps: int) -> int:
        """How many of ``steps`` successive timestamps one unit may have data in."""
        return steps if self.reach is None else min(self.reach, steps)

    def with_pure_share(self, share: Exact) -> Guarantee:
        """The same promise, divided otherwise between pure and Gaussian charges.

        >>> seldom = Guarantee(1, w=40, delta="1e-6", presence=3)
        >>> seldom.with_pure_share(1).pure, seldom.with_pure_share(1).presence
        (Fraction(1, 1), 3)
        """
        return Guarantee(self.epsilon, self.w, self.delta, share, presence=self.presence, per=self.per)

    def placed(self, start: str, every: str, zone: str = "UTC") -> Guarantee:
        """The same promise with its blocks on the calendar of the steps; see ``Blocks``.

        >>> Guarantee(1, per="1mo", presence=2).placed("2026-01-01", "1d").period
        31
        """
        if self.per is None:
            return self
        return Guarantee(
            self.epsilon,
            self.w,
            self.delta,
            self.pure_share,
            presence=self.presence,
            per=self.per.placed(start, every, zone),
        )

    def to_json(self) -> str:
        """Canonical text, exact."""
        fields: dict[str, Any] = {
            "epsilon": str(self.epsilon),
            "w": self.w,
            "delta": str(self.delta),
            "pure_share": str(self.pure_share),
        }
        if self.presence is not None:
            fields["presence"] = self.presence
        if self.per is not None:
            fields["per"] = self.per.fields()
        return json.dumps(fields)

    @classmethod
    @refuses("guarantee", "it is not the JSON of one")
    def from_json(cls, text: str) -> Guarantee:
        """The guarantee that ``to_json`` wrote."""
        fields: dict[str, Any] = read_json(text)
        if "per" in fields:
            fields["per"] = Blocks(**fields["per"])
        return cls(**fields)

    def __str__(self) -> str:
        cost = f"epsilon {self.epsilon}" + (f", delta {self.delta}" if self.delta else "")
        counts = "" if self.presence is None else f", where a person counts in at most {self.presence}"
        if self.per is not None:
            return f"{cost} for what one person contributes in one block of {self.per}{counts} of its steps"
        match self.w:
            case None:
                return f"{cost} for all that one person ever contributes{counts and counts + ' steps'}"
            case 1:
                return f"{cost} for what one person contributes in one step"
            case w:
                return f"{cost} within any {w} successive steps{counts and counts + ' of them'}"


def _check_presence(presence: int | None, w: int | EllipsisType | None, per: Blocks | None) -> None:
    """Refuse a presence bound that says nothing, or that costs more than none."""
    if per is not None and (presence is None or w is not None):
        raise InvalidBudgetError(
            name="per",
            value=str(per),
            limit="it needs presence, in how many steps of a block a person counts, and no w",
        )
    if presence is None:
        return
    if type(presence) is not int or presence < 1:
        raise InvalidBudgetError(name="presence", value=presence, limit="a whole number of steps from 1, or None")
    if isinstance(w, int) and 2 * presence >= w:
        raise InvalidBudgetError(
            name="presence",
            value=presence,
            limit=f"in a window of {w} steps it costs {2 * presence} steps, where no bound at all costs {w}: give less "
            f"than {w}/2, or leave it out",
        )


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The smallest delta for which one Gaussian charge of ``mu`` is (epsilon, delta)-private; see ``_delta``."""
    return _delta(mu / 2 - epsilon / mu, mu)


def gaussian_budget(epsilon: Fraction, delta: Fraction) -> Fraction:
    """μ² that (epsilon, delta) affords, rounded down; 0 when there is none.

    >>> float(gaussian_budget(Fraction(1), Fraction(1, 10**6))) ** 0.5 # doctest: +ELLIPSIS
    0.236...
    """
    usable = float(epsilon - Fraction(1, GRID))
    if delta == 0 or usable <= 0:
        return Fraction(0)
    target = math.log(float(delta) * (1 - SHY_OF_DELTA))

    def mu_at(a: float) -> float:
        """The μ whose μ/2 − ε/μ is ``a``, without a difference of large numbers."""
        root = math.sqrt(a * a + 2 * usable)
        return 2 * usable / (root - a) if a < 0 else a + root

    from scipy.optimize import brentq

    # At these two the smallest delta is below 10^-190 and above 1 − 10^-190, whatever epsilon is.
    root = brentq(lambda a: math.log(_delta(a, mu_at(a))) - target, -30.0, 40.0, xtol=1e-30, maxiter=1000)
    return Fraction(mu_at(float(root)) * (1 - 1e-9)) ** 2


def _delta(a: float, mu: float) -> float:
    """Φ(a) − e^ε·Φ(b) for b = a − μ and a = μ/2 − ε/μ: of μ = 0.001 and less never too small, else to ten digits.

    With e^ε·φ(b) = φ(a) and M = Φ/φ it is φ(a)·(M(a) − M(b)), where a small μ cancels all digits. M′(x) = 1 + x·M(x)
    is convex (M(−y) is the Laplace transform of e^(−t²/2), all of whose derivatives are monotone), so that its integral
    from b to a is at most μ·(M′(a) + M′(b))/2, and closer to that than one part in a million.
    """
    from scipy.special import erfcx, ndtr

    b = a - mu
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)

    def ratio(x: float) -> float:
        return math.sqrt(math.pi / 2) * float(erfcx(-x / math.sqrt(2)))

    if mu > SMALL_MU:
        return float(ndtr(a)) - density * ratio(b)
    return density * mu * (2 + a * ratio(a) + b * ratio(b)) / 2
