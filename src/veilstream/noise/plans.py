"""How one law at one scale is drawn: which tables, how they combine, and why the result is exact."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.noise.interval import WORD_BITS, Interval, LazyUniform, exp_neg
from veilstream.noise.inverse import BLOCK, InverseTable
from veilstream.noise.laws import DiscreteGaussian, GeometricDigit, HalfGaussian, SignedGeometric
from veilstream.noise.source import BitSource

LARGEST_DRAW: Final = 1 << 62
"""Draws saturate here. At scale 10^12 that takes over six million equal random bits in a row, P < exp(-4.6 ·
10^6)."""

_CACHED_PLANS: Final = 32
_MARGIN: Final = 2.0**-40


@dataclass(frozen=True, slots=True)
class Grain:
    """How coarsely a scale is split: fewer, larger tables draw faster and take longer to build.

    Tables that are looked up by few bits stay in the processor's first cache and leave more draws to be sorted.
    """

    digit_bits: int
    laplace_table_scale: int
    gaussian_table_sigma: int
    lookup_bits: int


COARSE: Final = Grain(digit_bits=4, laplace_table_scale=2, gaussian_table_sigma=8, lookup_bits=0)
SMALL: Final = Grain(digit_bits=8, laplace_table_scale=16, gaussian_table_sigma=16, lookup_bits=13)
MEDIUM: Final = Grain(digit_bits=8, laplace_table_scale=8, gaussian_table_sigma=16, lookup_bits=16)
FINE: Final = Grain(digit_bits=8, laplace_table_scale=128, gaussian_table_sigma=128, lookup_bits=16)
_SMALL_FROM: Final = 1 << 11
_MEDIUM_FROM: Final = 1 << 15
_FINE_FROM: Final = 1 << 17


def grain_for(count: int) -> Grain:
    """Depends on the request alone, so that a seeded source reproduces its draws whatever was drawn
    before."""
    if count < _MEDIUM_FROM:
        return COARSE if count < _SMALL_FROM else SMALL
    return MEDIUM if count < _FINE_FROM else FINE


class LaplacePlan:
    """Discrete Laplace, P(X = x) ∝ e^(-|x|/t): a signed high part and independent digits below it.

    X = Y or ~Y with Y geometric and independent of the sign
    (:class:`~veilstream.noise.laws.SignedGeometric`); the digits of Y are independent of each other
    (:class:`~veilstream.noise.laws.GeometricDigit`). Each is drawn exactly by
    :class:`~veilstream.noise.inverse.InverseTable`, so X is exact.
    """

    __slots__ = ("_digit_bits", "_digits", "_high")

    def __init__(self, scale: Fraction, grain: Grain) -> None:
        base = 1 << grain.digit_bits
        digits: list[InverseTable] = []
        block = 1
        while scale / block > grain.laplace_table_scale:
            law = GeometricDigit(scale / block, base)
            digits.append(InverseTable(law, lookup_bits=grain.lookup_bits))
            block *= base
        high = SignedGeometric(scale, block, LARGEST_DRAW // block)
        self._high = InverseTable(high, lookup_bits=grain.lookup_bits)
        self._digits = tuple(reversed(digits))
        self._digit_bits = grain.digit_bits

    def fill(self, source: BitSource, out: NDArray[np.int64]) -> None:
        """Fills ``out`` with independent draws."""
        for start in range(0, out.size, BLOCK):
            part = out[start : start + BLOCK]
            high = self._high.draw(source, part.size)
            if not self._digits:
                part[:] = high
                continue
            sign = high >> 63
            high ^= sign
            for digit in self._digits:
                high <<= self._digit_bits
                high |= digit.draw(source, part.size)
            np.bitwise_xor(high, sign, out=part)


class GaussianPlan:
    """Discrete Gaussian, P(X = x) ∝ e^(-x²/2σ²): by inversion for small σ, else by rejection under a
    staircase.

    With m a power of two and τ = σ/m, propose |X| = m·z + l with P(z) ∝ e^(-z²/2τ²) by inversion and l
    uniform on 0..m-1; accept with probability e^-γ, γ = l(2mz + l)/2σ², the ratio of the target to the step
    it lies under. The sign is a fair bit and -0 is rejected, so that each x has its exact relative weight.
    About 1/τ of the proposals fail.
    """

    __slots__ = ("_half_inverse_square", "_low_bits", "_sigma", "_table")

    def __init__(self, sigma: Fraction, grain: Grain) -> None:
        low_bits = 0
        while sigma / (1 << low_bits) >= grain.gaussian_table_sigma:
            low_bits += 1
        tau = sigma / (1 << low_bits)
        limit = LARGEST_DRAW >> low_bits
        law = HalfGaussian(tau, limit - 1) if low_bits else DiscreteGaussian(sigma, limit)
        self._table = InverseTable(law, lookup_bits=grain.lookup_bits)
        self._sigma = sigma
        self._low_bits = low_bits
        self._half_inverse_square = float(1 / (2 * tau**2))

    def fill(self, source: BitSource, out: NDArray[np.int64]) -> None:
        """Fills ``out`` with independent draws."""
        done = 0
        while done < out.size:
            part = out[done : done + BLOCK]
            if self._low_bits:
                accepted = self._propose(source, part.size)
                done += accepted.size
                part[: accepted.size] = accepted
            else:
                part[:] = self._table.draw(source, part.size)
                done += part.size

    def _propose(self, source: BitSource, count: int) -> NDArray[np.int64]:
        """What is accepted of ``count`` proposals."""
        step = self._table.draw(source, count)
        word = source.words(count)
        low = (word & np.uint64((1 << self._low_bits) - 1)).view(np.int64)
        sign = word.view(np.int64) >> 63
        value = step << self._low_bits | low
        accepted = self._accept(source, step, low)
        accepted &= (value != 0) | (sign == 0)
        return ((value ^ sign) - sign)[accepted]

    def _accept(self, source: BitSource, step: NDArray[np.int64], low: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Bernoulli(e^-γ) for each proposal.

        γ = f(2z + f)/2τ² with f = l/m is computed in floating point with a relative error below 2^-50 (f is
        exact, the rest are correctly rounded operations). (1) U < 1 - γ <= e^-γ is accepted if 32 bits of U
        show it with 2^-32 to spare, which is far above the rounding. (2) Of the others, 64 bits of U are
        compared with e^-γ, whose error is below 2^-47 even if the exponential is wrong by eight units, under
        a margin of 2^-40. (3) Within the margin the exact rational γ and further bits of U decide.
        """
        fraction = low * 2.0**-self._low_bits
        gamma = fraction * (2.0 * step + fraction) * self._half_inverse_square
        short = source.words(-(-step.size // 2)).view(np.uint32)[: step.size]
        accepted = short * 2.0**-32 + gamma < 1 - 2.0**-31
        doubtful = np.flatnonzero(~accepted)
        rest = source.words(doubtful.size) >> np.uint64(32)
        prefixes = short[doubtful].astype(np.uint64) << np.uint64(32) | rest
        excess = (prefixes >> np.uint64(11)) * 2.0**-53 - np.exp(-gamma[doubtful])
        accepted[doubtful] = excess < 0
        for tie in np.flatnonzero(np.abs(excess) < _MARGIN).tolist():
            row = int(doubtful[tie])
            uniform = LazyUniform(source, int(prefixes[tie]), WORD_BITS)
            accepted[row] = self._settle(uniform, int(step[row]), int(low[row]))
        return accepted

    def _settle(self, uniform: LazyUniform, step: int, low: int) -> bool:
        gamma = low * ((step << (self._low_bits + 1)) + low) / (2 * self._sigma**2)

        def acceptance(bits: int) -> Interval:
            return exp_neg(gamma, bits)

        return uniform.below(acceptance)


@lru_cache(maxsize=_CACHED_PLANS)
def laplace_plan(scale: Fraction, grain: Grain) -> LaplacePlan:
    """The plan for a scale, built once."""
    return LaplacePlan(scale, grain)


@lru_cache(maxsize=_CACHED_PLANS)
def gaussian_plan(sigma: Fraction, grain: Grain) -> GaussianPlan:
    """The plan for a standard deviation parameter, built once."""
    return GaussianPlan(sigma, grain)
