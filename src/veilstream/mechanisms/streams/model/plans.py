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
RESERVES: Final = ((4, Fraction(3, 4)), (2, Fraction(1, 2)), (1, Fraction(1, 4)))
"""Looks in a window, at least, and what is kept for every step to come between such, in parts of Uniform's charge."""
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
SLOWEST: Final = 1e-6
"""Variance per step, over that of Uniform's noise, below which no level is taken to stand."""


def gaps_of(period: Period) -> tuple[int, ...]:
    """The gaps between looks to choose from: up to a window, and the first prime beyond it.

    >>> gaps_of(Period(window=10)), gaps_of(Period(window=1))
    ((1, 2, 3, 5, 7, 11), (1,))
    """
    if period.steady or period.window < SHORTEST_WITH_GAPS:
        return (1,)
    within = tuple(gap for gap in GAPS if gap < period.window)
    return within if period.last is not None else (*within, _prime_from(period.window))


def _prime_from(number: int) -> int:
    return next(n for n in count(number) if all(n % divisor for divisor in range(2, math.isqrt(n) + 1)))


def looks_in_window(gap: int, period: Period) -> int:
    return -(-period.window // gap)


def reserve(gap: int, period: Period) -> Fraction:
    """What is kept for every step to come while looks lie ``gap`` steps apart, in parts of Uniform's charge."""
    return next(part for looks, part in RESERVES if looks_in_window(gap, period) >= looks)


@lru_cache(maxsize=64)
def quiet_needed(period: Period) -> Floats:
    """For each gap the steps without an alarm after which it is worth its risk.

    After a change in a gap the next window is looked at with 1/r of Uniform's noise, where r is the reserve. That costs
    no more than Uniform over all w/r steps if the w(1/r − 1) steps before it cost next to nothing.
    """
    usual = RESERVES[0][1]
    kept = [reserve(gap, period) for gap in gaps_of(period)]
    paid = [0.0 if part == usual else float(period.window * (1 / part - 1)) for part in kept]
    return np.maximum(2.0 * (np.array(gaps_of(period)) - 1), paid)


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


@lru_cache(maxsize=64)
def expected_errors(period: Period, bins: int, seasons: int) -> Floats:
    """Gaps × experts: mean standard deviation over time, in units of Uniform's noise, once the expert is settled.

    A level of persistence φ has P ← φ²P + q from step to step and P ← PR/(P + R) at a look.
    """
    plan = block_plan(period, bins)
    at_every_step = 1.0 if plan is None else plan.relative
    experts = [(max(q, SLOWEST), 1.0) for q in LEVELS]
    experts += [(q, persistence) for q, persistence, _ in SEASONS] * seasons
    step, persistence = np.array(experts).T
    rows: list[Floats] = []
    for gap in gaps_of(period):
        noise = at_every_step if gap == 1 else (period.even / target(gap, period, bins)) ** 2
        later = np.arange(gap + 1)[:, None]
        left = persistence ** (2 * later)
        grown = step * np.where(persistence < 1, (1 - left) / np.maximum(1 - persistence**2, 1e-12), later)
        settled = step + noise
        for _ in range(400):
            settled = left[-1] * settled * noise / (settled + noise) + grown[-1]
        after = settled * noise / (settled + noise)
        rows.append(np.sqrt(left[:-1] * after + grown[:-1]).mean(axis=0))
    return np.array(rows)


def wanted_gap(costs: Floats, current: NDArray[np.int64], longest: NDArray[np.int64]) -> NDArray[np.int64]:
    """The index of the gap to go on with, from expected ``costs`` (..., gaps), the ``current`` index and a limit."""
    allowed: NDArray[np.bool_] = np.arange(int(costs.shape[-1])) <= longest[..., None]
    best = np.where(allowed, costs, np.inf).argmin(axis=-1)
    now = np.take_along_axis(costs, current[..., None], axis=-1)[..., 0]
    then = np.take_along_axis(costs, best[..., None], axis=-1)[..., 0]
    better = np.where(best > current, then < LONGER * now, then < SHORTER * now)
    return np.where(better, best, np.minimum(current, longest))
