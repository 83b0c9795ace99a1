"""e^-x and lazy comparison hold against independent high-precision arithmetic."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilstream.noise.interval import LazyUniform, divide, exp_neg, multiply

from .bits import ScriptedBits

REFERENCE_BITS = 2000
ALL_ONES = 2**64 - 1


def holds(interval: tuple[int, int], bits: int, value: mpmath.mpf) -> bool:
    return bool(interval[0] <= value * mpmath.mpf(2) ** bits <= interval[1])


@given(
    st.fractions(min_value=0, max_value=2000, max_denominator=10**15),
    st.integers(min_value=1, max_value=700),
)
def test_exponential_is_enclosed_tightly(x: Fraction, bits: int) -> None:
    with mpmath.workprec(REFERENCE_BITS + 3000):
        interval = exp_neg(x, bits)
        assert holds(interval, bits, mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator))
    assert interval[1] - interval[0] <= 2


@pytest.mark.parametrize("x", [Fraction(1, 10**12), Fraction(10**30 + 1, 10**30), Fraction(2**20)])
def test_exponential_at_extreme_arguments(x: Fraction) -> None:
    with mpmath.workprec(REFERENCE_BITS):
        assert holds(exp_neg(x, 500), 500, mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator))


def test_exponential_of_zero_is_one() -> None:
    assert exp_neg(Fraction(0), 10) == (1024, 1024)


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 3), st.integers(0, 3))
def test_products_and_quotients_round_outwards(a: int, b: int, wide_a: int, wide_b: int) -> None:
    bits = 40
    low, high = multiply((a, a + wide_a), (b, b + wide_b), bits)
    assert low * 2**bits <= a * b
    assert (a + wide_a) * (b + wide_b) <= high * 2**bits
    if a <= b and b > 0:
        low, high = divide((a, a + wide_a), (b, b + wide_b), bits)
        assert Fraction(low, 2**bits) <= Fraction(a, b + wide_b)
        assert Fraction(a + wide_a, b) <= Fraction(high, 2**bits)


def test_division_by_a_number_that_may_be_zero_says_nothing() -> None:
    assert divide((0, 3), (0, 5), 8) == (0, 256)


@pytest.mark.parametrize("tied_words", [2, 5, 20])
def test_a_tie_is_settled_by_the_first_differing_word(tied_words: int) -> None:
    x = Fraction(7, 5)
    bits = 64 * tied_words
    digits = exp_neg(x, bits + 64)[0] >> 64
    same = [digits >> (bits - 64 * (i + 1)) & ALL_ONES for i in range(tied_words)]
    spare = 64
    for last, expected in [(0, True), (ALL_ONES, False)]:
        source = ScriptedBits([*same, last, *[0] * spare])
        assert LazyUniform(source).below(lambda bits: exp_neg(x, bits)) is expected
