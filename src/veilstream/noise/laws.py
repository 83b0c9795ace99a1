"""Exact cumulative probabilities of the integer laws that are sampled by inversion.

For a law of Z, ``boundary(k, bits)`` encloses B(k) = P(Z < k), to any precision. ``boundaries(bits)`` gives
all of them at once that a 64-bit uniform can tell from 0 and 1, and the first beyond on either side.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol

from veilstream.noise.interval import (
    WORD_BITS,
    Interval,
    add,
    complement,
    divide,
    exp_neg,
    multiply,
    rescale,
)

_GUARD_BITS: Final = 32
_VANISHED: Final = 1 << 8
"""Units below which a weight is no longer followed: rounding up would soon stop it from shrinking."""


class IntegerLaw(Protocol):
    """A law on the integers ``first..last``, with P(Z < k) known to any precision."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    def boundary(self, k: int, bits: int) -> Interval:
        """Encloses P(Z < k), for first < k <= last."""
        ...

    def boundaries(self, bits: int) -> tuple[int, list[Interval]]:
        """A key k and enclosures of P(Z < k), P(Z < k+1), ...; those left out are within 2^-64 of 0 or 1."""
        ...


def _negligible(number: Interval, bits: int) -> bool:
    return number[1] >> (bits - WORD_BITS) == 0


def _powers(ratio: Interval, bits: int) -> list[Interval]:
    """1, r, r^2, ... down to the first below 2^-64."""
    power: Interval = (1 << bits, 1 << bits)
    powers = [power]
    while not _negligible(power, bits):
        power = multiply(power, ratio, bits)
        powers.append(power)
    return powers


@dataclass(frozen=True, slots=True)
class SignedGeometric:
    """The high part of a discrete Laplace variable, with its sign.

    A discrete Laplace X of scale t is Y where it is not negative, ~Y = -1-Y where it is, and P(X < 0) =
    q/(1+q), q = e^(-1/t). Given either sign, Y is geometric, P(Y = y) ∝ q^y, so sign and magnitude are
    independent and zero is met once. With H = Y // block, P(H >= h) = r^h, r = q^block, this is the law of H
    or ~H: P(Z < k) = q/(1+q) · r^-k for k <= 0 and 1 - r^k/(1+q) for k > 0. With block = 1 it is the discrete
    Laplace law itself.
    """

    scale: Fraction
    block: int
    limit: int

    @property
    def first(self) -> int:
        return -self.limit

    @property
    def last(self) -> int:
        return self.limit

    def _sides(self, bits: int) -> tuple[Interval, Interval]:
        """P(X < 0) and P(X >= 0)."""
        q = exp_neg(1 / self.scale, bits)
        one = (1 << bits, 1 << bits)
        negative = divide(q, add(one, q), bits)
        return negative, complement(negative, bits)

    def boundary(self, k: int, bits: int) -> Interval:
        work = bits + _GUARD_BITS
        negative, positive = self._sides(work)
        power = exp_neg(abs(k) * self.block / self.scale, work)
        if k <= 0:
            return rescale(multiply(negative, power, work), work, bits)
        return rescale(complement(multiply(positive, power, work), work), work, bits)

    def boundaries(self, bits: int) -> tuple[int, list[Interval]]:
        negative, positive = self._sides(bits)
        powers = _powers(exp_neg(self.block / self.scale, bits), bits)
        left = [multiply(negative, power, bits) for power in reversed(powers)]
        right = [complement(multiply(positive, power, bits), bits) for power in powers[1:]]
        return 1 - len(powers), left + right


