"""Advice from public facts: formulas that simulation confirms, and epsilons that give the error that was asked for."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import InvalidInputError
from veilstream.evaluate.advise import (
    Choice,
    Facts,
    best,
    epsilon_for,
    gaussian_choice,
    longer_steps,
    mechanism_choices,
    synthetic_stream,
    uniform_choice,
)

DAY = Facts(count=200, bins=5, w=12)


@pytest.mark.parametrize(
    "facts", [DAY, Facts(50, 3, w=1, per_person=4), Facts(50, 3, w=None, steps=30)], ids=["window", "event", "user"]
)
def test_the_exact_figures_are_what_simulations_show(facts: Facts) -> None:
    """Six standard errors, false alarm below 1e-8; noise is whole, so the 95 % half width is met from both sides."""
    told = uniform_choice(facts, Fraction(1))
    guarantee = vs.Guarantee(1, facts.w)
    zeros = np.zeros((1, facts.bins), dtype=np.int64)
    y = vs.simulate_many(facts.uniform, guarantee, zeros, seed=5, runs=20_000, max_contribution=facts.per_person)
    noise = np.abs(np.asarray(y)).ravel()
    assert noise.mean() == pytest.approx(told.mean_error, abs=6 * 1.5 * told.mean_error / math.sqrt(noise.size))
    slack = 6 * math.sqrt(0.05 / noise.size)
    assert (noise > told.error_95).mean() <= 0.05 + slack
    assert (noise > told.error_95 - 1).mean() >= 0.05 - slack


def test_simulated_figures_hold_on_another_stream_of_the_same_kind() -> None:
    """Other seeds agree within a third: the spread of ten runs is a few per cent."""
    first = {c.mechanism: c for c in mechanism_choices(DAY, Fraction(1), runs=6, seed=1)}
    second = {c.mechanism: c for c in mechanism_choices(DAY, Fraction(1), runs=6, seed=100)}
    assert len(first) > 5
    for name, choice in first.items():
        assert second[name].mean_error == pytest.approx(choice.mean_error, rel=1 / 3), name
        assert choice.low <= choice.mean_error <= choice.high


def test_the_synthetic_stream_moves_as_it_was_told() -> None:
    facts = Facts(count=1000, bins=100, w=10, change=0.1)
    stream = synthetic_stream(facts, 400, seed=3).astype(float)
    steps = np.abs(np.diff(np.log(stream), axis=0)).mean()
    assert stream.mean() == pytest.approx(1000, rel=0.2)
    assert steps == pytest.approx(0.1, rel=0.2)
    still = synthetic_stream(Facts(count=1000, bins=3, w=10, change=0), 20, seed=3)
    assert (still == 1000).all()


@pytest.mark.parametrize("error", [3, 50, 700.5])
@pytest.mark.parametrize("per_person", [1, 7])
def test_the_epsilon_for_an_error_is_enough_and_hardly_more(error: float, per_person: int) -> None:
    facts = Facts(count=100, bins=4, w=24, per_person=per_person)
    epsilon = epsilon_for(facts, error)
    assert uniform_choice(facts, epsilon).error_95 <= error
    assert uniform_choice(facts, epsilon * Fraction(9, 10)).error_95 >= 0.99 * error
    assert len(f"{float(epsilon):e}".split("e")[0].rstrip("0").replace(".", "")) <= 2


def test_still_counts_are_better_repeated_and_moving_ones_are_not() -> None:
    errors = [
        {choice.mechanism: choice.mean_error for choice in mechanism_choices(facts, Fraction(1), runs=2)}
        for facts in (Facts(count=40, bins=20, w=20, change=0.0005), Facts(count=2000, bins=5, w=20, change=0.5))
    ]
    still, moving = errors
    assert still["sample"] < still["uniform"]
    assert moving["uniform"] < moving["sample"]


def test_the_best_choice_has_the_least_error() -> None:
    choices = mechanism_choices(Facts(count=200, bins=5, w=20, change=0.1), Fraction(1), runs=2)
    assert best(choices).mean_error <= 1.1 * min(choice.mean_error for choice in choices)


def test_longer_steps_share_among_fewer_and_hold_more() -> None:
    rows = dict(longer_steps(DAY, Fraction(1), (1, 3, 12, 24)))
    assert list(rows) == [1, 3, 12]
    assert rows[3].w == 4
    assert rows[3].relative_error < rows[1].relative_error / 8


def test_a_simple_mechanism_wins_a_draw() -> None:
    def choice(name: str, error: float, exact: bool) -> Choice:
        return Choice(name, Fraction(1), 4, error, error, error, 3 * error, 0.1, 1.0, exact)

    assert best([choice("other", 10.0, False), choice("uniform", 10.1, True)]).mechanism == "uniform"
    assert best([choice("other", 10.0, False), choice("uniform", 12.0, True)]).mechanism == "other"
    assert best([choice("other", 10.0, False), choice("model", 10.1, False)]).mechanism == "model"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"count": -1}, "count"),
        ({"bins": 0}, "bins"),
        ({"count": math.nan}, "count"),
        ({"per_person": 0}, "per_person"),
        ({"w": None}, "steps"),
    ],
)
def test_facts_that_cannot_be_are_refused(given: dict[str, float], name: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        Facts(**({"count": 10, "bins": 2, "w": 4} | given))  # type: ignore[arg-type]
    assert refused.value.name == name
    with pytest.raises(InvalidInputError):
        epsilon_for(DAY, 0)


def test_what_delta_buys_is_what_a_release_in_every_step_gains() -> None:
    """Six standard errors, false alarm below 1e-8."""
    facts = Facts(count=200, bins=5, w=40)
    told = gaussian_choice(facts, Fraction(1), "1e-6")
    guarantee = vs.Guarantee(1, 40, "1e-6")
    zeros = np.zeros((1, facts.bins), dtype=np.int64)
    y = np.asarray(vs.simulate_many(vs.Uniform(histogram=vs.Gaussian()), guarantee, zeros, seed=5, runs=4_000))
    assert np.abs(y).mean() == pytest.approx(told.mean_error, rel=6 * 0.76 / math.sqrt(y.size))
    assert told.mean_error < 0.6 * uniform_choice(facts, Fraction(1)).mean_error
