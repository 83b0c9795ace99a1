"""What every one-time histogram of the catalogue owes its users, at any size, shape and epsilon."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.histograms import (
    DAWA,
    EFPA,
    HB,
    PHP,
    AdaptiveGrid,
    Auto,
    Barak,
    Haar,
    Marginals,
    Matrix,
    NoiseFirst,
    Privelet,
    StructureFirst,
)
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.testing.checks import check_histogram
from veilstream.testing.fakes import NoNoise
from veilstream.trusted.counts import seal

from .support import new_meter, release

METHODS: dict[str, HistogramMechanism] = {
    "efpa": EFPA(),
    "efpa with fallback": EFPA(fallback=True),
    "p-hp": PHP(),
    "privelet": Privelet(),
    "privelet on all axes": Privelet(direct=()),
    "noise-first": NoiseFirst(),
    "structure-first": StructureFirst(),
    "structure-first, few": StructureFirst(buckets=3),
    "barak": Barak(),
    "hb": HB(),
    "matrix": Matrix(),
    "matrix of prefixes": Matrix("prefixes"),
    "marginals": Marginals(order=1),
    "dawa": DAWA(),
    "ag": AdaptiveGrid(),
    "haar": Haar(),
    "haar with blocks": Haar(blocks=Fraction(1, 3)),
    "haar along a curve": Haar(order="z"),
    "haar on boxes": Haar(side=3),
    "auto": Auto(),
    "auto for bins": Auto(use="bins"),
    "auto for bins, edition 2": Auto(use="bins", edition=2),
    "auto for bins, edition 3": Auto(use="bins", edition=3),
}
every_method = pytest.mark.parametrize("name", METHODS)


@every_method
@pytest.mark.parametrize("w", [1, 5, None])
@settings(max_examples=15, deadline=None)
@given(
    counts=st.lists(st.integers(0, 1000), min_size=1, max_size=40),
    epsilon=st.sampled_from(["1/1000", "1/7", "1", "10"]),
    seed=st.integers(0, 1000),
)
def test_no_method_spends_more_than_its_epsilon(
    name: str, w: int | None, counts: list[int], epsilon: str, seed: int
) -> None:
    meter = new_meter("100", len(counts), seed, w)
    values = METHODS[name].estimate(seal(np.array(counts), 0), Fraction(epsilon), meter)
    assert sum(charge.epsilon for charge in meter.charges) <= Fraction(epsilon)
    assert all(charge.bins is None for charge in meter.charges)
    assert values.numbers.shape == (len(counts),)
    assert np.isfinite(values.numbers).all()
    assert np.asarray(values.std).min() >= 0


@every_method
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100, 257, 5000])
def test_any_number_of_bins_and_all_zeros(name: str, size: int) -> None:
    values = release(METHODS[name], np.zeros(size, dtype=np.int64), noise=NoNoise())
    assert np.allclose(values.numbers, 0, atol=1e-6)
    assert values.numbers.shape == (size,)


@every_method
def test_a_flat_histogram_comes_back_when_there_is_no_noise(name: str) -> None:
    flat = np.full(128, 37, dtype=np.int64)
    assert np.allclose(release(METHODS[name], flat, noise=NoNoise()).numbers, 37, atol=1e-3)


@every_method
def test_tables_keep_their_cells(name: str) -> None:
    table = np.arange(96 * 2 * 12 * 2 * 2 * 3, dtype=np.int64) % 7
    values = release(METHODS[name], table, shape=(96, 2, 12, 2, 2, 3))
    assert values.numbers.shape == table.shape
    assert np.isfinite(values.numbers).all()


@every_method
@pytest.mark.parametrize("epsilon", ["1/1000000", "1/1000000000000"])
def test_a_tiny_epsilon_is_used_or_refused_before_anything_is_charged(name: str, epsilon: str) -> None:
    meter = new_meter(epsilon, 300, 1)
    x = seal(np.arange(300), 0)
    try:
        values = METHODS[name].estimate(x, Fraction(epsilon), meter)
    except InvalidBudgetError:
        assert meter.charges == []
    else:
        assert np.isfinite(values.numbers).all()


@pytest.mark.parametrize(
    "histogram", [METHODS[name] for name in METHODS if name not in ("efpa", "p-hp")], ids=lambda h: type(h).__name__
)
def test_other_parameters_conform_too(histogram: HistogramMechanism) -> None:
    check_histogram(histogram)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: PHP(depth=0), "depth 0: a whole number from 1 to 30"),
        (lambda: PHP(structure=Fraction(1)), "structure"),
        (lambda: StructureFirst(buckets=1000), "buckets 1000: a whole number from 1 to 128"),
        (lambda: StructureFirst(structure=Fraction(0)), "structure"),
        (lambda: NoiseFirst(price=float("nan")), "price nan"),
        (lambda: Privelet(direct=(0, 0)), "distinct axes"),
        (lambda: Barak(order=-1), "order -1"),
        (lambda: Barak(order=1, marginals=((0,),)), "give one"),
        (lambda: Barak(marginals=()), "at least one"),
    ],
)
def test_bad_parameters_are_refused_where_they_are_born(wrong: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        wrong()  # type: ignore[operator]


def test_parameters_that_do_not_fit_the_table_are_refused_before_anything_is_charged() -> None:
    for histogram, words in ((Privelet(direct=(2,)), "2 axes"), (Barak(marginals=((0, 5),)), "from 0 to 1")):
        meter = new_meter("1", 12, 1)
        with pytest.raises(InvalidInputError, match=words):
            histogram.estimate(seal(np.zeros(12, dtype=np.int64), 0, shape=(4, 3)), Fraction(1), meter)
        assert meter.charges == []
