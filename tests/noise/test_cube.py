"""Vectors whose largest entry decides have exactly the stated law, whichever way the radius is drawn."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from veilstream.errors import InvalidInputError
from veilstream.noise import ExactSampler, cube
from veilstream.noise.cube import CubeRadius

from .bits import SeededBits

LEVEL = 1e-8


def weights(rate: Fraction, length: int, terms: int) -> list[Any]:
    q = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
    return [q**r * (2 * r + 1) ** length for r in range(terms)]


@pytest.mark.parametrize(
    ("rate", "length"),
    [(Fraction(1), 1), (Fraction(1, 2), 3), (Fraction(7, 3), 24), (Fraction(1, 10), 5), (Fraction(40), 2)],
)
def test_boundaries_enclose_the_law_of_the_radius(rate: Fraction, length: int) -> None:
    law = CubeRadius(rate, length)
    key, shares = law.boundaries(128)
    assert key == 1
    with mpmath.workdps(200):
        each = weights(rate, length, int((12 * length + 500) / rate) + 50)
        total, part = mpmath.fsum(each), mpmath.mpf(0)
        for k, (low, high) in enumerate(shares, start=1):
            part += each[k - 1]
            assert low <= part / total * 2**128 <= high
            assert high - low <= 8
    assert (1 << 128) - shares[-1][0] < 1 << 65
    low, high = law.boundary(2, 256)
    assert low >> 128 <= shares[1][1]
    assert high >> 128 >= shares[1][0]


def chi_square(observed: Any, expected: Any) -> float:
    """The p-value over cells of at least 20 expected, the others taken together."""
    enough = expected >= 20
    observed = np.append(observed[enough], observed[~enough].sum())
    expected = np.append(expected[enough], expected[~enough].sum())
    if expected[-1] < 20:
        observed = np.append(observed[:-2], observed[-2:].sum())
        expected = np.append(expected[:-2], expected[-2:].sum())
    assert expected.size > 3
    return float(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


@pytest.mark.parametrize("by_rejection", [False, True])
@pytest.mark.parametrize(
    ("rate", "length"), [(Fraction(1), 1), (Fraction(1, 2), 2), (Fraction(3, 2), 2), (Fraction(1, 3), 3)]
)
def test_vectors_follow_the_law(
    rate: Fraction, length: int, by_rejection: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chi-square over single vectors near 0 and over the largest entry; 16 tests at level 1e-8, false alarm 2e-7."""
    monkeypatch.setattr(cube, "_SHORT_TABLE", 0 if by_rejection else 1 << 30)
    draws = 60_000
    drawn = ExactSampler(SeededBits(41)).cube(rate, length, draws)
    assert drawn.shape == (draws, length)
    largest = np.abs(drawn).max(axis=1)
    shells = [1, *((2 * j + 1) ** length - (2 * j - 1) ** length for j in range(1, 400))]
    law = np.array([float(mpmath.exp(-j * float(rate))) * shells[j] for j in range(400)])
    law /= law.sum()
    assert chi_square(np.bincount(largest, minlength=400)[:400], law * draws) > LEVEL
    side = 5
    near = drawn[largest <= side // 2]
    cells = ((near + side // 2) * side ** np.arange(length)).sum(axis=1)
    grid = np.indices((side,) * length).reshape(length, -1) - side // 2
    # The first index of the grid has the largest stride.
    expected = np.exp(-float(rate) * np.abs(grid[::-1]).max(axis=0))
    assert chi_square(np.bincount(cells, minlength=side**length), expected / expected.sum() * len(near)) > LEVEL


def test_one_entry_is_discrete_laplace_noise() -> None:
    """q^|z| is the discrete Laplace law: its mean is 0 and its variance 2q/(1-q)^2; within 6 standard errors, 4e-9."""
    drawn = ExactSampler(SeededBits(5)).cube("1/10", 1, 200_000).ravel()
    q = np.exp(-0.1)
    assert abs(drawn.mean()) < 6 * np.sqrt(2 * q / (1 - q) ** 2 / drawn.size)


@pytest.mark.parametrize(("rate", "length"), [("1/1000000", 100), (1, 100), ("1/100", 24), (1000, 7)])
def test_any_rate_is_served_and_the_radius_is_about_length_over_rate(rate: Any, length: int) -> None:
    """The cube's radius has mean near (m + 1)/rate - 1/2 and deviation √(m + 1)/rate, where m/rate is large."""
    drawn = ExactSampler(SeededBits(6)).cube(rate, length, 400)
    mean = np.abs(drawn).max(axis=1).mean()
    expected = length / float(Fraction(rate))
    assert abs(mean - expected) <= 1 + 7 * np.sqrt(length) / float(Fraction(rate)) / 20


@pytest.mark.parametrize(
    "bad", [{"rate": 0}, {"rate": -1}, {"rate": "1e-10"}, {"length": 0}, {"length": 1.5}, {"length": 4096}]
)
def test_parameters_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        ExactSampler(SeededBits(1)).cube(**({"rate": 1, "length": 3, "count": 1} | bad))
    assert caught.value.name in bad
