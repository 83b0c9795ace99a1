"""What to expect of a stream before anything is spent: mean errors, (α, σ)-usefulness, the smallest population.

A mechanism is (α, σ)-useful for a query if the answer from what it publishes errs by more than α with probability at
most σ. The bounds here are those of Li et al. (DSAT, CIKM 2015, section 5), corrected:

* lemma 5.1: for a sum of m Laplace noises of scale b the quantile itself is computed (``noise_sums``); Chernoff's bound
  is half as large again. The 2√2·b·ln(2/σ) of theorem 5.1 leaves m out and holds for m ≤ ln(2/σ) only.
* lemma 5.2: after a negative answer the distance to the last release is at most T + x, where x bounds ρ − ν, two
  Laplace noises of scales l1/ε_ρ and l1/ε_ν. The paper drops the factor C of its second noise.
* theorems 5.1 and 5.2: no range query errs by more than that distance, so T + x alone bounds it after a negative
  answer; the noise of the last release is in the distance already and is not added again. T is public at every step.
* theorem 5.3: with unnormalised distances, n people who all change bins move the distance by at most 2·l1·n. Below
  n = (T − floor + x)/(2·l1) no change whatever can be told from noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.no_noise import NoNoise
from veilstream.mechanisms.protocols import HistogramMechanism, StreamMechanism
from veilstream.mechanisms.session import Session, StreamSession
from veilstream.mechanisms.streams.decision import DistanceRule, Plan
from veilstream.mechanisms.streams.noise_sums import laplace_sum_quantile
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import seal
from veilstream.values.values import NoiseLaw, Values, half_width

TRIAL_NUMBERS: Final = 1 << 22
"""A trial run goes through about this many numbers at most."""
TRIAL_STEPS: Final = 512


@dataclass(frozen=True, slots=True)
class Useful:
    """With probability at least 1 − ``sigma`` a sum over ``query_bins`` bins errs by at most ``at_release`` when
    released, and by at most ``between`` at a step that compared and kept the last release (None where none does)."""

    sigma: float
    query_bins: int
    at_release: float
    between: float | None = None


@runtime_checkable
class ForecastsError(Protocol):
    """A mechanism that knows its own bounds."""

    def expected_error(self, guarantee: Guarantee, bins: int, max_contribution: int = 1) -> float: ...
    def usefulness(
        self, guarantee: Guarantee, bins: int, sigma: float, query_bins: int = 1, max_contribution: int = 1
    ) -> Useful: ...


@runtime_checkable
class NeedsPopulation(Protocol):
    """A mechanism whose decisions need people to decide about."""

    def smallest_population(
        self, guarantee: Guarantee, bins: int, sigma: float = 0.05, max_contribution: int = 1
    ) -> int: ...


def run_on_zeros(
    mechanism: StreamMechanism[Any], guarantee: Guarantee, bins: int, max_contribution: int, steps: int
) -> list[Values]:
    """What the mechanism would publish of a stream of zeros if noise were 0; no data are read and nothing is spent."""
    session = StreamSession(mechanism, guarantee, bins, NoNoise())
    return [session.step(seal(np.zeros(bins, dtype=np.int64), t, max_contribution), t) for t in range(steps)]


def release_of_zeros(
    histogram: HistogramMechanism, guarantee: Guarantee, epsilon: Fraction, bins: int, max_contribution: int
) -> Values:
    """One release of zeros for ``epsilon``: its ``std`` and ``law`` tell the noise."""
    meter = Session(Accountant(guarantee, bins), NoNoise()).at(0)
    return histogram.estimate(seal(np.zeros(bins, dtype=np.int64), 0, max_contribution), epsilon, meter)


def laplace_scale(std: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scale of discrete Laplace noise with standard deviation ``std``."""
    return np.asarray(1 / (2 * np.arcsinh(1 / (math.sqrt(2) * np.maximum(std, 1e-12)))), dtype=np.float64)


def mean_error(values: Values) -> float:
    """Mean absolute noise per bin: exact for discrete Laplace, otherwise that of a Gaussian."""
    std = np.asarray(values.std, dtype=np.float64)
    if values.law is NoiseLaw.LAPLACE and values.numbers.dtype.kind == "i":
        return float(np.mean(1 / np.sinh(np.minimum(1 / laplace_scale(std), 700.0))))
    return float(np.mean(std)) * math.sqrt(0.5 if values.law is NoiseLaw.LAPLACE else 2 / math.pi)


