"""The samplers: exact discrete noise and exact selection from any source of bits, or from a secure one."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError, SealedAccessError
from veilstream.noise.cube import (
    LARGEST_CUBE_RATE,
    MAX_ENTRIES,
    MAX_LENGTH,
    SMALLEST_CUBE_RATE,
    draw_blocks,
    draw_cube,
)
from veilstream.noise.plans import gaussian_plan, grain_for, laplace_plan
from veilstream.noise.scale import (
    RationalLike,
    Size,
    checked_length,
    checked_rate,
    checked_scale,
    checked_shape,
)
from veilstream.noise.selection import select_each
from veilstream.noise.source import BitSource, SecureSource
from veilstream.noise.tails import draw_below, draw_reaching
from veilstream.privacy.rationals import rational


class ExactSampler:
    """Integer noise whose probabilities are exactly the stated ones, from uniform bits.

    Every outcome is a function of uniformly random bits decided by integer comparison with probabilities that
    are computed to as many bits as a tie asks for. Where floating point is used to decide quickly, a margin
    far above its error separates the decided cases from those handed to integer arithmetic. The proofs are
    with :class:`~veilstream.noise.inverse.InverseTable`, :class:`~veilstream.noise.plans.LaplacePlan`,
    :class:`~veilstream.noise.plans.GaussianPlan` and :func:`~veilstream.noise.selection.select_each`.

    Running time depends on the draws (ties take longer), so it is not a constant-time implementation.
    """

    __slots__ = ("_source",)

    def __init__(self, source: BitSource) -> None:
        self._source = source

    def laplace(self, scale: RationalLike, size: Size) -> NDArray[np.int64]:
        """Discrete Laplace noise, P(X = x) = (1 - q)/(1 + q) · q^|x| with q = e^(-1/scale).

        ``scale`` is any rational from 2^-20 to 10^12: an int, a Fraction, a Decimal, a str such as "7/3" or
        "0.1", or a float, which stands for its shortest decimal. Temporaries take constant memory whatever
        the size.

        >>> SecureNoise().laplace("7/3", (2, 3)).shape
        (2, 3)
        """
        exact_scale = checked_scale("scale", scale)
        shape = checked_shape(size)
        out = np.empty(math.prod(shape), dtype=np.int64)
        laplace_plan(exact_scale, grain_for(out.size)).fill(self._source, out)
        return out.reshape(shape)

    def gaussian(self, sigma: RationalLike, size: Size) -> NDArray[np.int64]:
        """Discrete Gaussian noise, P(X = x) ∝ e^(-x²/2σ²), for any rational sigma from 2^-20 to 10^12.

        >>> SecureNoise().gaussian(2.5, 4).dtype
        dtype('int64')
        """
        exact_sigma = checked_scale("sigma", sigma)
        shape = checked_shape(size)
        out = np.empty(math.prod(shape), dtype=np.int64)
        gaussian_plan(exact_sigma, grain_for(out.size)).fill(self._source, out)
        return out.reshape(shape)

    def select(self, gaps: NDArray[np.int64], rate: RationalLike) -> int:
        """The exponential mechanism: index i with probability exactly ∝ e^(-rate · gaps[i]).

        ``gaps[i]`` >= 0 says how far candidate i is below the best, in whole grid units; ``rate`` is any
        rational from 0 to 10^12 per unit.

        >>> SecureNoise().select(np.array([10**6, 0, 10**6]), 1)
        1
        """
        return int(self.select_each(gaps, np.array([np.size(gaps)], dtype=np.int64), rate)[0])

    def select_each(
        self,
        gaps: NDArray[np.int64],
        sizes: NDArray[np.int64],
        rate: RationalLike,
        lengths: NDArray[np.int64] | None = None,
        repeats: int = 1,
    ) -> NDArray[np.int64]:
        """One exponential mechanism for each of many questions, independently and all at once.

        ``gaps`` are the candidates' gaps question after question, ``sizes`` how many entries each question has, and
        ``lengths`` how many successive candidates of the same gap an entry stands for (1 by default). All questions
        are asked ``repeats`` times, one round after the other.

        >>> SecureNoise().select_each(np.array([10**6, 0, 10**6, 0, 10**6]), np.array([3, 2]), 1).tolist()
        [1, 0]
        """
        exact_rate = checked_rate(rate)
        gaps, sizes = np.asarray(gaps), np.asarray(sizes)
        if gaps.ndim != 1 or gaps.dtype != np.int64:
            raise InvalidInputError(
                f"gaps of type {gaps.dtype} in {gaps.ndim} dimensions: they must be int64 in one dimension"
            )
        if sizes.size == 0 or int(sizes.min()) < 1 or int(sizes.sum()) != gaps.size:
            raise InvalidInputError(
                f"gaps of length {gaps.size} for {sizes.size} questions: each must have at least 1 candidate"
            )
        if int(gaps.min()) < 0:
            raise InvalidInputError("gaps with a negative entry: each must be at least 0")
        if lengths is not None and (lengths.shape != gaps.shape or int(lengths.min()) < 1):
            raise InvalidInputError(f"lengths of {lengths.size} runs for {gaps.size} gaps: each is at least 1")
        return select_each(self._source, gaps, sizes, exact_rate, lengths, checked_length(repeats, repeats))

    def reaching(self, scale: RationalLike, level: int, trials: int) -> int:
        """How many of ``trials`` independent draws of ``laplace(scale)`` are at least ``level`` >= 1, without
        drawing them: exact for any number of trials.

        >>> SecureNoise().reaching(1, 1000, 10**30)
        0
        """
        exact_scale = checked_scale("scale", scale)
        if type(level) is not int or level < 1 or type(trials) is not int or trials < 0:
            raise InvalidInputError(
                f"level {level!r} and trials {trials!r}: whole numbers from 1 and from 0 are needed"
            )
        return draw_reaching(self._source, exact_scale, level, trials)

    def below(self, bound: int, count: int) -> NDArray[np.int64]:
        """``count`` independent uniform whole numbers from 0 to ``bound`` - 1.

        >>> bool(SecureNoise().below(6, 100).max() < 6)
        True
        """
        if type(bound) is not int or not 1 <= bound <= 1 << 62:
            raise InvalidInputError(name="bound", value=bound, limit="a whole number from 1 to 2^62 is needed")
        return draw_below(self._source, bound, checked_length(count, count))

    def cube(self, rate: RationalLike, length: int, count: int) -> NDArray[np.int64]:
        """``count`` vectors of ``length`` whole numbers, each with P(z) ∝ e^(-rate · max|z_t|).

        ``rate`` is any rational from 10^-9 to 2^20. Moving every entry by at most 1 changes the probability by a
        factor of at most e^rate, whatever the length.

        >>> SecureNoise().cube(1, 24, 10).shape
        (10, 24)
        """
        return draw_cube(self._source, _checked_block(rate, length), length, checked_length(count, count))

    def blocks(self, rate: RationalLike, length: int, entries: int, count: int) -> NDArray[np.int64]:
        """``count`` blocks of ``length`` rows of ``entries`` whole numbers, each with P(z) ∝ e^(-rate · max ‖z_t‖₁).

        Moving every row by at most 1 in the L1 norm changes the probability by a factor of at most e^rate.

        >>> SecureNoise().blocks(1, 4, 3, 10).shape
        (10, 4, 3)
        """
        exact_rate = _checked_block(rate, length)
        if type(entries) is not int or not 1 <= entries <= MAX_ENTRIES:
            raise InvalidInputError(name="entries", value=entries, limit=f"a whole number from 1 to {MAX_ENTRIES}")
        if entries == 1:
            return self.cube(exact_rate, length, count)[..., None]
        return draw_blocks(self._source, exact_rate, length, entries, checked_length(count, count))

    def uniform_words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform 64-bit words.

        >>> SecureNoise().uniform_words(5).size
        5
        """
        return self._source.words(checked_length(count, count))


