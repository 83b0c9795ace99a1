"""When to look and with which noise: decided by what was released before, and by public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.streams.model.bank import Mixture
from veilstream.mechanisms.streams.model.experts import LEVELS
from veilstream.mechanisms.streams.model.observation import Floats, Look
from veilstream.mechanisms.streams.model.periods import Period
from veilstream.mechanisms.streams.model.plans import (
    RESERVES,
    block_plan,
    expected_errors,
    gaps_of,
    quiet_needed,
    reserve,
    target,
    wanted_gap,
    watch,
)
from veilstream.mechanisms.streams.model.reserve import Book
from veilstream.trusted.block_noise import NoiseBlock
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw, Values

OPENING: Final = 8
"""The first look costs this part of the budget."""
SHORTEST_WITH_OPENING: Final = 16
"""In shorter windows the first look is as any other."""
FALSE_ALARM: Final = 0.002
"""Chance that the most surprising bin of a look alarms though nothing has changed."""
TOGETHER: Final = 3.5
"""Standard deviations at which the sum of all surprises alarms."""
FEWEST_TOGETHER: Final = 4
"""Bins whose sum is looked at."""
PATIENCE: Final = 4.0
"""Each alarm multiplies the quiet that longer gaps need."""
NOWHERE_NEAR: Final = 7.0
"""Standard deviations of the noise on a watched total, beyond what was foreseen, that call for a look."""
SMALLEST_VARIANCE: Final = 0.05
"""Of noise: below it rounding to whole numbers is the larger error."""


class Reason(StrEnum):
    """Why a step was looked at, or not."""

    OPENING = "opening"
    EVERY_STEP = "every step"
    BLOCK = "block"
    DUE = "due"
    ALARM = "alarm"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, eq=False)
class Looks:
    """``gap`` is the index of the gap between looks, ``due`` the next look's step, ``quiet`` the steps since an alarm.

    ``patience`` grows with every alarm and wears off with time. Both have the shape (..., 1): of many simulated runs
    each has its own, so that only gaps set them apart.
    """

    book: Book = field(default_factory=Book.empty)
    block: NoiseBlock | None = None
    gap: int = 0
    due: int = 0
    quiet: Floats | float = 0.0
    patience: Floats | float = 1.0
    reason: Reason = Reason.WAITING

    def __post_init__(self) -> None:
        # States of earlier versions hold one number.
        for name in ("quiet", "patience"):
            object.__setattr__(self, name, np.atleast_1d(np.asarray(getattr(self, name), dtype=np.float64)))

    def in_block(self) -> bool:
        return self.block is not None and self.block.left > 0

    def waited(self) -> Looks:
        return replace(self, quiet=self.quiet + 1, reason=Reason.WAITING)


def gaussian_look(now: Sealed, meter: Meter, period: Period) -> Look:
    """A look with an equal share of μ²."""
    return _as_look(meter.gaussian(now, meter.guarantee.mu_squared * period.share / period.window, "look"))


def pure_look(looks: Looks, step: int, now: Sealed, meter: Meter, period: Period, opening: bool) -> tuple[Looks, Look]:
    """A look for as much as the plan wants and the reserve has room for, in a block where that is quieter."""
    budget = meter.guarantee.pure * period.share
    if looks.block is not None and looks.block.left and meter.is_open(looks.block):
        noisy, block = meter.block_laplace(now, looks.block.epsilon, looks.block.length, "look", looks.block)
        return replace(looks, block=block), _as_look(noisy)
    gap = gaps_of(period)[looks.gap]
    wanted = period.units // OPENING if opening else target(gap, period, now.size)
    plan = None if opening or gap > 1 else block_plan(period, now.size)
    if plan is not None:
        length = plan.length if period.last is None else min(plan.length, period.last - step + 1)
        if plan.amount <= looks.book.room(step, period, period.kept(reserve(gap, period)), length):
            noisy, block = meter.block_laplace(now, budget * Fraction(plan.amount, period.units), length, "look")
            book = looks.book.charged(step + length - 1, plan.amount, step, period)
            return replace(looks, block=block, book=book, reason=Reason.BLOCK), _as_look(noisy)
    amount = min(wanted, _room(looks.book, step, period, gap))
    noisy = meter.laplace(now, budget * Fraction(amount, period.units), "look")
    return replace(looks, book=looks.book.charged(step, amount, step, period), block=None), _as_look(noisy)


def watched(looks: Looks, step: int, now: Sealed, meter: Meter, period: Period, prior: Mixture) -> tuple[Looks, bool]:
    """Whether the total over all bins, seen with much noise for little, is nowhere near what was foreseen.

    A step between looks that brings a sudden change is then looked at after all. The noise of a total is that of one
    number, however many bins there are, so that what moves many bins shows.
    """
    amount = watch(gaps_of(period)[looks.gap], period, now.size)
    if amount < 1:
        return looks, False
    noisy = meter.laplace(now.total(), meter.guarantee.pure * period.share * Fraction(amount, period.units), "watch")
    book = looks.book.charged(step, amount, step, period)
    surprise = np.abs(noisy.numbers - prior.mean.sum(axis=-1, keepdims=True))[..., 0]
    limit = NOWHERE_NEAR * float(noisy.std) + TOGETHER * np.sqrt(prior.variance.sum(axis=-1))
    alarmed = bool(meter.branch(surprise > limit))
    return replace(looks, book=book, gap=0 if alarmed else looks.gap), alarmed


def surprise_of(look: Look, prior: Mixture) -> Floats:
    """How far beyond what was foreseen a look is where it is too far, in one bin or in the sum of all; else 0.

    It is the mean over bins of v² − S, for surprises v of variance S.
    """
    total = prior.variance + look.variance
    surprise = look.numbers - prior.mean
    bins = surprise.shape[-1]
    most: NDArray[np.bool_] = np.max(np.abs(surprise) / np.sqrt(total), axis=-1) > math.log(
        bins / FALSE_ALARM
    ) / math.sqrt(2)
    if bins >= FEWEST_TOGETHER:
        most |= np.abs(surprise.sum(axis=-1)) > TOGETHER * np.sqrt(total.sum(axis=-1))
    beyond: Floats = np.where(most, np.maximum(np.mean(np.square(surprise) - total, axis=-1), 0.0), 0.0)
    return beyond


def planned(
    looks: Looks, step: int, weights: Floats, seasons: int, period: Period, surprise: Floats, unit: float, meter: Meter
) -> Looks:
    """The next look, by the errors that the experts expect of every gap.

    After a surprise steps as large as it are taken for usual: where looks at every step, of variance ``unit``, would
    not have shown it, they do not help. Otherwise it is an alarm, and the next looks follow as closely as it asks for.
    """
    gaps = gaps_of(period)
    table = expected_errors(period, weights.shape[-1], seasons)
    costs: Floats = np.einsum("ge,...eb->...g", table, weights)
    current: NDArray[np.int64] = np.full(costs.shape[:-1], looks.gap, dtype=np.int64)
    needed = quiet_needed(period)
    longest = np.sum(needed <= looks.quiet / looks.patience, axis=-1) - 1
    chosen = wanted_gap(costs, current, longest)
    steps = surprise / (unit * gaps[looks.gap])
    expert = np.minimum(np.searchsorted(LEVELS, steps), len(LEVELS) - 1)
    close = table[:, expert].argmin(axis=0)
    alarmed = (surprise > 0) & (close < np.maximum(looks.gap, 1))
    chosen = np.where(alarmed, np.minimum(close, chosen), chosen)
    index = int(meter.branch(np.where(looks.in_block(), 0, chosen)))
    patience = 1 + (looks.patience - 1) * math.exp(-gaps[looks.gap] / (8 * period.window))
    more = np.minimum(patience * PATIENCE, max(PATIENCE, period.window / 2))
    sudden = alarmed[..., None]
    return replace(
        looks,
        gap=index,
        due=step + gaps[index],
        quiet=np.where(sudden, more * needed[index], looks.quiet + 1),
        patience=np.where(sudden, more, patience),
        reason=Reason.ALARM if alarmed.all() else looks.reason,
    )


def _room(book: Book, step: int, period: Period, gap: int) -> int:
    """For a look, with the reserve of the gap; after longer gaps with the largest that there still is."""
    room = 0
    for _, part in RESERVES:
        kept = period.kept(min(part, reserve(gap, period)))
        room = book.room(step, period, kept)
        if room >= kept:
            break
    return room


def _as_look(noisy: Values) -> Look:
    variance = max(float(noisy.std) ** 2, SMALLEST_VARIANCE)
    scale = math.sqrt(variance / 2) if noisy.law is NoiseLaw.LAPLACE else None
    return Look(np.asarray(noisy.numbers, dtype=np.float64), variance, scale)