def chernoff(scales: Sequence[tuple[float, int]], log_miss: float) -> float:
    """x with P(Σ Laplace > x) ≤ e^−log_miss, for independent noises given as (scale, how many)."""
    widest = max(scale for scale, _ in scales)

    def bound(share: float) -> float:
        moments = sum(-count * math.log1p(-((share * scale / widest) ** 2)) for scale, count in scales)
        return (log_miss + moments) * widest / share

    # Any share gives a valid bound, so the search need not be exact.
    # Slow to load, and nothing else needs it.
    from scipy.optimize import minimize_scalar

    return float(minimize_scalar(bound, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-9}).fun)


def sum_bound(values: Values, query_bins: int, sigma: float) -> float:
    """α such that the noise of a sum over ``query_bins`` bins is within ±α with probability at least 1 − σ.

    For Laplace and Gaussian noise of one width it is the quantile itself, so simulations meet it; for ``MIXED`` noise
    it is Chebyshev's bound, which holds whatever the noises of the bins have in common and lies far above most sums.

    >>> noise = Values(np.zeros(9, dtype=np.int64), std=14.13, law=NoiseLaw.LAPLACE)
    >>> round(sum_bound(noise, 1, 0.05)), round(sum_bound(noise, 9, 0.05))
    (30, 84)
    """
    _check(sigma, query_bins)
    std = float(np.max(values.std))
    if std == 0:
        return 0.0
    if query_bins == 1:
        return float(half_width(1 - sigma, std, values.law, integer=values.numbers.dtype.kind == "i"))
    match values.law:
        case NoiseLaw.LAPLACE:
            integer = values.numbers.dtype.kind == "i"
            scale = float(laplace_scale(np.asarray(std))) if integer else std / math.sqrt(2)
            return laplace_sum_quantile(scale, query_bins, sigma, integer=integer)
        case NoiseLaw.GAUSSIAN:
            return std * math.sqrt(query_bins) * NormalDist().inv_cdf(1 - sigma / 2)
        case NoiseLaw.SMOOTHED:
            # Each bin by itself: with probability 1 − σ all of them hold.
            return query_bins * float(half_width(1 - sigma / query_bins, std, values.law, integer=False))
        case NoiseLaw.SUM | NoiseLaw.MIXED | NoiseLaw.MODEL | NoiseLaw.FILTER:
            # The noises of a smoothing method, or the errors of a model, may all be one and the same.
            return std * query_bins / math.sqrt(sigma)


def decision_bound(plan: Plan, max_contribution: int, sigma: float) -> float:
    """x such that ρ − ν is above x with probability at most σ."""
    _check(sigma, 1)
    if not plan.decision:
        return 0.0
    scales = [(max_contribution / float(plan.epsilon_rho), 1), (max_contribution / float(plan.epsilon_nu), 1)]
    return chernoff(scales, math.log(1 / sigma))


def suggested_releases(guarantee: Guarantee, bins: int, population: int, steps: int, max_contribution: int = 1) -> int:
    """A public rule for the number C of releases per window: √(2εn/(U·l1)), between 1 and ``steps``.

    ``population`` is a public guess of how many people a snapshot holds, never counted from the data.

    >>> suggested_releases(Guarantee(1, w=120), bins=2304, population=500_000, steps=120)
    20
    """
    return min(max(1, math.isqrt(math.floor(2 * guarantee.pure * population / (bins * max_contribution)))), steps)


def distance_release(rule: DistanceRule, guarantee: Guarantee, bins: int, max_contribution: int) -> Values:
    """A release of zeros of a mechanism that releases by distance."""
    return release_of_zeros(rule.histogram, guarantee, rule.plan(guarantee, bins).share, bins, max_contribution)


def distance_usefulness(
    rule: DistanceRule, guarantee: Guarantee, bins: int, sigma: float, query_bins: int, max_contribution: int
) -> Useful:
    """Theorems 5.1 and 5.2, corrected: T + x after a negative answer, whatever the query."""
    plan = rule.plan(guarantee, bins)
    release = distance_release(rule, guarantee, bins, max_contribution)
    floor, above = rule.first_threshold(plan, release, bins, max_contribution)
    between = floor + above + decision_bound(plan, max_contribution, sigma) if plan.decision else None
    return Useful(sigma, query_bins, sum_bound(release, query_bins, sigma), between)


