"""The only door from sealed counts to numbers: it charges first and draws afterwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.noise.cauchy import rounded_cauchy
from veilstream.noise.scale import LARGEST_SCALE
from veilstream.noise.spread import bounded_scale, laplace_law, laplace_std
from veilstream.noise.thinning import WordNoise, checked_sampling, thinned, thinned_scale
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.buffers import Buffers
from veilstream.privacy.charge import Charge, Names, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import sqrt_up
from veilstream.trusted.block_noise import NoiseBlock, block_variance, drawn_rows
from veilstream.trusted.correlated import CorrelatedNoise, next_answer, with_correlated
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.grids import coarser, finer
from veilstream.trusted.noisy_cells import TailNoise, noisy_cells
from veilstream.trusted.opening import open_counts, open_scores, opened
from veilstream.trusted.points import SealedFlow, carried, degrees, edges_of
from veilstream.trusted.records import SealedRecords
from veilstream.trusted.running import ROW_BITS, SealedRunning, weighted
from veilstream.trusted.statistics.base import JointScores, Scores, entries_of
from veilstream.trusted.statistics.dyadic import DyadicCosts, cheapest_partition
from veilstream.trusted.statistics.metric import SmoothValue
from veilstream.trusted.threshold import THRESHOLD_GRID, SealedThreshold
from veilstream.values.boxes import Boxes, cells_of
from veilstream.values.values import NoiseLaw, Values

D = TypeVar("D", np.bool_, np.int64)

MAX_SCALE = LARGEST_SCALE
"""The widest noise that a charge may ask for."""
MIN_SIGMA_BITS = 10
"""Gaussian noise is drawn on a grid at least this many bits finer than its standard deviation."""
PARTITION_GRID = 4
"""Costs of partitions have noise on multiples of 2⁻⁴."""
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
    ) -> NDArray[np.int64]: ...


class Meter:
    """Answers questions about sealed data, each for a charge that says what it bought.

    A unit moves a vector with ``l1`` per timestamp by at most min(w, steps of its span) · l1: that is the
    sensitivity to which noise is scaled, and the charge then counts in every window which the span touches. Where the
    stream pays per timestamp, all of this holds with the share of one timestamp in the place of the guarantee.
    PROOF.md has the theorems. What a method raises carries no frame that holds exact data.
    """

    def __init__(self, accountant: Accountant, noise: NoiseSource, t: int) -> None:
        accountant.advance(t)
        self._accountant = accountant
        self._noise = noise
        self._guarantee = accountant.answer_guarantee
        self.t = t
        self.charges: list[Charge] = []
        self._rows_used: set[tuple[int, int]] = set()

    @property
    def guarantee(self) -> Guarantee:
        """What answers are measured by: the stream's guarantee, or the share of one timestamp."""
        return self._guarantee

    @property
    def left(self) -> Fraction:
        """Pure epsilon left for one more answer about this step: a public number."""
        return self._accountant.answer_left

    @hide_frames
    def laplace(self, x: Sealed, epsilon: Fraction, purpose: str) -> Values:
        """``x`` plus exact discrete Laplace noise of scale sensitivity/epsilon on the grid of ``x``."""
        self._positive(epsilon, purpose)
        scale, std = laplace_law(self._sensitivity(x.span, x.l1), x.grid, epsilon, purpose)
        self._admit([self._charge(x, epsilon, purpose)])
        noise = self._noise.laplace(scale, self._draw_shape(x.size))
        return self._values(x, noise, std, NoiseLaw.LAPLACE)

    @hide_frames
    def flow_laplace(self, x: SealedFlow, epsilon: Fraction, purpose: str) -> Values:
        """``x`` plus exact discrete Laplace noise of scale flow/epsilon that runs along every edge of its grid.

        Neighbours differ by B·v, ‖v‖₁ ≤ flow. Noise N on the edges arrives as B·N, and x' + B·N = x + B·(v + N): what
        is seen has the chances of N under the one and of v + N under the other, a factor of e^ε apart at most. In
        the sum over a box of nodes all noise cancels but that of the edges at its boundary; the total is exact.
        """
        self._positive(epsilon, purpose)
        scale = bounded_scale(self._sensitivity(x.span, x.flow) / epsilon, purpose)
        self._admit([self._charge(x, epsilon, purpose)])
        noise = carried(self._noise.laplace(scale, self._draw_shape(edges_of(x.shape))), x.shape)
        noise += open_counts(x)
        return Values(noise, laplace_std(float(scale)) * np.sqrt(degrees(x.shape)), NoiseLaw.MIXED)

    @hide_frames
    def smooth_cauchy(self, x: SmoothValue, epsilon: Fraction, purpose: str) -> Values:
        """``x`` plus Cauchy noise of scale spread/(epsilon − smoothness), rounded and brought between its bounds.

        With s = ε − β, going from D to a neighbour D' shifts the law by at most s times its scale and then stretches it
        by at most e^β. A shift by s changes the density 1/(1 + z²) by a factor of at most e^{2 arsinh(s/2)} ≤ e^s, a
        stretch λ by (1 + λ²z²)/(λ(1 + z²)), between 1/λ and λ: together at most e^ε. Rounding and bounds come after.
        The scale is private, so the standard deviation is not public (NaN).
        """
        if not epsilon > x.smoothness:
            raise InvalidBudgetError(f"charge {epsilon} for {purpose!r}: above the smoothness {x.smoothness} is needed")
        if x.span.steps != 1 or not isinstance(self._noise, WordNoise):
            raise InvalidInputError(
                name="draw for", value=purpose, limit="it needs data of one step and a source of bits"
            )
        self._admit([Charge(epsilon, self._until_now(x.span), purpose)])
        value, spread = opened(x)
        scale, shape = spread / (epsilon - x.smoothness), self._draw_shape(1)
        drawn = [rounded_cauchy(value, scale, self._noise) for _ in range(math.prod(shape))]
        bounded = np.array([min(max(number, x.low), x.high) for number in drawn], dtype=np.int64)
        return Values(bounded.reshape(shape), math.nan)

    @hide_frames
    def sampled_laplace(self, x: Sealed, epsilon: Fraction, rate: Fraction, purpose: str) -> Values:
        """An unbiased estimate from a Bernoulli sample at ``rate`` of the counts ``x``, with less noise on the sample.

        The sample is drawn here, after the charge, and stays secret; see ``thinned_scale`` for the noise and its proof.
        The standard deviation is that of the noise alone, not of sampling, which depends on the counts.
        """
        self._positive(epsilon, purpose)
        checked_sampling(rate)
        if x.grid or not isinstance(self._noise, WordNoise):
            raise InvalidInputError(
                name="sample for", value=purpose, limit="it needs whole counts and a source of bits"
            )
        scale = bounded_scale(thinned_scale(epsilon, self._sensitivity(x.span, x.l1), rate), purpose)
        self._admit([self._charge(x, epsilon, purpose)])
        sample = thinned(np.maximum(open_counts(x), 0), rate, self._noise)
        noise = self._noise.laplace(scale, self._draw_shape(x.size))
        return Values((sample + noise) / float(rate), laplace_std(float(scale)) / float(rate), NoiseLaw.LAPLACE)

    @hide_frames
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
        charge = replace(self._charge(x, Fraction(0), purpose), mu_squared=mu_squared)
        return self._with_gaussian(open_counts(x), x.grid, variance, charge)

    @hide_frames
    def row_of(self, sums: SealedRunning, mu_squared: Fraction, purpose: str) -> Values:
        """The present row of a running sum, Σ c_s·x_s, plus exact discrete Gaussian noise.

        ``mu_squared`` is what the row costs a timestamp that it reads with weight 1, for a unit that is in as many
        timestamps as the guarantee lets it reach; others pay by the square of their weight. PROOF.md, "Rows of running
        sums", has the theorem.
        """
        self._positive(mu_squared, purpose)
        reach = self._reach(purpose)
        if sums.last != self.t:
            raise InvalidInputError(name="row for", value=purpose, limit=f"the sum ends at t={sums.last}, not {self.t}")
        variance = (reach * sums.l2) ** 2 / mu_squared
        charge = Charge(Fraction(0), sums.span, purpose, mu_squared, starts=sums.profile.encoded())
        exact = weighted(opened(sums), sums.weights())
        return self._with_gaussian(exact, sums.grid + ROW_BITS, variance, charge)

    @hide_frames
    def correlated(
        self, x: Sealed, buffers: Buffers, mu_squared: Fraction, purpose: str, past: CorrelatedNoise | None = None
    ) -> tuple[Values, CorrelatedNoise]:
        """``x`` plus noise that takes back most of what earlier answers added, and what the next answer goes on from.

        ``mu_squared`` is as in ``row_of``, and so is the standard deviation: that of the row's own noise. PROOF.md,
        "Rows by decaying buffers", has the theorem.
        """
        self._positive(mu_squared, purpose)
        answer = next_answer(x, self.t, buffers, mu_squared, self._reach(purpose), past)
        self._admit([Charge(Fraction(0), answer.span, purpose, mu_squared, starts=answer.profile.encoded())])
        fresh = self._noise.gaussian(answer.sigma, self._draw_shape(x.size))
        numbers, after = with_correlated(x, fresh, answer, past)
        return Values(numbers, answer.std, NoiseLaw.GAUSSIAN), after

    def _reach(self, purpose: str) -> int:
        """In how many timestamps one unit can be."""
        reach = self.guarantee.reach
        if reach is None:
            raise InvalidBudgetError(
                f"running sum for {purpose!r} under {self.guarantee}: it needs a window, or a bound on the steps in "
                "which a person counts"
            )
        return reach

    def _with_gaussian(self, exact: NDArray[np.int64], x_grid: int, variance: Fraction, charge: Charge) -> Values:
        """Exact values on a grid with noise of at least this variance, once the charge was admitted."""
        sigma_bits = math.isqrt(math.floor(variance * (1 << 60))).bit_length()
        grid = max(x_grid, MIN_SIGMA_BITS + 30 - sigma_bits + 1, 0)
        sigma = sqrt_up(variance * (1 << (2 * grid)) + 3)
        if sigma > MAX_SCALE:
            raise InvalidBudgetError(
                f"charge of mu² {charge.mu_squared} for {charge.purpose!r}: its noise would be wider than {MAX_SCALE} "
                "grid steps"
            )
        self._admit([charge])
        noise = self._noise.gaussian(sigma, self._draw_shape(exact.shape[-1]))
        noise += finer(exact, grid - x_grid)
        return Values(_off_grid(noise, grid), float(sigma) * 2.0**-grid, NoiseLaw.GAUSSIAN)

    @hide_frames
    def block_laplace(
        self, x: Sealed, epsilon: Fraction, length: int, purpose: str, block: NoiseBlock | None = None
    ) -> tuple[Values, NoiseBlock]:
        """``x`` plus the next row of a block of ``length`` rows of noise, charged once to every window that touches it.

        Without ``block`` a new one is drawn, with P(z) ∝ e^(−ε·max ‖z_t‖₁/l1): a unit that moves every one of its rows
        by l1 changes that by e^ε at most, in however many of them it is. No row is added to two vectors, whose
        difference would be exact: a block of which other looks are on record is refused (see ``is_open``). PROOF.md,
        "Noise over a block of steps", has the theorem.
        """
        if x.span.steps != 1 or x.grid or x.bins is not None:
            raise InvalidInputError(name="look for", value=purpose, limit="whole counts of one step are needed")
        if block is None:
            self._positive(epsilon, purpose)
            number = self._accountant.new_block()
            self._admit([Charge(epsilon, Span(self.t, self.t), purpose, block=number)])
            rows = drawn_rows(self._noise, epsilon / x.l1, length, x.size, self._draw_shape(0)[:-1], purpose)
            block = NoiseBlock(rows, number, self.t, epsilon, x.l1, purpose)
        elif not Meter.is_open(self, block):  # not a question of the mechanism's, which a subclass may record
            raise InvalidInputError(
                name="look for",
                value=purpose,
                limit="the block was closed, or rows of it were used by another look; open another",
            )
        if block.left < 1 or block.size != x.size or x.l1 > block.max_contribution or x.span.first < block.opened:
            raise InvalidInputError(name="look for", value=purpose, limit=f"it does not fit to {block!r}")
        self._admit([charge for charge in block.charges(self.t) if charge not in self.charges])
        self._rows_used.add((block.block, block.used))
        std = math.sqrt(block_variance(block.length, block.size, float(block.epsilon / block.max_contribution)))
        return Values(open_counts(x) + opened(block)[..., block.used, :], std), block.after_look(self.t)

    @hide_frames
    def select(self, scores: Scores, epsilon: Fraction, purpose: str) -> int:
        """A candidate i with probability exactly ∝ exp(epsilon · score_i / (2 · sensitivity))."""
        self._positive(epsilon, purpose)
        if scores.size == 0:
            raise InvalidInputError(name="select for", value=purpose, limit="no candidates")
        movement = self._sensitivity(scores.span, scores.sensitivity) * (1 if scores.one_sided else 2)
        self._admit([Charge(epsilon, self._until_now(scores.span), purpose, bins=self._named(scores.bins))])
        exact = open_scores(scores)
        return self._choose(exact.max() - exact, epsilon / movement)

    @hide_frames
    def select_each(self, scores: JointScores, epsilon: Fraction, purpose: str) -> NDArray[np.int64]:
        """One candidate for every question of ``scores``, for a single charge (see ``JointScores``)."""
        self._positive(epsilon, purpose)
        rate = epsilon / (2 * self._sensitivity(scores.span, scores.sensitivity))
        self._admit([Charge(epsilon, self._until_now(scores.span), purpose, bins=self._named(scores.bins))])
        (exact, lengths), entries = opened(scores), entries_of(scores)
        ends = np.cumsum(entries)
        gaps = np.repeat(np.maximum.reduceat(exact, ends - entries), entries) - exact
        return self._choose_each(gaps, entries, rate, lengths)

    @hide_frames
    def partition(self, costs: DyadicCosts, price: Fraction, epsilon: Fraction, purpose: str) -> NDArray[np.bool_]:
        """Where the blocks of the partition begin whose costs, with noise and a public ``price`` for each, are least.

        Every block of every level gets exact discrete Laplace noise of scale 2·sensitivity/epsilon, on a grid of 2⁻⁴;
        only the best partition is told, for one charge. PROOF.md, "The cheapest partition", has the theorem.
        """
        self._positive(epsilon, purpose)
        unit = 1 << PARTITION_GRID
        moved = self._sensitivity(costs.span, costs.sensitivity)
        scale = bounded_scale(2 * moved * unit / epsilon, purpose)
        self._admit([Charge(epsilon, self._until_now(costs.span), purpose, bins=self._named(costs.bins))])
        public = round(price * unit)
        levels = [level * unit + public + self._noise.laplace(scale, level.size) for level in opened(costs)]
        return cheapest_partition(levels)[: costs.size]

    @hide_frames
    def reaching(self, records: SealedRecords, level: int, epsilon: Fraction, purpose: str) -> Boxes:
        """The cells of a domain of any size whose count plus exact discrete Laplace noise is at least ``level``.

        The law is that of noise on every cell, empty ones too, of which only those that reach the public level are
        listed (see ``noisy_cells``).
        """
        self._positive(epsilon, purpose)
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

    @hide_frames
    def open_threshold(
        self, epsilon_rho: Fraction, epsilon_nu: Fraction, sensitivity: Fraction, purpose: str
    ) -> SealedThreshold:
        """Draw the secret noise of a sparse-vector block for queries of at most ``sensitivity``.

        Opening charges ``epsilon_rho``, and every positive answer ``epsilon_nu`` more, to each window that any
        comparison of the block reads, be it before or after the positive: a unit there can move ρ, and then all of the
        block's positives make good for it. A positive charges ``epsilon_nu`` once more for what it reads itself.
        Negative answers are free. A block with c positives: epsilon_rho + 2c·epsilon_nu. See PROOF.md, "Sparse vector".
        """
        for amount in (epsilon_rho, epsilon_nu):
            self._positive(amount, purpose)
        unit = sensitivity * (1 << THRESHOLD_GRID)
        bounded_scale(unit / epsilon_nu, purpose)
        scale = bounded_scale(unit / epsilon_rho, purpose)
        block = self._accountant.new_block()
        self._admit([Charge(epsilon_rho, Span(self.t, self.t), purpose, block=block)])
        rho = self._noise.laplace(scale, self._draw_shape(1))
        return SealedThreshold(rho, block, self.t, sensitivity, epsilon_rho, epsilon_nu, purpose)

    @hide_frames
    def above(self, threshold: SealedThreshold, x: Sealed, level: float) -> bool:
        """Whether x + ν ≥ level + ρ, for a one-number ``x`` and a public ``level``.

        A finer ``x`` is rounded down to the grid of thresholds: numbers that are at most D apart are so after it as
        well if D is on that grid, to which it is rounded up here.
        """
        moved = self._sensitivity(x.span, x.l1)
        if x.grid > THRESHOLD_GRID:
            moved = Fraction(math.ceil(moved * (1 << THRESHOLD_GRID)), 1 << THRESHOLD_GRID)
        if x.size != 1 or moved > threshold.sensitivity:
            raise InvalidInputError(
                name="comparison for",
                value=threshold.purpose,
                limit=f"{x.size} values of sensitivity {moved}, where one value of at most {threshold.sensitivity} is "
                "needed",
            )
        block = self._accountant.open_block(threshold.block)
        if block is None:
            raise InvalidInputError(
                name="comparison for",
                value=threshold.purpose,
                limit="the block was closed; open another threshold (see Meter.is_open)",
            )
        purpose, nu = threshold.purpose, threshold.epsilon_nu
        read = self._until_now(x.span)
        # At event level a block that was not compared for some time has not read what lay between.
        span = read if self.guarantee.w == 1 else Span(min(block.first, read.first), self.t)
        grown = Charge(block.amount, span, purpose, block=threshold.block)
        everywhere = Span(min(block.first, read.first), self.t)
        own = Charge(nu, read, purpose)
        self._admit([] if grown in self.charges else [grown], tentative=[Charge(nu, everywhere, purpose), own])
        scale = bounded_scale(threshold.sensitivity * (1 << THRESHOLD_GRID) / nu, purpose)
        noise = self._noise.laplace(scale, self._draw_shape(1))
        value = coarser(finer(open_counts(x), THRESHOLD_GRID - x.grid), x.grid - THRESHOLD_GRID) + noise
        answer = bool(self.branch((value >= round(level * (1 << THRESHOLD_GRID)) + opened(threshold))[..., 0]))
        if answer:
            self._admit([replace(grown, epsilon=block.amount + nu), own])
        return answer

    def is_open(self, block: SealedThreshold | NoiseBlock) -> bool:
        """Whether a block can still be asked, by the charges on record: a public fact.

        A step that failed keeps its charges, and so the end of blocks that it closed and the rows of noise that it
        used, though not the mechanism's state.
        """
        known = self._accountant.open_block(block.block)
        if known is None or isinstance(block, SealedThreshold):
            return known is not None
        return known.last == block.looked and (block.block, block.used) not in self._rows_used

    def close(self, threshold: SealedThreshold) -> None:
        """The block will not be compared with any more; what it cost stays."""
        block = Span(threshold.opened, self.t)
        self._admit([Charge(Fraction(0), block, threshold.purpose, block=threshold.block)])

    def branch(self, decision: NDArray[D]) -> NDArray[D]:
        """``decision`` as it is: truth values or whole numbers made of what this meter answered.

        A mechanism that branches on noisy numbers asks here first, ``if meter.branch(noisy > 5):``, so that a meter
        that simulates many runs at once can see where they part. It is public and costs nothing.

        >>> from veilstream.noise import SecureNoise
        >>> meter = Meter(Accountant(Guarantee(1, w=1), bins=2), SecureNoise(), t=0)
        >>> meter.branch(np.array([True, False])).tolist()
        [True, False]
        """
        decision = np.asarray(decision)
        if decision.dtype.kind not in "biu":
            raise InvalidInputError(
                name="decision of type", value=str(decision.dtype), limit="truth values or whole numbers are needed"
            )
        return decision

    def _draw_shape(self, size: int) -> tuple[int, ...]:
        """The shape of a draw of ``size`` numbers."""
        return (size,)

    def _choose(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        """A candidate with probability ∝ e^(-rate · gap)."""
        return self._noise.select(gaps, rate)

    def _choose_each(
        self,
        gaps: NDArray[np.int64],
        entries: NDArray[np.int64],
        rate: Fraction,
        lengths: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """A candidate for each question, which has as many successive gaps as ``entries`` says."""
        if isinstance(self._noise, JointNoise):
            return self._noise.select_each(gaps, entries, rate, lengths)
        ends = np.cumsum(entries)
        parts = [slice(end - size, end) for end, size in zip(ends.tolist(), entries.tolist(), strict=True)]
        listed = [gaps[part] if lengths is None else np.repeat(gaps[part], lengths[part]) for part in parts]
        return np.array([self._noise.select(one, rate) for one in listed], dtype=np.int64)

    def _admit(self, charges: Sequence[Charge], tentative: Sequence[Charge] = ()) -> None:
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

    def _sensitivity(self, span: Span, per_step: Fraction) -> Fraction:
        times = self.guarantee.steps_at_once(span.steps)
        return per_step if times == 1 else per_step * times

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
