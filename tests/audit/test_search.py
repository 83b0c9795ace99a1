"""A search for pairs of neighbours that the library of pairs does not hold."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from veilstream.audit import Pair, attack, stream_claim
from veilstream.audit.pairs import alternation, border_burst, every_bin, moving
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms import EFPA, PHP, PSD, DPCube, FilterPriority, NoiseFirst, StructureFirst
from veilstream.mechanisms.streams import (
    DSAT,
    DSFT,
    BudgetAbsorption,
    BudgetDistribution,
    Fast,
    FixedRate,
    Sample,
    Scheduled,
    SlidingWindow,
    TimeUnit,
    Uniform,
)
from veilstream.privacy.guarantee import Guarantee

SURE = 1 - 1e-10
STEPS = 5
WINDOW = 3
HALF = Fraction(1, 2)


@st.composite
def pairs(draw: st.DrawFn, w: int = WINDOW) -> Pair:
    """Streams of one or two bins with one person somewhere within w successive steps."""
    bins = draw(st.integers(1, 2))
    follows = draw(st.booleans())
    counts = st.integers(-6, 6) if follows else st.sampled_from([0, 1, 5, 100])
    others = np.array(draw(st.lists(counts, min_size=STEPS * bins, max_size=STEPS * bins))).reshape(STEPS, bins)
    others[0] = 1_000 if follows else others[0]
    first = draw(st.integers(0, STEPS - w))
    person = np.zeros((STEPS, bins), dtype=np.int64)
    for t in range(first, first + w):
        place = draw(st.integers(-1, bins - 1))
        if place >= 0:
            person[t, place] = 1
    person[first, 0] = 1
    person[first, 1:] = 0
    return Pair("found", others, person, follows=follows)


MECHANISMS: list[Any] = [
    Uniform(),
    Sample(),
    FixedRate(interval=2),
    TimeUnit(window=2),
    SlidingWindow(window=2),
    Scheduled(weights="1 1 8"),
    DSFT(releases=2, threshold=0, decision_share=HALF),
    DSAT(releases=2, margin=0, decision_share=HALF, spacing=0),
    BudgetDistribution(),
    BudgetAbsorption(),
    Fast(samples=2, memory=1),
]
HISTOGRAMS: list[Any] = [
    EFPA(),
    EFPA(fallback=True),
    PHP(),
    NoiseFirst(),
    StructureFirst(buckets=2),
    PSD(),
    PSD(kind="kd"),
    FilterPriority(),
    DPCube(),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(pair=pairs())
def test_no_pair_is_found_that_shows_more_than_was_claimed(mechanism: Any, pair: Pair) -> None:
    """False alarm 1e-10 for each example."""
    attack(stream_claim(mechanism, Guarantee(2, w=WINDOW), pair), 2_000, confidence=SURE).require()


@st.composite
def tables(draw: st.DrawFn) -> Pair:
    """One step of two to four bins, as a line or a grid, with one person in one of them."""
    shape = draw(st.sampled_from([(2,), (3,), (4,), (2, 2)]))
    bins = math.prod(shape)
    others = np.array([draw(st.lists(st.sampled_from([0, 1, 2, 7, 60]), min_size=bins, max_size=bins))])
    person = np.zeros((1, bins), dtype=np.int64)
    person[0, draw(st.integers(0, bins - 1))] = 1
    return Pair("found", others, person, shape=shape)


@pytest.mark.parametrize("histogram", HISTOGRAMS, ids=lambda histogram: str(histogram)[:24])
@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(pair=tables())
def test_no_table_is_found_that_shows_more_than_was_claimed(histogram: Any, pair: Pair) -> None:
    """False alarm 1e-10 for each example."""
    attack(stream_claim(Sample(histogram), Guarantee(2, w=1), pair), 2_000, confidence=SURE).require()


@settings(max_examples=50, deadline=None)
@given(pair=pairs())
def test_found_pairs_are_neighbours(pair: Pair) -> None:
    pair.check(Guarantee(1, w=WINDOW))
    there = np.flatnonzero(pair.person.any(axis=1))
    if there[-1] > there[0]:
        with pytest.raises(InvalidInputError, match="nothing was released"):
            pair.check(Guarantee(1, w=int(there[-1] - there[0])))


def test_the_search_would_find_a_broken_mechanism() -> None:
    """Uniform for a window of 1 on a person who is there three times: 3 ε, where ε is claimed. False alarm 1e-10."""
    pair = moving(3, steps=3)
    guarantee = Guarantee(1, w=None)
    claim = stream_claim(Uniform(horizon=3), guarantee, pair, epsilon="1/3")
    assert not attack(claim, 20_000, confidence=SURE).passed


@pytest.mark.parametrize(
    ("others", "person", "words"),
    [
        (np.zeros((2, 1)), np.zeros((2, 1)), "from 1 to 1 counts"),
        (np.zeros((2, 1)), np.full((2, 1), 2), "from 1 to 1 counts"),
        (np.zeros((2, 1)), np.ones((1, 1)), "steps × bins"),
        (np.full((2, 1), -1), np.ones((2, 1)), "negative"),
    ],
)
def test_what_is_no_pair_is_refused(others: Any, person: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Pair("broken", others.astype(np.int64), person.astype(np.int64))


def test_pairs_put_the_person_where_their_names_say() -> None:
    burst = border_burst(4)
    assert burst.person[:, 0].nonzero()[0].tolist() == [2, 3, 4, 5]
    assert every_bin(2, bins=3).person.sum(axis=1).tolist() == [3, 3, 0]
    assert every_bin(2, bins=3).max_contribution == 3
    assert alternation(7, None, steps=4).others[:, 0].tolist() == [1000, 7, -7, 7]
