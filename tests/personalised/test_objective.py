"""Objective perturbation under attack: its exact law on neighbours, the law of what is drawn, and a blind attacker."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.personalised.support import seeded
from veilstream.audit import lower_bound
from veilstream.personalised import PersonalAccounts, Roster, SimulatedMeter
from veilstream.personalised.meter import Perturbation
from veilstream.trusted.opening import open_counts
from veilstream.trusted.statistics.empirical_risk import (
    WEIGHT,
    Risk,
    SealedExamples,
    objective_perturbed,
)
from veilstream.trusted.statistics.losses import HuberHinge, Logistic, Loss

Floats = NDArray[np.float64]
LOSSES: list[Loss] = [Logistic(), HuberHinge(), HuberHinge(Fraction(1, 10))]


def noise_at(points: Floats, signed: Floats, weights: Floats, loss: Loss, inertia: float) -> tuple[Floats, Floats]:
    """For each f the noise b that it comes from, and ln det ∂b/∂f (signless); ``signed`` are y·x, ``inertia`` is NΛ."""
    margins = points @ signed.T
    b = -inertia * points - (weights * loss.slope(margins)) @ signed
    bends = weights * loss.bend(margins)
    matrices = np.einsum("pi,ij,ik->pjk", bends, signed, signed) + inertia * np.eye(points.shape[1])
    return b, np.linalg.slogdet(matrices)[1]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.floats(0.05, 3),
    st.floats(0.3, 5),
    st.integers(0, 6),
)
def test_no_record_changes_the_density_of_any_outcome_by_more_than_it_pays(
    loss: Loss, seed: int, dimensions: int, weight: float, strength: float, scale: float, others: int
) -> None:
    draws = np.asarray(seeded(seed).gaussian(1000, (others + 1, dimensions)), dtype=np.float64) / 1000
    signed = draws / np.maximum(np.linalg.norm(draws, axis=1, keepdims=True), 1)
    weights = np.append(np.ones(others), weight)
    inertia = (others + weight) * strength
    # Outcomes from the middle of the law and far outside, and some where the new record's margin is at a corner.
    cloud = np.asarray(seeded(seed + 1).gaussian(1000, (400, dimensions)), dtype=np.float64) / 1000
    points = np.vstack([cloud * 3 / inertia, cloud * 30 * scale / inertia, signed / np.maximum(inertia, 1)])
    b, bend = noise_at(points, signed, weights, loss, inertia)
    b_without, bend_without = noise_at(points, signed[:-1], weights[:-1], loss, inertia)
    moved = (np.abs(b_without).sum(axis=1) - np.abs(b).sum(axis=1)) / scale + bend - bend_without
    paid = weight * (math.sqrt(dimensions) / scale + float(loss.curvature) / inertia)
    assert np.abs(moved).max() <= paid * (1 + 1e-9)


@pytest.mark.parametrize("loss", LOSSES[:2], ids=repr)
def test_what_is_drawn_follows_the_law_of_the_proof(loss: Loss) -> None:
    # Dvoretzky, Kiefer, Wolfowitz: 800 draws are off by 0.105 somewhere with probability below 5e-8; noise of
    # twice the scale would be off by 0.125.
    signed = np.array([[0.9], [-0.4], [0.7]])
    signs = np.array([1, 1, 1])
    examples = SealedExamples(signed, signs, np.zeros(3, dtype=np.int64))
    risk = Risk(loss, 0.7, Fraction(3), Fraction(1), 3, 1)
    noise, scale = seeded(8), Fraction(3, 2)
    found = [objective_perturbed(examples, np.array([WEIGHT]), risk, scale, Fraction(1, 64), noise) for _ in range(800)]
    points = np.sort([float(open_counts(one)[0]) / 2.0**one.grid for one in found])
    b, _ = noise_at(points[:, None], signed, np.ones(3), loss, 3 * 0.7)
    tail = np.exp(-np.abs(b[:, 0]) / 1.5) / 2
    below = np.where(b[:, 0] >= 0, tail, 1 - tail)
    steps = np.arange(800) / 800
    assert max(np.abs(below - steps).max(), np.abs(below - steps - 1 / 800).max()) < 0.105


def outcomes(present: bool, perturbation: Perturbation, level: int, high: int, runs: int) -> Floats:
    """Coefficients of a model of two people with budgets high/2 and high, one of whom has a record or has not."""
    roster = Roster.of_budgets([Fraction(high, 2), high])
    weights = np.array([WEIGHT // 2, WEIGHT])
    rows = np.array([[1.0]]) if present else np.zeros((0, 1))
    count = len(rows)
    examples = SealedExamples(rows, np.ones(count), np.full(count, level, dtype=np.int64))
    meter = SimulatedMeter(roster, int(present))
    found: list[float] = []
    for _ in range(runs):
        meter.accounts = PersonalAccounts(roster)
        vector = meter.classifier(
            examples, weights, Fraction(high), HuberHinge(), 10.0, "model", perturbation=perturbation
        )
        found.append(float(vector[0]))
    return np.array(found)


def attacked(perturbation: Perturbation, level: int, high: int, runs: int) -> float:
    """What a blind attacker proves of the epsilon of one person; above the truth with probability 1e-7."""
    sides = [outcomes(present, perturbation, level, high, runs)[:, None] for present in (True, False)]
    return lower_bound(*sides, confidence=1 - 1e-7).epsilon


@pytest.mark.parametrize(("level", "own"), [(0, 2), (1, 4)])
def test_a_blind_attacker_learns_no_more_than_each_person_allows(level: int, own: int) -> None:
    # ``tests/audit`` has a patient one, who comes nearer.
    assert 0.2 * own < attacked("objective", level, 4, runs=400) <= own


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 30, 400]),
    st.integers(1, 12),
    st.sampled_from([1e-5, 1e-3, 0.1, 10.0]),
    st.sampled_from([Fraction(1, 100), Fraction(1), Fraction(500)]),
    st.booleans(),
)
def test_a_minimum_is_always_certified(
    loss: Loss, seed: int, people: int, dimensions: int, strength: float, scale: Fraction, alike: bool
) -> None:
    # Separable, repeated and random rows; InvalidInputError would be raised where a minimum is not certified.
    draws = np.asarray(seeded(seed).gaussian(1000, (people, dimensions)), dtype=np.float64) / 1000
    rows = np.tile(draws[:1], (people, 1)) if alike else draws
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1) / 1.0001
    signs = np.where(rows[:, 0] > 0, 1, -1)
    examples = SealedExamples(rows, signs, np.zeros(people, dtype=np.int64))
    risk = Risk(loss, strength, Fraction(people), Fraction(1), people, dimensions)
    sealed = objective_perturbed(examples, np.array([WEIGHT]), risk, scale, Fraction(1, 64), seeded(seed + 1))
    assert sealed.l1 > 0
