"""A bank of experts, weighed bin by bin by how well they foresaw the looks so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from veilstream.mechanisms.streams.model.experts import (
    LEVELS,
    SEASON_PRIOR,
    SEASONS,
    TRENDS,
    Levels,
    Season,
    Trends,
)
from veilstream.mechanisms.streams.model.observation import Floats, Look, likelihood

FORGETTING: Final = 0.96
"""What is left of an expert's evidence after one more look."""
LEARNING: Final = 0.03
"""How quickly an expert's share over all bins follows its weights."""
FLOOR: Final = 0.05
"""Of the shares, what stays as at first: no expert is ever ruled out."""
LARGEST_PENALTY: Final = 6.0
"""Against experts whose steps are larger than the level that they step from."""
LIVELY: Final = LEVELS.index(1.0)
"""The level whose variance, which is public, stands for what all experts know."""
FAR: Final = 5.0
"""An expert so many standard deviations away from all experts together takes their mean."""


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """All experts together: mean and variance of each bin's count."""

    mean: Floats
    variance: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Bank:
    """``unit`` is the variance of Uniform's noise; ``evidence`` has shape (..., experts, bins)."""

    unit: float
    levels: Levels
    evidence: Floats
    shares: Floats
    """Of every expert over all bins, learned: the prior of each bin, (..., experts)."""
    believed: Mixture
    """What all experts together believed after the last look."""
    trends: Trends | None = None
    seasons: tuple[Season, ...] = ()

    @classmethod
    def begun(cls, look: Look, unit: float, periods: tuple[int, ...], trends: bool) -> Self:
        """A bank that has seen one look: every level believes it."""
        numbers = look.numbers[..., None, :]
        runs, bins = look.numbers.shape[:-1], look.numbers.shape[-1]

        def filled(count: int, source: Floats) -> Floats:
            return np.broadcast_to(source, (*runs, count, bins)).copy()

        count, slopes = len(LEVELS), len(TRENDS) if trends else 0
        seasons = tuple(
            Season.unseen(period, look.numbers.shape).awakened(look.numbers, look.variance, 0) for period in periods
        )
        seasonal = len(SEASONS) * len(periods)
        experts = count + slopes + seasonal
        return cls(
            unit,
            Levels(filled(count, numbers), np.full(count, look.variance)),
            np.zeros((*runs, experts, bins)),
            np.broadcast_to(first_shares(count + slopes, seasonal), (*runs, experts)).copy(),
            Mixture(look.numbers, np.full(look.numbers.shape, look.variance)),
            Trends.resting(filled(slopes, numbers), look.variance, unit) if trends else None,
            seasons,
        )

    def predicted(self, step: int) -> Bank:
        """One step on, before its look."""
        return replace(
            self,
            levels=self.levels.predicted(self.unit),
            trends=None if self.trends is None else self.trends.predicted(self.unit),
            seasons=tuple(season.predicted(self.unit, step) for season in self.seasons),
        )

    def means(self, step: int) -> Floats:
        """Of every expert; those that are asleep give their deviation alone."""
        parts = [self.levels.mean]
        if self.trends is not None:
            parts.append(self.trends.mean)
        parts += [season.mean(step) for season in self.seasons]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-2)

    def variances(self, step: int) -> Floats:
        parts = [self.levels.variance]
        if self.trends is not None:
            parts.append(self.trends.variance)
        parts += [season.variance(step) for season in self.seasons]
        return np.concatenate(parts)

    def awake(self, step: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which experts have seen this phase."""
        others = self.evidence.shape[-2] - len(SEASONS) * len(self.seasons)
        parts = [np.ones(others, dtype=np.bool_)]
        parts += [np.full(len(SEASONS), not season.asleep(step)) for season in self.seasons]
        return np.concatenate(parts)

    def weights(self, step: int) -> Floats:
        """Of every expert in every bin: its evidence, its share over all bins, and less if it steps beyond the level.

        The shares are those by evidence and prior alone, with the prior worth ``POOLED`` bins more. A step of variance
        q from a count of level m and variance V is unlikely if q is far above m² + V: counts do not pass below zero.
        """
        awake = self.awake(step)
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.shares)[..., None]
        room = np.square(self.believed.mean) + self.believed.variance
        penalty = np.minimum(self._step_variances()[:, None] / room[..., None, :], LARGEST_PENALTY)
        score = np.where(awake[:, None], self.evidence + log_prior - penalty, -np.inf)
        return softmax(score)

    def together(self, step: int, weights: Floats) -> Mixture:
        means, variances = self.means(step), self.variances(step)
        mean = np.einsum("...eb,...eb->...b", weights, means)
        spread = np.einsum("...eb,...eb->...b", weights, np.square(means - mean[..., None, :]))
        return Mixture(mean, spread + np.einsum("...eb,e->...b", weights, variances))

    def moved(self, by: Floats) -> Bank:
        """All experts moved by the same in a bin."""
        shift = by[..., None, :]
        return replace(
            self,
            levels=replace(self.levels, mean=self.levels.mean + shift),
            trends=None if self.trends is None else replace(self.trends, mean=self.trends.mean + shift),
            seasons=tuple(season.moved(shift) for season in self.seasons),
        )

    def corrected(self, look: Look, step: int) -> tuple[Bank, Floats]:
        """After a look: new beliefs and evidence, and the experts' weights."""
        awake = self.awake(step)
        log_density, score = likelihood(look.numbers[..., None, :] - self.means(step), self.variances(step), look)
        if not awake.all():
            # Who sleeps neither gains nor loses against the others.
            before = self.weights(step)
            others = np.log(np.einsum("...eb,...eb->...b", before, np.exp(np.maximum(log_density, -700.0))) + 1e-300)
            log_density = np.where(awake[:, None], log_density, others[..., None, :])
        evidence = FORGETTING * self.evidence + log_density
        evidence -= evidence.max(axis=-2, keepdims=True)
        bank = replace(self._updated(score, look, step), evidence=evidence)
        weights = bank.weights(step)
        after = bank.together(step, weights)
        return replace(bank._gathered(after, step), believed=after, shares=bank._learned(weights)), weights

    def _learned(self, weights: Floats) -> Floats:
        fixed = np.exp(self._log_prior())
        kept = self.shares - FLOOR * fixed
        learned: Floats = LEARNING * (1 - FLOOR) * weights.mean(axis=-1)
        return (1 - LEARNING) * kept + learned + FLOOR * fixed

    def _updated(self, score: Floats, look: Look, step: int) -> Bank:
        count, slopes = len(LEVELS), 0 if self.trends is None else len(TRENDS)
        seasons: list[Season] = []
        for number, season in enumerate(self.seasons):
            first = count + slopes + number * len(SEASONS)
            part = score[..., first : first + len(SEASONS), :]
            seasons.append(season if season.asleep(step) else season.corrected(part, look, step))
        return replace(
            self,
            levels=self.levels.corrected(score[..., :count, :], look),
            trends=None if self.trends is None else self.trends.corrected(score[..., count : count + slopes, :], look),
            seasons=tuple(seasons),
        )

    def _gathered(self, after: Mixture, step: int) -> Bank:
        """Levels that are far off come back to where all experts together are, and sleeping seasons learn it."""
        mean, variance = after.mean[..., None, :], after.variance[..., None, :]
        levels = self.levels
        far = np.square(levels.mean - mean) > FAR**2 * (levels.variance[:, None] + variance)
        if far.any():
            levels = replace(levels, mean=np.where(far, mean, levels.mean))
        seasons = tuple(
            season.awakened(after.mean, float(levels.variance[LIVELY]), step) if season.asleep(step) else season
            for season in self.seasons
        )
        return replace(self, levels=levels, seasons=seasons)

    def rescaled(self, unit: float) -> Bank:
        """The same belief where Uniform's noise has another variance: experts begin anew from what all believe."""
        mean, variance = self.believed.mean[..., None, :], self.levels.variance[LIVELY]
        levels = Levels(np.broadcast_to(mean, self.levels.mean.shape).copy(), np.full(len(LEVELS), variance))
        trends = self.trends
        if trends is not None:
            trends = Trends.resting(np.broadcast_to(mean, trends.mean.shape).copy(), float(variance), unit)
        evidence = np.zeros_like(self.evidence)
        return replace(self, unit=unit, levels=levels, trends=trends, evidence=evidence)

    def _log_prior(self) -> Floats:
        others = self.evidence.shape[-2] - len(SEASONS) * len(self.seasons)
        return np.log(first_shares(others, len(SEASONS) * len(self.seasons)))

    def _step_variances(self) -> Floats:
        parts = [np.array(LEVELS)]
        if self.trends is not None:
            parts.append(np.array(TRENDS)[:, 1])
        parts += [np.array(SEASONS, dtype=np.float64)[:, 0] for _ in self.seasons]
        return np.concatenate(parts) * self.unit


def first_shares(others: int, seasonal: int) -> Floats:
    """What experts without and with a season weigh before any look."""
    parts: Floats = np.concatenate([np.ones(others), np.full(seasonal, SEASON_PRIOR)])
    parts /= parts.sum()
    return parts


def softmax(score: Floats) -> Floats:
    """Weights ∝ e^score over the experts, the last axis but one."""
    weights: Floats = np.exp(score - score.max(axis=-2, keepdims=True))
    weights /= weights.sum(axis=-2, keepdims=True)
    return weights
