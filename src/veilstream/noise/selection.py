"""The exact exponential mechanism for one question of millions of candidates or for many questions at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.noise.interval import WORD_BITS, Interval, LazyUniform, exp_neg, rescale
from veilstream.noise.source import BitSource

_SUM_BITS: Final = 62
_SAFELY_BELOW: Final = 1 - 2.0**-40
_MARGIN: Final = 2.0**-40
_FAR_BELOW: Final = 1 << 20
_GUARD_BITS: Final = 2 * WORD_BITS


@dataclass(frozen=True, slots=True)
class _Covers:
    """Runs of equal candidates, each covered by 2^exponent >= its length times e^(-rate · gap)."""

    rate: Fraction
    gaps: NDArray[np.int64]
    lengths: NDArray[np.int64]
    exponents: NDArray[np.int64]

    def accept(self, source: BitSource, runs: NDArray[np.int64], prefixes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Bernoulli(length · e^(-rate · gap) / cover) for each of ``runs``, from 64 bits of a uniform number each.

        Its logarithm is the sum of ln length, -rate · gap and -exponent · ln 2. Where the probability is not
        negligible each is below 200 in size, so that rounding makes an error below 2^-43, even if the
        exponential is wrong by eight units. Within a margin of 2^-40 exact numbers and further bits decide.
        """
        gaps, lengths, exponents = self.gaps[runs], self.lengths[runs], self.exponents[runs]
        likely = np.exp(np.log(lengths) - float(self.rate) * gaps - exponents * math.log(2))
        excess = (prefixes >> np.uint64(11)) * 2.0**-53 - likely
        accepted: NDArray[np.bool_] = excess < 0
        for tie in np.flatnonzero(np.abs(excess) < _MARGIN).tolist():
            x, length, exponent = self.rate * int(gaps[tie]), int(lengths[tie]), int(exponents[tie])

            def probability(bits: int, x: Fraction = x, length: int = length, exponent: int = exponent) -> Interval:
                low, high = exp_neg(x, bits - exponent + _GUARD_BITS)
                return rescale((length * low, length * high), _GUARD_BITS, 0)

            accepted[tie] = LazyUniform(source, int(prefixes[tie]), WORD_BITS).below(probability)
        return accepted


def select_each(
    source: BitSource,
    gaps: NDArray[np.int64],
    sizes: NDArray[np.int64],
    rate: Fraction,
    lengths: NDArray[np.int64] | None = None,
    repeats: int = 1,
) -> NDArray[np.int64]:
    """One index for each question, independently, with P(i) ∝ e^(-rate · gap of its i-th candidate), exactly.

    ``gaps`` holds the candidates of all questions one after the other, ``sizes`` how many each has (at least 1). With
    ``lengths`` an entry stands for a run of that many successive candidates of the same gap, and ``sizes`` counts
    entries; indices count candidates. With ``repeats`` all questions are asked so often, independently: all answers of
    the first time, then of the second, and so on.

    An entry is covered by a power of two that is at least its length times e^(-rate · gap): rate · gap / ln 2 is
    rounded down, further down by far more than floating point can be wrong. Within a question covers below 2^-E of the
    largest are raised to that, with E such that all covers in units of 2^-E add up to less than 2^62; any cover that
    is not too small is as good. An entry is drawn with probability ∝ its cover, as a uniform integer below the
    question's sum of covers looked up among running sums, and accepted with probability
    (length · e^(-rate · gap)) / cover; otherwise the question is drawn again. It is thus accepted with probability
    ∝ length · e^(-rate · gap), whatever its cover, and a candidate of a run is uniform. At least about an eighth are
    accepted: half of the integers may pass the sum, and a cover may be almost four times the weight.
    """
    ends = np.cumsum(sizes)
    starts = ends - sizes
    gaps = gaps - np.repeat(np.minimum.reduceat(gaps, starts), sizes)
    single = lengths is None
    runs = np.ones(gaps.size, dtype=np.int64) if lengths is None else lengths
    exponents = -np.minimum(gaps * (float(rate) / math.log(2) * _SAFELY_BELOW), _FAR_BELOW).astype(np.int64)
    if not single:
        exponents += np.frexp(runs - 0.5)[1]
    finest = _SUM_BITS - gaps.size.bit_length()
    largest = np.repeat(np.maximum.reduceat(exponents, starts), sizes)
    np.maximum(exponents, largest - finest, out=exponents)
    masses = np.left_shift(1, exponents - largest + finest)
    running = np.cumsum(masses)
    below = running[starts] - masses[starts]
    sums = running[ends - 1] - below
    covers = _Covers(rate, gaps, runs, exponents)
    asked = np.tile(np.arange(sizes.size), repeats)
    chosen = np.empty(asked.size, dtype=np.int64)
    waiting = np.arange(asked.size)
    unused = _unused_bits(sums)
    while waiting.size:
        words = source.words(2 * waiting.size)
        questions = asked[waiting]
        drawn = (words[: waiting.size] >> unused[questions]).astype(np.int64)
        inside = np.flatnonzero(drawn < sums[questions])
        questions = questions[inside]
        entries = np.searchsorted(running, below[questions] + drawn[inside], side="right")
        accepted = covers.accept(source, entries, words[waiting.size :][inside])
        chosen[waiting[inside[accepted]]] = entries[accepted]
        waiting = np.delete(waiting, inside[accepted])
    if single:
        return chosen - starts[asked]
    before = np.cumsum(runs) - runs
    within: NDArray[np.int64] = before[chosen] - before[starts[asked]]
    return within + below_each(source, runs[chosen])


def _unused_bits(bounds: NDArray[np.int64]) -> NDArray[np.uint64]:
    """How many bits of a word to drop so that what stays reaches past each bound, but not past about twice of it.

    Two to the binary exponent of a float is above every integer that rounds to it.
    """
    return (WORD_BITS - np.frexp(bounds.astype(np.float64))[1]).astype(np.uint64)


def below_each(source: BitSource, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """A uniform integer in 0..bound-1 for each bound < 2^62, by rejection."""
    values = np.zeros(bounds.size, dtype=np.int64)
    unused = _unused_bits(bounds)
    waiting = np.flatnonzero(bounds > 1)
    while waiting.size:
        drawn = (source.words(waiting.size) >> unused[waiting]).astype(np.int64)
        inside = drawn < bounds[waiting]
        values[waiting[inside]] = drawn[inside]
        waiting = waiting[~inside]
    return values
