"""The experts of the bank: what each believes of a count's next value. Variances are shared by all bins.

Every family predicts a mean for each expert and bin and a variance for each expert, and takes in a look through the
score of its gap (see ``observation``): mean ← mean + P·score. Means have shape (..., experts, bins).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np

from veilstream.mechanisms.streams.model.observation import Floats, Look, remaining

LEVELS: Final = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e2, 10**3.5, 1e5, 1e9)
"""Steps of a level, as variance per step over that of Uniform's noise; the last one is as good as the look itself."""
TRENDS: Final = ((0.9, 1.0), (0.98, 0.1))
"""Damping of a slope, and variance of its steps over that of Uniform's noise."""
SEASONS: Final = (
    (0.01, 0.8, 0.02),
    (0.01, 0.97, 0.3),
    (0.1, 0.8, 0.3),
    (0.1, 0.97, 0.02),
    (1, 0.8, 0.02),
    (10, 0.97, 0.3),
)
"""Variance of the steps of a deviation from the season over that of Uniform's noise, their persistence, and the
variance of a season's change per cycle over that of a step."""
SEASON_PRIOR: Final = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Random walks x' = x + N(0, q)."""

    mean: Floats
    variance: Floats

    def predicted(self, unit: float) -> Levels:
        return replace(self, variance=self.variance + np.array(LEVELS) * unit)

    def corrected(self, score: Floats, look: Look) -> Levels:
        return Levels(self.mean + self.variance[:, None] * score, remaining(self.variance, look))


@dataclass(frozen=True, slots=True, eq=False)
class Trends:
    """Levels with a damped slope: x' = x + φ·s, s' = φ·s + N(0, q)."""

    mean: Floats
    slope: Floats
    variance: Floats
    covariance: Floats
    slope_variance: Floats

    @classmethod
    def resting(cls, mean: Floats, variance: float, unit: float) -> Self:
        """Known levels and slopes of which nothing is known."""
        damping, step = np.array(TRENDS).T
        nothing = np.zeros(len(TRENDS))
        return cls(mean, np.zeros_like(mean), nothing + variance, nothing, step * unit / (1 - damping**2))

    def predicted(self, unit: float) -> Trends:
        damping, step = np.array(TRENDS).T
        slope = damping[:, None] * self.slope
        slope_variance = damping**2 * self.slope_variance + step * unit
        covariance = damping * self.covariance + slope_variance
        variance = self.variance + 2 * damping * self.covariance + slope_variance
        return Trends(self.mean + slope, slope, variance, covariance, slope_variance)

    def corrected(self, score: Floats, look: Look) -> Trends:
        left = remaining(self.variance, look)
        # A look at the level tells of the slope what the level's share of it tells.
        share = self.covariance / self.variance
        lost = self.variance - left
        return Trends(
            self.mean + self.variance[:, None] * score,
            self.slope + self.covariance[:, None] * score,
            left,
            share * left,
            self.slope_variance - share**2 * lost,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Season:
    """x = s[phase] + a: a profile over the phases of a period, and a deviation a' = φ·a + N(0, q) from it.

    The two are kept as independent: the correlation that a look brings is forgotten with the deviation before its
    phase comes round again. Where a phase was never seen its profile is None and the experts are ``asleep``.
    """

    deviation: Floats
    deviation_variance: Floats
    profile: tuple[Floats | None, ...]
    """For each phase, experts × bins."""
    profile_variance: Floats
    """Phases × experts."""

    @classmethod
    def unseen(cls, period: int, shape: tuple[int, ...]) -> Self:
        *runs, bins = shape
        nothing = np.zeros((*runs, len(SEASONS), bins))
        return cls(nothing, np.zeros(len(SEASONS)), (None,) * period, np.zeros((period, len(SEASONS))))

    def asleep(self, step: int) -> bool:
        return self.profile[step % len(self.profile)] is None

    def mean(self, step: int) -> Floats:
        profile = self.profile[step % len(self.profile)]
        return self.deviation if profile is None else self.deviation + profile

    def variance(self, step: int) -> Floats:
        of_profile: Floats = self.profile_variance[step % len(self.profile)]
        return self.deviation_variance + of_profile

    def predicted(self, unit: float, step: int) -> Season:
        step_variance, persistence, change = np.array(SEASONS, dtype=np.float64).T
        profile_variance = self.profile_variance.copy()
        profile_variance[step % len(self.profile)] += change * step_variance * unit
        return replace(
            self,
            deviation=persistence[:, None] * self.deviation,
            deviation_variance=persistence**2 * self.deviation_variance + step_variance * unit,
            profile_variance=profile_variance,
        )

    def corrected(self, score: Floats, look: Look, step: int) -> Season:
        phase = step % len(self.profile)
        seen = self.profile[phase]
        assert seen is not None
        total = self.variance(step)
        lost = total - remaining(total, look)
        share = self.profile_variance[phase]
        profile_variance = self.profile_variance.copy()
        profile_variance[phase] = share - (share / total) ** 2 * lost
        return Season(
            self.deviation + self.deviation_variance[:, None] * score,
            self.deviation_variance - (self.deviation_variance / total) ** 2 * lost,
            self._with_phase(phase, seen + share[:, None] * score),
            profile_variance,
        )

    def awakened(self, mean: Floats, variance: float, step: int) -> Season:
        """A phase seen for the first time: its profile is what all other experts believe."""
        phase = step % len(self.profile)
        profile_variance = self.profile_variance.copy()
        profile_variance[phase] = variance
        profile = self._with_phase(phase, mean[..., None, :] - self.deviation)
        return replace(self, profile=profile, profile_variance=profile_variance)

    def moved(self, by: Floats) -> Season:
        return replace(self, deviation=self.deviation + by)

    def _with_phase(self, phase: int, profile: Floats) -> tuple[Floats | None, ...]:
        return (*self.profile[:phase], profile, *self.profile[phase + 1 :])
