"""The exact exponential mechanism for one question of millions of candidates or for many questions at once."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.noise.interval import WORD_BITS, Interval, LazyUniform, exp_neg
from veilstream.noise.source import BitSource

_SUM_BITS: Final = 62
_SAFELY_BELOW: Final = 1 - 2.0**-40
_MARGIN: Final = 2.0**-40


def select_each(
    source: BitSource, gaps: NDArray[np.int64], sizes: NDArray[np.int64], rate: Fraction
) -> NDArray[np.int64]:
    """One index for each question, independently, with P(i) ∝ e^(-rate · gap of its i-th candidate), exactly.

    ``gaps`` holds the candidates of all questions one after the other, ``sizes`` how many each has (at least 1).

    A candidate is covered by a power of two 2^-e >= e^(-rate · gap): e is rate · gap / ln 2 rounded down, further
    down by far more than floating point can be wrong, and at most a number E for which all covers, in units of
    2^-E, add up to less than 2^62; any e that is not too large is as good. A candidate is drawn with
    probability ∝ 2^-e, as a uniform integer below its question's sum of covers looked up among running sums, and kept
    with probability 2^e · e^(-rate · gap); otherwise the question is drawn again. It is thus kept with probability
    ∝ e^(-rate · gap), whatever its e. At least about a quarter are: half of the integers may pass the sum, and a
    cover is less than about twice the weight.
    """
    ends = np.cumsum(sizes)
    starts = ends - sizes
    gaps = gaps - np.repeat(np.minimum.reduceat(gaps, starts), sizes)
    finest = _SUM_BITS - gaps.size.bit_length()
    levels = np.minimum(gaps * (float(rate) / math.log(2) * _SAFELY_BELOW), finest).astype(np.int64)
    running = np.cumsum(np.left_shift(1, finest - levels))
    below = running[starts] - np.left_shift(1, finest - levels[starts])
    sums = running[ends - 1] - below
    # Two to the binary exponent of a float is above every integer that rounds to it, and about twice the sum at most.
    unused = (WORD_BITS - np.frexp(sums.astype(np.float64))[1]).astype(np.uint64)
    chosen = np.empty(sizes.size, dtype=np.int64)
    waiting = np.arange(sizes.size)
    while waiting.size:
        words = source.words(2 * waiting.size)
        drawn = (words[: waiting.size] >> unused[waiting]).astype(np.int64)
        inside = np.flatnonzero(drawn < sums[waiting])
        questions = waiting[inside]
        candidates = np.searchsorted(running, below[questions] + drawn[inside], side="right")
        kept = _keep(source, words[waiting.size :][inside], gaps[candidates], levels[candidates], rate)
        chosen[questions[kept]] = candidates[kept]
        waiting = np.delete(waiting, inside[kept])
    return chosen - starts


def _keep(
    source: BitSource, prefixes: NDArray[np.uint64], gaps: NDArray[np.int64], levels: NDArray[np.int64], rate: Fraction
) -> NDArray[np.bool_]:
    """Bernoulli(2^e · e^(-rate · gap)) for each candidate, from the first 64 bits of its uniform number.

    The exponent e ln 2 - rate · gap is computed with an error below 2^-51 of rate · gap, and e <= 62: where the
    exponential is not negligible rate · gap is below 100, so its error is below 2^-44 even if the exponential
    itself is wrong by eight units. Within a margin of 2^-40 the exact rational exponent and further bits decide.
    """
    likely = np.exp(levels * math.log(2) - float(rate) * gaps)
    excess = (prefixes >> np.uint64(11)) * 2.0**-53 - likely
    kept = excess < 0
    for tie in np.flatnonzero(np.abs(excess) < _MARGIN).tolist():
        exponent, level = rate * int(gaps[tie]), int(levels[tie])

        def probability(bits: int, exponent: Fraction = exponent, level: int = level) -> Interval:
            return exp_neg(exponent, bits + level)

        kept[tie] = LazyUniform(source, int(prefixes[tie]), WORD_BITS).below(probability)
    return kept
