"""Answers with Laplace and Cauchy noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.noise.cauchy import rounded_cauchy
from veilstream.noise.spread import bounded_scale, laplace_law, laplace_std
from veilstream.noise.thinning import WordNoise, checked_sampling, thinned, thinned_scale
from veilstream.privacy.charge import Charge
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.grids import off_grid
from veilstream.trusted.meter.questions import Questions
from veilstream.trusted.opening import open_counts, opened
from veilstream.trusted.points import SealedFlow, carried, degrees, edges_of
from veilstream.trusted.statistics.metric import SmoothValue
from veilstream.values.values import NoiseLaw, Values


class LaplaceAnswers(Questions):
    """Sealed numbers plus noise of pure ε, drawn anew for every answer."""

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

    def _values(self, x: Sealed, noise: NDArray[np.int64], std: float, law: NoiseLaw) -> Values:
        # The draw is nobody else's: adding into it spares a fresh array, which costs more than the sum.
        noise += open_counts(x)
        if x.grid == 0:
            return Values(noise, std, law)
        return Values(off_grid(noise, x.grid), std * 2.0**-x.grid, law)
