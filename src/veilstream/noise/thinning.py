"""Exact Bernoulli samples of counts, and the noise that a sample needs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.noise.interval import exp_neg

RATE_BITS: Final = 8
PROOF_BITS: Final = 128
WORD_BITS: Final = 64


@runtime_checkable
class WordNoise(Protocol):
    """A sampler that also hands out uniform words."""

    def uniform_words(self, count: int) -> NDArray[np.uint64]: ...


def checked_sampling(rate: Fraction) -> Fraction:
    """A sampling rate that whole bits decide: a multiple of 1/256 above 0, up to 1."""
    if not 0 < rate <= 1 or (1 << RATE_BITS) % rate.denominator:
        raise InvalidInputError(
            name="sampling rate", value=rate, limit=f"a multiple of 1/{1 << RATE_BITS} from there to 1"
        )
    return rate


def thinned(counts: NDArray[np.int64], rate: Fraction, noise: WordNoise) -> NDArray[np.int64]:
    """How many of each count stay if each single one stays with probability ``rate``, independently.

    Each of n things draws a binary number U digit by digit and stays if U < rate. A digit is 0 for Binomial(n, 1/2) of
    those still undecided. Where the rate's digit is 1, these stay for certain and the others go on; where it is 0,
    these go on and the others are dropped. Whoever is undecided after the last digit has U ≥ rate.
    """
    undecided = counts.copy()
    if rate == 1:
        return undecided
    drawn = np.zeros_like(counts)
    digits = int(rate * (1 << RATE_BITS))
    for position in reversed(range(RATE_BITS)):
        zeros = _halves(undecided, noise)
        if digits >> position & 1:
            drawn += zeros
            undecided -= zeros
        else:
            undecided = zeros
        if not digits & ((1 << position) - 1):
            break
    return drawn


def _halves(counts: NDArray[np.int64], noise: WordNoise) -> NDArray[np.int64]:
    """Binomial(count, 1/2) for each count: the ones among as many random bits."""
    full, rest = np.divmod(counts, WORD_BITS)
    lengths = full + 1
    words = noise.uniform_words(int(lengths.sum()))
    ends = np.cumsum(lengths)
    masks = (np.uint64(1) << rest.astype(np.uint64)) - np.uint64(1)
    words[ends - 1] &= masks
    ones = np.bitwise_count(words).astype(np.int64)
    return np.add.reduceat(ones, ends - lengths) if counts.size else counts


def thinned_scale(epsilon: Fraction, sensitivity: Fraction, rate: Fraction) -> Fraction:
    """The scale b of discrete Laplace noise that makes a sample at ``rate`` ε-private.

    A unit that moves counts by s in total moves the sample by as many of its s counts as are drawn, so the chances of
    any output grow by at most (1 − γ + γe^(1/b))^s, and shrink by no more, since (1−γ+γe^a)(1−γ+γe^−a) ≥ 1. This is
    e^ε if 1/b = ln(1 + (e^(ε/s) − 1)/γ). The number returned is rational, a little larger, and proved with intervals:
    with A = e^(−1/b) and E = e^(−ε/s), E·((1−γ)A + γ) ≤ A.

    >>> float(thinned_scale(Fraction(1, 10), Fraction(1), Fraction(1, 2)))
    5.238...
    """
    per_count = epsilon / sensitivity
    if rate == 1:
        return 1 / per_count
    low = float(per_count)
    inverse = math.log1p(math.expm1(low) / float(rate)) if low < 700 else low - math.log(float(rate))
    guess = Fraction(1 / inverse)
    for margin in range(48, 20, -1):
        scale = Fraction(math.ceil(guess * (1 + Fraction(1, 1 << margin)) * (1 << 50)), 1 << 50)
        of_noise, of_budget = exp_neg(1 / scale, PROOF_BITS), exp_neg(per_count, PROOF_BITS)
        one = 1 << PROOF_BITS
        if of_budget[1] * ((1 - rate) * of_noise[1] + rate * one) <= of_noise[0] * one:
            return scale
    raise InvalidInputError(f"sampling rate {rate} with epsilon {epsilon}: no noise could be proved large enough")
