"""Plans of looks: how many steps lie between two of them, and which number of them the experts call for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.streams.model.experts import LEVELS, SEASONS
from veilstream.mechanisms.streams.model.observation import Floats
from veilstream.mechanisms.streams.model.periods import Period
from veilstream.trusted.block_noise import block_variance

GAPS: Final = (1, 2, 3, 5, 7, 11, 17, 23, 37, 59, 97, 151, 211)
"""Steps from look to look: primes, which no season meets at the same phases only."""
RESERVES: Final = (Fraction(3, 4), Fraction(1, 2), Fraction(1, 4))
"""What is kept for every step to come, in parts of Uniform's charge."""
FEWEST_LOOKS: Final = 4
"""In a window, between which the largest of the reserves is kept."""
SHORTEST_WITH_GAPS: Final = 4
"""Shorter windows are looked at at every step."""
LARGEST_WATCH: Final = 4
"""Between looks the total over all bins is watched at every step for at most this part of Uniform's charge."""
SMALLEST_WATCH: Final = 20
"""And for at least this one: the more bins, the more a change of all of them shows in the total."""
LONGER: Final = 0.9
"""A longer gap must promise so much of the present error."""
SHORTER: Final = 0.95
"""A shorter one so much."""
MOST_BINS_IN_BLOCKS: Final = 8
"""With more bins, and from about 5 on in long windows, single looks are as quiet."""
LONGEST_BLOCK: Final = 128
"""Steps that share one draw."""
WORTH_A_BLOCK: Final = 0.95
"""Of Uniform's variance: blocks that promise less than this are not worth it."""
BETWEEN: Final = (0.0, 0.25, 0.5, 0.75)
"""Where between two looks errors are foreseen, in parts of the gap."""
AMONG: Final = (0.0, 0.06, 0.15, 0.27, 0.41, 0.57, 0.74, 0.91)
"""After which of the looks to come, in parts of all: more of them early, where errors still fall and are surer."""
SLOWEST: Final = 1e-6
"""Variance per step, over that of Uniform's noise, below which no level is taken to stand."""


def gaps_of(period: Period) -> tuple[int, ...]:
    """The gaps between looks to choose from: up to a window, and the first two primes beyond it.

    >>> gaps_of(Period(window=10)), gaps_of(Period(window=1))
    ((1, 2, 3, 5, 7, 11, 13), (1,))
    """
    if period.steady or period.window < SHORTEST_WITH_GAPS:
        return (1,)
    within = tuple(gap for gap in GAPS if gap < period.window)
    if period.last is not None:
        return within
    once = _prime_from(period.window)
    return (*within, once, _prime_from(once + 1))


def _prime_from(number: int) -> int:
    return next(n for n in count(number) if all(n % divisor for divisor in range(2, math.isqrt(n) + 1)))


