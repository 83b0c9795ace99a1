"""Inversion returns, for every bit string, the outcome of exact arithmetic: tables, ties and tails."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from veilstream.noise.inverse import InverseTable
from veilstream.noise.laws import DiscreteGaussian, GeometricDigit, HalfGaussian, IntegerLaw, SignedGeometric

from .bits import ScriptedBits

PRECISION = 1200
WORD = 2**64
LIMIT = 2**62

LAWS: dict[str, IntegerLaw] = {
    "laplace 1": SignedGeometric(Fraction(1), 1, LIMIT),
    "laplace 7/3": SignedGeometric(Fraction(7, 3), 1, LIMIT),
    "laplace 1/30": SignedGeometric(Fraction(1, 30), 1, LIMIT),
    "laplace 9": SignedGeometric(Fraction(9), 1, LIMIT),
    "laplace 12345/67 in blocks": SignedGeometric(Fraction(12345, 67), 256, LIMIT // 256),
    "laplace 2^-20": SignedGeometric(Fraction(1, 2**20), 1, LIMIT),
    "digit 10^12": GeometricDigit(Fraction(10**12), 256),
    "digit 7/3": GeometricDigit(Fraction(7, 3), 16),
    "gaussian 1": DiscreteGaussian(Fraction(1), LIMIT),
    "gaussian 2/7": DiscreteGaussian(Fraction(2, 7), LIMIT),
    "gaussian 33/2": DiscreteGaussian(Fraction(33, 2), LIMIT),
    "half 13/3": HalfGaussian(Fraction(13, 3), LIMIT),
}
CONCENTRATED = ("laplace 1/30", "laplace 2^-20")
"""Laws that are 0 but for a chance below 2⁻⁴⁰, so that no boundary lies where ties are looked for."""
EVERY_LAW = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())


def real(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


def weight(law: IntegerLaw, z: int) -> mpmath.mpf:
    """The unnormalised mass of one outcome, straight from the definition in the law's docstring."""
    match law:
        case SignedGeometric(scale=scale, block=block):
            magnitude = z if z >= 0 else ~z
            side = mpmath.mpf(1) if z >= 0 else mpmath.exp(-1 / real(scale))
            return side * mpmath.exp(-magnitude * block / real(scale))
        case GeometricDigit(scale=scale):
            return mpmath.exp(-z / real(scale))
        case DiscreteGaussian(sigma=sigma):
            return mpmath.exp(-(z**2) / (2 * real(sigma) ** 2))
        case HalfGaussian(tau=tau):
            return mpmath.exp(-(z**2) / (2 * real(tau) ** 2))
        case _:
            raise AssertionError(law)


def reach(law: IntegerLaw) -> tuple[int, int]:
    """Outcomes that hold all but 2^-400 of the mass."""
    match law:
        case SignedGeometric(scale=scale, block=block):
            most = int(300 * scale / block) + 2
            return -most, most
        case GeometricDigit(base=base):
            return 0, base - 1
        case DiscreteGaussian(sigma=sigma):
            most = int(24 * sigma) + 3
            return -most, most
        case HalfGaussian(tau=tau):
            return 0, int(24 * tau) + 3
        case _:
            raise AssertionError(law)


def cumulative(law: IntegerLaw) -> tuple[int, list[mpmath.mpf]]:
    """The first key and P(Z < k) for the keys within reach, summed outcome by outcome."""
    first, last = reach(law)
    masses = [weight(law, z) for z in range(first, last + 1)]
    total = mpmath.fsum(masses)
    sums: list[mpmath.mpf] = []
    running = mpmath.mpf(0)
    for mass in masses[:-1]:
        running += mass
        sums.append(running / total)
    return first + 1, sums