@dataclass(frozen=True, slots=True)
class GeometricDigit:
    """One digit to base ``base`` of a geometric variable: P(Z = z) ∝ e^(-z/scale), 0 <= z < base.

    The digits of Y with P(Y = y) ∝ q^y are independent because q^(Σ dᵢ baseⁱ) is a product over the digits;
    the scale of digit i is t / baseⁱ. P(Z < k) = (1 - e^(-k/scale)) / (1 - e^(-base/scale)).
    """

    scale: Fraction
    base: int

    @property
    def first(self) -> int:
        return 0

    @property
    def last(self) -> int:
        return self.base - 1

    def boundary(self, k: int, bits: int) -> Interval:
        work = bits + _GUARD_BITS
        part = complement(exp_neg(k / self.scale, work), work)
        normaliser = complement(exp_neg(self.base / self.scale, work), work)
        return rescale(divide(part, normaliser, work), work, bits)

    def boundaries(self, bits: int) -> tuple[int, list[Interval]]:
        ratio = exp_neg(1 / self.scale, bits)
        power: Interval = (1 << bits, 1 << bits)
        parts: list[Interval] = []
        for _ in range(self.base):
            power = multiply(power, ratio, bits)
            parts.append(complement(power, bits))
        normaliser = parts.pop()
        return 1, [divide(part, normaliser, bits) for part in parts]


def _gaussian_tails(sigma: Fraction, bits: int) -> list[Interval]:
    """T(j) = Σ_{x>=j} e^(-x²/2σ²) for j = 0..K, where the weights have all but vanished at this precision.

    Weights follow from g(x+1) = g(x) q^(2x+1) with q = e^(-1/2σ²). The last entry is only bounded, by the
    geometric series with the ratio at K: T(K) <= g(K) / (1 - q^(2K+1)) <= g(K) (1 + 2σ²/(2K+1)). It encloses
    all later ones too.
    """
    q = exp_neg(1 / (2 * sigma**2), bits)
    step, q_squared = q, multiply(q, q, bits)
    weight: Interval = (1 << bits, 1 << bits)
    weights: list[Interval] = []
    while weight[1] > _VANISHED:
        weights.append(weight)
        weight = multiply(weight, step, bits)
        step = multiply(step, q_squared, bits)
    bound = weight[1] * (2 + int(2 * sigma**2 / (2 * len(weights) + 1)))
    tail: Interval = (0, bound)
    tails: list[Interval] = [tail]
    for weight in reversed(weights):
        tail = add(tail, weight)
        tails.append(tail)
    tails.reverse()
    return tails


def _tail(tails: list[Interval], k: int) -> Interval:
    return tails[min(k, len(tails) - 1)]


def _until_negligible(tails: list[Interval], bits: int) -> list[Interval]:
    """The tails up to the first that is below 2^-64."""
    count = next(index for index, tail in enumerate(tails) if _negligible(tail, bits))
    return tails[: count + 1]


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """P(Z = z) ∝ e^(-z²/2σ²) on all integers: P(Z < k) = T(1-k)/S for k <= 0, 1 - T(k)/S for k > 0, S = T(0)
    + T(1)."""

    sigma: Fraction
    limit: int

    @property
    def first(self) -> int:
        return -self.limit

    @property
    def last(self) -> int:
        return self.limit

    def boundary(self, k: int, bits: int) -> Interval:
        work = bits + _GUARD_BITS
        tails = _gaussian_tails(self.sigma, work)
        share = divide(_tail(tails, max(1 - k, k)), add(tails[0], tails[1]), work)
        return rescale(share if k <= 0 else complement(share, work), work, bits)

    def boundaries(self, bits: int) -> tuple[int, list[Interval]]:
        tails = _gaussian_tails(self.sigma, bits)
        normaliser = add(tails[0], tails[1])
        shares = [divide(tail, normaliser, bits) for tail in _until_negligible(tails, bits)[1:]]
        return 1 - len(shares), shares[::-1] + [complement(share, bits) for share in shares]


@dataclass(frozen=True, slots=True)
class HalfGaussian:
    """P(Z = z) ∝ e^(-z²/2τ²) for z >= 0: P(Z < k) = 1 - T(k)/T(0)."""

    tau: Fraction
    limit: int

    @property
    def first(self) -> int:
        return 0

    @property
    def last(self) -> int:
        return self.limit

    def boundary(self, k: int, bits: int) -> Interval:
        work = bits + _GUARD_BITS
        tails = _gaussian_tails(self.tau, work)
        return rescale(complement(divide(_tail(tails, k), tails[0], work), work), work, bits)

    def boundaries(self, bits: int) -> tuple[int, list[Interval]]:
        tails = _gaussian_tails(self.tau, bits)
        relevant = _until_negligible(tails, bits)[1:]
        return 1, [complement(divide(tail, tails[0], bits), bits) for tail in relevant]
