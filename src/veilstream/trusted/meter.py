"""The only door from sealed counts to numbers: it charges first and draws afterwards."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NoReturn, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.noise.cauchy import rounded_cauchy
from veilstream.noise.scale import LARGEST_SCALE
from veilstream.noise.spread import bounded_scale, laplace_law, laplace_std
from veilstream.noise.thinning import WordNoise, checked_sampling, thinned, thinned_scale
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Names, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import sqrt_up
from veilstream.trusted.counts import Sealed
from veilstream.trusted.noisy_cells import TailNoise, noisy_cells
from veilstream.trusted.opening import open_counts
from veilstream.trusted.points import SealedFlow, carried, degrees, edges_of
from veilstream.trusted.records import SealedRecords
from veilstream.trusted.statistics import JointScores, Scores
from veilstream.trusted.statistics.metric import SmoothValue
from veilstream.values.boxes import Boxes, cells_of
from veilstream.values.values import NoiseLaw, Values

D = TypeVar("D", np.bool_, np.int64)

MAX_SCALE = LARGEST_SCALE
"""The widest noise that a charge may ask for."""
MIN_SIGMA_BITS = 10
"""Gaussian noise is drawn on a grid at least this many bits finer than its standard deviation."""
THRESHOLD_GRID = 8
MAX_LISTED = 1 << 22
"""The most empty cells that a sparse release may be expected to list."""


class NoiseSource(Protocol):
    """What the Meter draws from: ``SecureNoise`` for releases, a seeded sampler in simulations."""

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]: ...
    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]: ...
    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int: ...


@runtime_checkable
class JointNoise(Protocol):
    """A source that chooses for many questions at once; others are asked question by question."""

    def select_each(
        self,
        gaps: NDArray[np.int64],
        sizes: NDArray[np.int64],
        rate: Fraction,
        lengths: NDArray[np.int64] | None = None,
        repeats: int = 1,
    ) -> NDArray[np.int64]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Threshold:
    """An open sparse-vector block: a secret noise ρ that is compared with again and again.

    Its fields but ``rho`` are public. Close it with ``Meter.close`` when it will not be used any more.
    """

    block: int
    opened: int
    sensitivity: Fraction
    epsilon_rho: Fraction
    epsilon_nu: Fraction
    purpose: str
    rho: NDArray[np.int64] = field(repr=False)


class Meter:
    """Answers questions about sealed data, each for a charge that says what it bought.

    A unit moves a vector with ``l1`` per timestamp by at most min(w, steps of its span) · l1: that is the
    sensitivity to which noise is scaled, and the charge then counts in every window which the span touches.
    """

    def __init__(self, accountant: Accountant, noise: NoiseSource, t: int, batch: tuple[int, ...] = ()) -> None:
        accountant.advance(t)
        self._accountant = accountant
        self._guarantee = accountant.guarantee
        self._noise = noise
        self._batch = batch
        self.t = t
        self.charges: list[Charge] = []

    @property
    def guarantee(self) -> Guarantee:
        return self._guarantee

    def per_timestamp(self) -> Self:
        """This meter for a mechanism that pays bin by bin and timestamp by timestamp under any protected window w.

        Its guarantee is that of one timestamp, ε/w, where one unit lies in one bin: bins are charged apart, and what a
        window costs is what its timestamps cost. A stream that pays so does so from its first charge on.
        """
        if self._guarantee.w == 1:
            return self
        self._accountant.charge_per_timestamp()
        other = copy.copy(self)
        other._guarantee = self._guarantee.per_timestamp()
        return other

    @property
    def left(self) -> Fraction:
        """Pure epsilon left in the fullest window that includes this step: a public number."""
        left, whole = self._accountant.left, self._accountant.guarantee
        return left if whole is self._guarantee or whole.w is None else left / whole.w

    def laplace(self, x: Sealed, epsilon: Fraction, purpose: str) -> Values:
        """``x`` plus exact discrete Laplace noise of scale sensitivity/epsilon on the grid of ``x``."""
        self._positive(epsilon, purpose)
        scale, std = laplace_law(self._sensitivity(x.span, x.l1), x.grid, epsilon, purpose)
        self._admit([self._charge(x, epsilon, purpose)])
        noise = self._noise.laplace(scale, self._size(x))
        return self._values(x, noise, std, NoiseLaw.LAPLACE)

    def flow_laplace(self, x: SealedFlow, epsilon: Fraction, purpose: str) -> Values:
        """``x`` plus exact discrete Laplace noise of scale flow/epsilon that runs along every edge of its grid.

        Neighbours differ by B·v, ‖v‖₁ ≤ flow. Noise N on the edges arrives as B·N, and x' + B·N = x + B·(v + N): what
        is seen has the chances of N under the one and of v + N under the other, a factor of e^ε apart at most. In
        the sum over a box of nodes all noise cancels but that of the edges at its boundary; the total is exact.
        """
        self._positive(epsilon, purpose)
        scale = bounded_scale(self._sensitivity(x.span, x.flow) / epsilon, purpose)
        self._admit([self._charge(x, epsilon, purpose)])
        noise = carried(self._noise.laplace(scale, (*self._batch, edges_of(x.shape))), x.shape)
        noise += open_counts(x)
        return Values(noise, laplace_std(float(scale)) * np.sqrt(degrees(x.shape)), NoiseLaw.MIXED)

    def smooth_cauchy(self, x: SmoothValue, epsilon: Fraction, purpose: str) -> Values:
        """``x`` plus Cauchy noise of scale spread/(epsilon − smoothness), rounded and brought between its bounds.

        With s = ε − β, going from D to a neighbour D' shifts the law by at most s times its scale and then stretches it
        by at most e^β. A shift by s changes the density 1/(1 + z²) by a factor of at most e^{2 arsinh(s/2)} ≤ e^s, a
        stretch λ by (1 + λ²z²)/(λ(1 + z²)), between 1/λ and λ: together at most e^ε. Rounding and bounds come after.
        The scale is private, so the standard deviation is not told (NaN).
        """
        if not epsilon > x.smoothness:
            raise InvalidBudgetError(f"charge {epsilon} for {purpose!r}: above the smoothness {x.smoothness} is needed")
        if x.span.steps != 1 or not isinstance(self._noise, WordNoise):
            raise InvalidInputError(
                name="draw for", value=purpose, limit="it needs data of one step and a source of bits"
            )
        self._admit([Charge(epsilon, self._until_now(x.span), purpose)])
        scale = x._spread / (epsilon - x.smoothness)  # pyright: ignore[reportPrivateUsage]
        value, source = x._value, self._noise  # pyright: ignore[reportPrivateUsage]
        drawn = [rounded_cauchy(value, scale, source) for _ in range(math.prod(self._batch))]
        bounded = np.array([min(max(number, x.low), x.high) for number in drawn], dtype=np.int64)
        return Values(bounded.reshape(*self._batch, 1), math.nan)

    def sampled_laplace(self, x: Sealed, epsilon: Fraction, rate: Fraction, purpose: str) -> Values:
        """An unbiased estimate from a Bernoulli sample at ``rate`` of the counts ``x``, with less noise on the sample.

        The sample is drawn here, after the charge, and stays secret; see ``thinned_scale`` for the noise and its proof.
        The standard deviation is that of the noise alone, not of sampling, which depends on the counts.
        """
        self._positive(epsilon, purpose)
        self._one_run("samples")
        checked_sampling(rate)
        if x.grid or not isinstance(self._noise, WordNoise):
            raise InvalidInputError(
                name="sample for", value=purpose, limit="it needs whole counts and a source of bits"
            )
        scale = bounded_scale(thinned_scale(epsilon, self._sensitivity(x.span, x.l1), rate), purpose)
        self._admit([self._charge(x, epsilon, purpose)])
        sample = thinned(np.maximum(open_counts(x), 0), rate, self._noise)
        noise = self._noise.laplace(scale, self._size(x))
        return Values((sample + noise) / float(rate), laplace_std(float(scale)) / float(rate), NoiseLaw.LAPLACE)

    def gaussian(self, x: Sealed, mu_squared: Fraction, purpose: str) -> Values:
        """``x`` plus exact discrete Gaussian noise, for a charge of μ² = (L2 sensitivity/σ)².

        The grid h is refined until σ ≥ 2¹⁰·h, and the variance is raised by 3h². For a discrete Gaussian of
        variance σ² on hℤ equals, up to a factor within 1 ± 2⁻⁸² at every point, a continuous one of variance
        σ² − 3h² that is rounded at random by a discrete Gaussian of variance 3h² (the mass of the latter on a shifted
        grid is constant up to 2e^{−2π²·3}). So it is a post-processing of the continuous mechanism, and the
        guarantee's spare 2⁻³⁰ pays for those factors up to 2⁵⁰ coordinates.
        """
        self._positive(mu_squared, purpose)
        variance = self._sensitivity(x.span, x.l2) ** 2 / mu_squared
        whole = math.isqrt(math.floor(variance * (1 << 60)))
        finer = max(x.grid, MIN_SIGMA_BITS + 30 - whole.bit_length() + 1, 0)
        sigma = sqrt_up(variance * (1 << (2 * finer)) + 3)
        if sigma > MAX_SCALE:
            raise InvalidBudgetError(
                f"charge of mu² {mu_squared} for {purpose!r}: its noise would be wider than {MAX_SCALE} grid steps"
            )
        self._admit([replace(self._charge(x, Fraction(0), purpose), mu_squared=mu_squared)])
        noise = self._noise.gaussian(sigma, self._size(x))
        exact = (open_counts(x) << (finer - x.grid)) + noise
        return Values(_off_grid(exact, finer), float(sigma) * 2.0**-finer, NoiseLaw.GAUSSIAN)

    def select(self, scores: Scores, epsilon: Fraction, purpose: str) -> int:
        """A candidate i with probability exactly ∝ exp(epsilon · score_i / (2 · sensitivity))."""
        self._positive(epsilon, purpose)
        if scores.size == 0:
            raise InvalidInputError(name="select for", value=purpose, limit="no candidates")
        movement = self._sensitivity(scores.span, scores.sensitivity) * (1 if scores.one_sided else 2)
        self._admit([Charge(epsilon, self._until_now(scores.span), purpose, bins=self._named(scores.bins))])
        exact = scores._exact  # pyright: ignore[reportPrivateUsage]
        gaps, rate = exact.max() - exact, epsilon / movement
        if self._batch:
            return int(self._chosen_by_runs(gaps, np.array([gaps.size], dtype=np.int64), rate, None)[0])
        return self._noise.select(gaps, rate)

    def select_each(self, scores: JointScores, epsilon: Fraction, purpose: str) -> NDArray[np.int64]:
        """One candidate for every question of ``scores``, for a single charge (see ``JointScores``)."""
        self._positive(epsilon, purpose)
        rate = epsilon / (2 * self._sensitivity(scores.span, scores.sensitivity))
        self._admit([Charge(epsilon, self._until_now(scores.span), purpose, bins=self._named(scores.bins))])
        exact, lengths = scores._exact, scores._lengths  # pyright: ignore[reportPrivateUsage]
        entries = scores._entries  # pyright: ignore[reportPrivateUsage]
        ends = np.cumsum(entries)
        gaps = np.repeat(np.maximum.reduceat(exact, ends - entries), entries) - exact
        if self._batch:
            return self._chosen_by_runs(gaps, entries, rate, lengths)
        if isinstance(self._noise, JointNoise):
            return self._noise.select_each(gaps, entries, rate, lengths)
        listed = gaps if lengths is None else np.repeat(gaps, lengths)
        parts = np.split(listed, np.cumsum(scores.sizes)[:-1])
        return np.array([self._noise.select(part, rate) for part in parts], dtype=np.int64)

    def reaching(self, records: SealedRecords, level: int, epsilon: Fraction, purpose: str) -> Boxes:
        """The cells of a domain of any size whose count plus exact discrete Laplace noise is at least ``level``.

        The law is that of noise on every cell, empty ones too, of which only those that reach the public level are
        listed (see ``noisy_cells``).
        """
        self._positive(epsilon, purpose)
        self._one_run("lists of cells")
        scale = bounded_scale(self._sensitivity(records.span, records.l1) / epsilon, purpose)
        if type(level) is not int or level < 1:
            raise InvalidInputError(f"level {level!r} for {purpose!r}: a whole number from 1")
        expected = math.log(cells_of(records.shape)) - float(level / scale)
        if expected > math.log(MAX_LISTED):
            raise InvalidInputError(
                f"level {level} for {purpose!r}: about e^{expected:.0f} empty cells would reach it, at most "
                f"{MAX_LISTED} are listed"
            )
        if not isinstance(self._noise, TailNoise):
            raise InvalidInputError(name="noise for", value=purpose, limit="it cannot draw for whole domains")
        self._admit([Charge(epsilon, self._until_now(records.span), purpose)])
        cells, values = noisy_cells(records, level, scale, self._noise)
        return Boxes(records.shape, cells, cells + 1, values.astype(np.float64), laplace_std(float(scale)))

    def open_threshold(
        self, epsilon_rho: Fraction, epsilon_nu: Fraction, sensitivity: Fraction, purpose: str
    ) -> Threshold:
        """Draw the secret noise of a sparse-vector block for queries of at most ``sensitivity``.

        Opening charges ``epsilon_rho``, once, over all the steps at which the block will be compared. Every positive
        answer charges ``epsilon_nu`` over the block so far (it makes good for a moved ρ) and ``epsilon_nu`` at its own
        step; negative answers are free. Over a whole block with c positives: epsilon_rho + 2c·epsilon_nu.
        """
        for amount in (epsilon_rho, epsilon_nu):
            self._positive(amount, purpose)
        unit = sensitivity * (1 << THRESHOLD_GRID)
        bounded_scale(unit / epsilon_nu, purpose)
        scale = bounded_scale(unit / epsilon_rho, purpose)
        block = self._accountant.new_block()
        self._admit([Charge(epsilon_rho, Span(self.t, self.t), purpose, block=block)])
        rho = self._noise.laplace(scale, (*self._batch, 1))
        return Threshold(block, self.t, sensitivity, epsilon_rho, epsilon_nu, purpose, rho)

    def above(self, threshold: Threshold, x: Sealed, level: float) -> bool:
        """Whether x + ν ≥ level + ρ, for a one-number ``x`` and a public ``level``."""
        moved = self._sensitivity(x.span, x.l1)
        if x.size != 1 or x.grid > THRESHOLD_GRID or moved > threshold.sensitivity:
            raise InvalidInputError(
                name="comparison for",
                value=threshold.purpose,
                limit=f"{x.size} values of sensitivity {moved} on grid 2^-{x.grid}, where one value of at most "
                f"{threshold.sensitivity} on 2^-{THRESHOLD_GRID} is needed",
            )
        purpose, nu = threshold.purpose, threshold.epsilon_nu
        block = Span(min(threshold.opened, x.span.first), self.t)
        grown = Charge(threshold.epsilon_rho, block, purpose, block=threshold.block)
        positive = [Charge(nu, block, purpose), Charge(nu, self._until_now(x.span), purpose)]
        self._admit([] if grown in self.charges else [grown], tentative=positive)
        scale = bounded_scale(threshold.sensitivity * (1 << THRESHOLD_GRID) / nu, purpose)
        noise = self._noise.laplace(scale, (*self._batch, 1))
        value = (open_counts(x) << (THRESHOLD_GRID - x.grid)) + noise
        answer = bool(self.branch((value >= round(level * (1 << THRESHOLD_GRID)) + threshold.rho)[..., 0]))
        if answer:
            self._admit(positive)
        return answer

    def close(self, threshold: Threshold) -> None:
        """The block will not be compared with any more; what it cost stays."""
        whole = Span(threshold.opened, self.t)
        self._admit([Charge(Fraction(0), whole, threshold.purpose, block=threshold.block)])

    def branch(self, decision: NDArray[D]) -> NDArray[D]:
        """The decision that all runs agree on, where many are simulated at once; in a single run ``decision`` itself.

        A mechanism that branches on numbers which the Meter gave it asks here first: ``if meter.branch(noisy > 5):``.
        A decision is one or several truth values or whole numbers, behind the axis of the runs if there is one. It is
        public and costs nothing.

        >>> from veilstream.noise import SecureNoise
        >>> meter = Meter(Accountant(Guarantee(1, w=1), bins=2), SecureNoise(), t=0)
        >>> meter.branch(np.array([True, False])).tolist()
        [True, False]
        """
        decision = np.asarray(decision)
        if decision.dtype.kind not in "biu":
            raise InvalidInputError(f"decision of type {decision.dtype}: truth values or whole numbers are needed")
        if not self._batch:
            return decision
        flat = decision.reshape(math.prod(self._batch), -1)
        if (flat != flat[0]).any():
            self._disagreed(flat)
        return np.asarray(flat[0].reshape(decision.shape[len(self._batch) :]))

    def _disagreed(self, decisions: NDArray[Any]) -> NoReturn:
        """Runs, one a row, have come to different decisions."""
        raise InvalidInputError(
            f"decisions of {len(decisions)} runs at once: they differ and cannot go on together; simulate run by run"
        )

    def _chosen_by_runs(
        self,
        gaps: NDArray[np.int64],
        entries: NDArray[np.int64],
        rate: Fraction,
        lengths: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """Scores are the same for all runs, choices are not."""
        if not isinstance(self._noise, JointNoise):
            raise InvalidInputError("choices of many runs at once: the source of noise makes one; simulate run by run")
        chosen = self._noise.select_each(gaps, entries, rate, lengths, math.prod(self._batch))
        return self.branch(chosen.reshape(*self._batch, entries.size))

    def _admit(self, charges: Sequence[Charge], tentative: Sequence[Charge] = ()) -> None:
        if self._accountant.unnamed:
            charges = [replace(charges[0], bins=np.arange(self._accountant.bins)), *charges[1:]] if charges else charges
        self._accountant.admit(charges, tentative)
        self.charges.extend(charges)

    def _charge(self, x: Sealed, epsilon: Fraction, purpose: str) -> Charge:
        bins = self._named(x.bins)
        if bins is None or x.starts is None:
            return Charge(epsilon, self._until_now(x.span), purpose, bins=bins)
        last = min(self._until_now(x.span).last, x.span.last)
        first = int(x.starts.min(initial=last))
        return Charge(epsilon, Span(first, last), purpose, bins=bins, starts=x.starts)

    def _named(self, bins: Names | None) -> Names | None:
        return bins if self.guarantee.w == 1 else None

    def _until_now(self, span: Span) -> Span:
        if span.last > self.t:
            raise InvalidInputError(f"data of t={span.last} at step {self.t}: it is not past yet")
        return Span(span.first, self.t)

    def _one_run(self, what: str) -> None:
        if self._batch:
            raise InvalidInputError(f"{what} cannot be made for many runs at once; simulate run by run")

    def _sensitivity(self, span: Span, per_step: Fraction) -> Fraction:
        times = self.guarantee.steps_at_once(span.steps)
        return per_step if times == 1 else per_step * times

    def _size(self, x: Sealed) -> tuple[int, ...]:
        return (*self._batch, x.size)

    def _values(self, x: Sealed, noise: NDArray[np.int64], std: float, law: NoiseLaw) -> Values:
        # The draw is nobody else's: adding into it spares a fresh array, which costs more than the sum.
        noise += open_counts(x)
        if x.grid == 0:
            return Values(noise, std, law)
        return Values(_off_grid(noise, x.grid), std * 2.0**-x.grid, law)

    def _positive(self, amount: Fraction, purpose: str) -> None:
        if not amount.numerator > 0:
            raise InvalidBudgetError(f"charge {amount} for {purpose!r}: it must be above 0")


def _off_grid(exact: NDArray[np.int64], grid: int) -> NDArray[np.float64]:
    return np.ldexp(exact.astype(np.float64), -grid)