def distance_population(
    rule: DistanceRule, guarantee: Guarantee, bins: int, sigma: float, max_contribution: int
) -> int:
    """Theorem 5.3, corrected: n people move the distance by at most 2·l1·n."""
    plan = rule.plan(guarantee, bins)
    _, above = rule.first_threshold(
        plan, distance_release(rule, guarantee, bins, max_contribution), bins, max_contribution
    )
    return (
        math.ceil((above + decision_bound(plan, max_contribution, sigma)) / (2 * max_contribution))
        if plan.decision
        else 1
    )


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a stream would do if nothing changed, and how far its numbers could then be from the truth."""

    mechanism: str
    steps: int
    releases: int
    mean_error: float
    useful: tuple[Useful, ...]
    smallest_population: int | None
    quantiles: bool = True
    """Whether ``useful`` tells quantiles, which simulations meet, or bounds, which they stay below."""

    @property
    def lines(self) -> list[str]:
        """The forecast in words."""
        sentences = [
            f"{self.mechanism}: {self.releases} of {self.steps} steps release anew if nothing changes",
            f"the mean error of a bin is {self.mean_error:,.1f} at a release",
        ]
        for bound in self.useful:
            bins = "one bin" if bound.query_bins == 1 else f"a sum of {bound.query_bins:,} bins"
            kind = "" if self.quantiles or bound.query_bins == 1 else "a bound, most are far below: "
            sentences.append(
                f"{bins}: {kind}within ±{bound.at_release:,.0f} at a release, with probability {1 - bound.sigma:.0%}"
            )
        between = self.useful[0].between
        if between is None and self.releases < self.steps:
            sentences.append("between releases the error is what has changed since, without a bound")
        if between is not None:
            sentences.append(
                f"any sum of bins: a bound: within ±{between:,.0f} at a step that compares and keeps the last release, "
                f"with probability {1 - self.useful[0].sigma:.0%}"
            )
        if self.smallest_population is not None:
            sentences.append(
                f"decisions mean something from about {self.smallest_population:,} people on: with fewer, even a "
                "complete change drowns in the noise of the comparison"
            )
        return sentences


def forecast(
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    bins: int,
    max_contribution: int = 1,
    steps: int | None = None,
    sigma: float = 0.05,
) -> Forecast:
    """What to expect of any stream mechanism, from public facts alone; nothing is read and nothing is spent.

    >>> from veilstream.mechanisms.streams import FixedRate
    >>> for line in forecast(FixedRate(interval=6), Guarantee(1, w=24), bins=50, steps=48).lines:
    ...     print(line)
    FixedRate: 8 of 48 steps release anew if nothing changes
    the mean error of a bin is 4.0 at a release
    one bin: within ±12 at a release, with probability 95%
    a sum of 50 bins: within ±78 at a release, with probability 95%
    between releases the error is what has changed since, without a bound
    """
    wanted = min(steps or 2 * (guarantee.period or TRIAL_STEPS), TRIAL_STEPS)
    values = run_on_zeros(mechanism, guarantee, bins, max_contribution, max(1, min(wanted, TRIAL_NUMBERS // bins)))
    fresh = [value for value in values if value.fresh]
    sizes = sorted({1, bins})
    if isinstance(mechanism, ForecastsError):
        error = mechanism.expected_error(guarantee, bins, max_contribution)
        useful = [mechanism.usefulness(guarantee, bins, sigma, size, max_contribution) for size in sizes]
    else:
        error = float(np.mean([mean_error(value) for value in fresh]))
        worst = max(fresh, key=lambda value: float(np.max(value.std)))
        useful = [Useful(sigma, size, sum_bound(worst, size, sigma)) for size in sizes]
    people = (
        mechanism.smallest_population(guarantee, bins, sigma, max_contribution)
        if isinstance(mechanism, NeedsPopulation)
        else None
    )
    known = all(value.law not in (NoiseLaw.MIXED, NoiseLaw.FILTER, NoiseLaw.SMOOTHED) for value in fresh)
    return Forecast(type(mechanism).__name__, len(values), len(fresh), error, tuple(useful), people, known)


def _check(sigma: float, query_bins: int) -> None:
    if not 0 < sigma < 1:
        raise InvalidInputError(name="sigma", value=sigma, limit="a probability strictly between 0 and 1 is needed")
    if query_bins < 1:
        raise InvalidInputError(name="query_bins", value=query_bins, limit="at least 1 is needed")
