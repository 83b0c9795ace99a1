"""Answers with Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.privacy.buffers import Buffers
from veilstream.privacy.charge import Charge
from veilstream.privacy.rationals import sqrt_up
from veilstream.trusted.correlated import CorrelatedNoise, next_answer, with_correlated
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.grids import finer, off_grid
from veilstream.trusted.meter.questions import MAX_SCALE, Questions
from veilstream.trusted.opening import open_counts, opened
from veilstream.trusted.running import ROW_BITS, SealedRunning, weighted
from veilstream.values.values import NoiseLaw, Values

MIN_SIGMA_BITS = 10
"""Gaussian noise is drawn on a grid at least this many bits finer than its standard deviation."""


class GaussianAnswers(Questions):
    """Sealed numbers plus Gaussian noise, charged by μ²."""

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
        return Values(off_grid(noise, grid), float(sigma) * 2.0**-grid, NoiseLaw.GAUSSIAN)