def _checked_block(rate: object, length: object) -> Fraction:
    exact_rate = rational(rate, "rate")
    if not SMALLEST_CUBE_RATE <= exact_rate <= LARGEST_CUBE_RATE:
        raise InvalidInputError(name="rate", value=rate, limit="it must lie between 10^-9 and 2^20")
    if type(length) is not int or not 1 <= length <= MAX_LENGTH:
        raise InvalidInputError(name="length", value=length, limit=f"a whole number from 1 to {MAX_LENGTH}")
    return exact_rate


class SecureNoise(ExactSampler):
    """Exact noise from a cryptographic generator: the only sampler that a release draws from. It cannot be
    seeded.

    >>> noise = SecureNoise().laplace(10, 100_000)
    >>> bool(abs(noise.mean()) < 1), bool(13 < noise.std() < 15)
    (True, True)
    """

    __slots__ = ("_secure",)

    def __init__(self) -> None:
        self._secure = SecureSource()
        super().__init__(self._secure)

    def renew(self) -> None:
        """Take a fresh key from the operating system before the next draw.

        Whoever makes releases calls this at the beginning of every transaction: see
        :class:`~veilstream.noise.source.SecureSource`. A new ``SecureNoise`` does as well.
        """
        self._secure.renew()

    def __repr__(self) -> str:
        return "SecureNoise()"

    def _refuse(self, *_: Any) -> NoReturn:
        raise SealedAccessError("secure noise is secret: it can be neither pickled nor copied")

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