@EVERY_LAW
def test_boundaries_agree_with_summed_masses(law: IntegerLaw) -> None:
    slack = 2  # the reference leaves out 2^-400 of the mass
    with mpmath.workprec(PRECISION):
        first_key, sums = cumulative(law)
        for bits in (64, 128, 300):
            stride = max(1, len(sums) // 40)
            for key, value in list(enumerate(sums, first_key))[::stride]:
                low, high = law.boundary(key, bits)
                assert low - slack <= value * mpmath.mpf(2) ** bits <= high + slack
                assert high - low <= 3


@EVERY_LAW
def test_bulk_boundaries_enclose_the_same_numbers(law: IntegerLaw) -> None:
    key, boundaries = law.boundaries(256)
    for offset in range(0, len(boundaries), max(1, len(boundaries) // 30)):
        low, high = boundaries[offset]
        single_low, single_high = law.boundary(key + offset, 256)
        assert max(low, single_low) <= min(high, single_high)


def all_short_words() -> list[int]:
    words = np.arange(2**16, dtype=np.uint16).view(np.uint64)
    return [int(word) for word in words]


@pytest.mark.parametrize("lookup_bits", [13, 16])
@EVERY_LAW
def test_every_short_word_gives_the_exact_outcome_or_is_refined(law: IntegerLaw, lookup_bits: int) -> None:
    """All 65,536 first words, undecided ones continued by a low and by a high word."""
    table = InverseTable(law, lookup_bits=lookup_bits)
    with mpmath.workprec(PRECISION):
        first_key, sums = cumulative(law)
        floors = np.array([min(int(value * WORD), WORD - 1) for value in sums], dtype=np.uint64)
    starts = np.arange(2**16, dtype=np.uint64) << np.uint64(48)
    for rest in (0x5A5A1234, 2**48 - 0x5A5A1234):
        drawn = table.draw(ScriptedBits([*all_short_words(), *[rest << 16] * 2**16]), 2**16)
        prefixes = starts | np.uint64(rest)
        assert not np.isin(prefixes, floors).any()
        expected = np.searchsorted(floors, prefixes) + first_key - 1
        np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize("name", [name for name in LAWS if name not in CONCENTRATED])
def test_ties_of_64_bits_are_settled_by_later_words(name: str) -> None:
    """A uniform that equals a boundary for 64, 128 or 192 bits falls on the side its next word says."""
    law = LAWS[name]
    table = InverseTable(law, lookup_bits=0)
    with mpmath.workprec(PRECISION):
        first_key, sums = cumulative(law)
        known = [
            (key, int(value * mpmath.mpf(2) ** 256))
            for key, value in enumerate(sums, first_key)
            if 2**-40 < value < 1 - 2**-40
        ]
    assert len(known) > 0
    for key, digits in known[:: max(1, len(known) // 12)]:
        words = [digits >> shift & (WORD - 1) for shift in (192, 128, 64, 0)]
        for tied in (1, 2, 3):
            for step, expected in ((-1, key - 1), (1, key)):
                decisive = words[tied] + step
                if not 0 <= decisive < WORD:
                    continue
                script = [*words[:tied], decisive, *[2**63] * 40]
                assert table.draw(ScriptedBits(script), 1)[0] == expected


@pytest.mark.parametrize("zeros", [1, 2, 3, 5])
@pytest.mark.parametrize("block", [1, 16])
def test_far_tails_of_laplace_are_found(zeros: int, block: int) -> None:
    """64·zeros zero bits and then U ~ 2^-(64 zeros + 1): the outcome follows from the closed form."""
    scale = Fraction(7, 3)
    table = InverseTable(SignedGeometric(scale, block, LIMIT), lookup_bits=0)
    with mpmath.workprec(PRECISION):
        q = mpmath.exp(-1 / real(scale))
        tail = mpmath.mpf(2) ** -(64 * zeros + 1)
        low = int(mpmath.floor(mpmath.log(q / (1 + q) / tail) * real(scale) / block))
        high = int(mpmath.floor(mpmath.log(1 / (1 + q) / tail) * real(scale) / block))
    below = [0] * zeros + [2**63] + [0] * 40
    above = [WORD - 1] * zeros + [2**63 - 1] + [WORD - 1] * 40
    assert table.draw(ScriptedBits(below), 1)[0] == ~low
    assert table.draw(ScriptedBits(above), 1)[0] == high


def test_draws_saturate_instead_of_overflowing() -> None:
    """Enough zero bits to pass a lowered limit stop the search there."""
    table = InverseTable(SignedGeometric(Fraction(1), 1, 100), lookup_bits=0)
    assert table.draw(ScriptedBits([0] * 200), 1)[0] == -100
    assert table.draw(ScriptedBits([WORD - 1] * 200), 1)[0] == 100


def test_probabilities_are_exact_dyadic_intervals() -> None:
    """Over all 16-bit words, the cells given to each outcome are its exact probability, up to one cell."""
    table = InverseTable(SignedGeometric(Fraction(3), 1, LIMIT), lookup_bits=16)
    drawn = table.draw(ScriptedBits([*all_short_words(), *[2**63 + 2**17] * 2**16]), 2**16)
    with mpmath.workprec(200):
        q = mpmath.exp(mpmath.mpf(-1) / 3)
        for x in range(-20, 21):
            probability = (1 - q) / (1 + q) * q ** abs(x)
            assert abs(int((drawn == x).sum()) - probability * 2**16) < 1