def looks_in_window(gap: int, period: Period) -> int:
    return -(-period.window // gap)


def reserve(gap: int, period: Period) -> Fraction:
    """What is kept for every step to come while looks lie ``gap`` steps apart, in parts of Uniform's charge."""
    if looks_in_window(gap, period) >= FEWEST_LOOKS:
        return RESERVES[0]
    return RESERVES[2] if gap > period.window and gap == gaps_of(period)[-1] else RESERVES[1]


@lru_cache(maxsize=64)
def quiet_needed(period: Period) -> Floats:
    """For each gap the steps without an alarm after which it is worth its risk.

    After a change in a gap the next window is looked at with 1/r of Uniform's noise, where r is the reserve. That costs
    no more than Uniform over all w/r steps if the w(1/r − 1) steps before it cost next to nothing.
    """
    usual = RESERVES[0]
    kept = [reserve(gap, period) for gap in gaps_of(period)]
    paid = [0.0 if part == usual else float(period.window * (1 / part - 1)) for part in kept]
    return np.maximum(2.0 * (np.array(gaps_of(period)) - 1), paid)


@lru_cache(maxsize=64)
def scaled_by_risk(period: Period) -> NDArray[np.bool_]:
    """Which gaps need less quiet where counts lie below Uniform's noise.

    Publishing nothing then costs less than Uniform does, so that all steps so far have paid for a change. The rarest
    looks keep so little that they wait all the same.
    """
    return np.array([reserve(gap, period) != RESERVES[-1] for gap in gaps_of(period)])


def watch(gap: int, period: Period, bins: int) -> int:
    """What it costs to watch the total at one step between looks, in units; half the reserve is left for a look."""
    return min(period.even // min(max(bins, LARGEST_WATCH), SMALLEST_WATCH), period.kept(reserve(gap, period)) // 2)


def target(gap: int, period: Period, bins: int) -> int:
    """What a look every ``gap`` steps costs in the long run, in units.

    Just before the next look a window has n = ⌈w/gap⌉ looks, w − gap watched steps and gap − 1 that may still be used.
    """
    if gap == 1:
        return period.even
    kept = period.kept(reserve(gap, period))
    watched = max(period.window - gap, 0) * watch(gap, period, bins)
    later = min(gap, period.window) - 1
    return min(
        (period.units - watched - later * kept) // looks_in_window(gap, period),
        period.units - (period.window - 1) * kept,
    )


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """Looks at every step in blocks of ``length``, each for ``amount`` units; ``relative`` to Uniform's variance."""

    length: int
    amount: int
    relative: float


@lru_cache(maxsize=64)
def block_plan(period: Period, bins: int) -> BlockPlan | None:
    """The blocks with the least noise, None where single looks have as little.

    The windows that most blocks of m steps touch see 1 + ⌈(w−1)/m⌉ of them (⌈N/m⌉ of N steps in all).
    """
    if bins > MOST_BINS_IN_BLOCKS or period.window < 2 or period.steady:
        return None
    plans: list[BlockPlan] = []
    for length in range(2, min(period.window, LONGEST_BLOCK) + 1):
        blocks = -(-period.window // length) if period.last is not None else 1 + -(-(period.window - 1) // length)
        variance = block_variance(length, bins, 1 / blocks) / (2 * period.window**2)
        plans.append(BlockPlan(length, period.units // blocks, variance))
    best = min(plans, key=lambda plan: plan.relative)
    return best if best.relative < WORTH_A_BLOCK else None


@dataclass(frozen=True, slots=True, eq=False)
class Cycles:
    """From look to look, gaps × experts in units of Uniform's variance: S = a·P + b before a look, SR/(S + R) after it.

    ``between`` has the same a and b for some of the steps between looks.
    """

    noise: Floats
    kept: Floats
    grown: Floats
    between: tuple[tuple[Floats, Floats], ...]


@lru_cache(maxsize=64)
def cycles(period: Period, bins: int, seasons: int) -> Cycles:
    """Of every gap: a level of persistence φ has P ← φ²P + q from step to step."""
    plan = block_plan(period, bins)
    at_every_step = 1.0 if plan is None else plan.relative
    experts = [(max(q, SLOWEST), 1.0) for q in LEVELS]
    experts += [(q, persistence) for q, persistence, _ in SEASONS] * seasons
    step, persistence = np.array(experts).T
    gaps = np.array(gaps_of(period))[:, None]

    def after(steps: NDArray[np.float64]) -> tuple[Floats, Floats]:
        kept = persistence ** (2 * steps)
        return kept, step * np.where(persistence < 1, (1 - kept) / np.maximum(1 - persistence**2, 1e-12), steps)

    noise = [at_every_step if gap == 1 else (period.even / target(gap, period, bins)) ** 2 for gap in gaps_of(period)]
    between = tuple(after(np.floor(part * gaps)) for part in BETWEEN)
    return Cycles(np.array(noise)[:, None], *after(gaps.astype(np.float64)), between)


def expected_errors(period: Period, bins: int, seasons: int, variances: Floats, step: int) -> Floats:
    """Gaps × experts: mean standard deviation over the steps to come, in units of Uniform's noise.

    Of these a window is taken and as many as there were before this ``step``: errors that take long to fall count in
    long streams only.

    The first look is made at once, from what experts know now, ``variances``. What is left after a look maps to what is
    left after the next by P → (aRP + bR)/(aP + b + R), whose fixed points x₊ > 0 > x₋ are the roots of
    ax² + (b + R − aR)x − bR; after n looks (P − x₊)/(P − x₋) is ((R − x₊)/(R − x₋))ⁿ times what it was.
    """
    cycle = cycles(period, bins, seasons)
    noise, kept, grown = cycle.noise, cycle.kept, cycle.grown
    linear = grown + noise - kept * noise
    root = np.sqrt(np.square(linear) + 4 * kept * grown * noise)
    above, below = 2 * grown * noise / (linear + root), -(linear + root) / (2 * kept)
    first = variances * noise / (variances + noise)
    start = (first - above) / (first - below)
    factor = (noise - above) / (noise - below)
    looks = np.maximum((period.window + step) / np.array(gaps_of(period)), 1.0)[:, None]
    total = np.zeros_like(first)
    for part in AMONG:
        left = factor ** np.floor(part * looks) * start
        after = (above - below * left) / (1 - left)
        for share, added in cycle.between:
            total += np.sqrt(share * after + added)
    return total / (len(AMONG) * len(cycle.between))


def wanted_gap(costs: Floats, current: NDArray[np.int64], longest: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of the gap to go on with, from expected ``costs`` (..., gaps), the ``current`` index and a limit."""
    allowed: NDArray[np.bool_] = np.arange(int(costs.shape[-1])) <= longest[..., None]
    best = np.where(allowed, costs, np.inf).argmin(axis=-1)
    now = np.take_along_axis(costs, current[..., None], axis=-1)[..., 0]
    then = np.take_along_axis(costs, best[..., None], axis=-1)[..., 0]
    better = np.where(best > current, then < LONGER * now, then < SHORTER * now)
    return np.where(better, best, np.minimum(current, longest))
