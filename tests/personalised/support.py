"""Rosters, people and seeded noise for the tests of personal budgets."""

from __future__ import annotations

import numpy as np

from veilstream.noise import ExactSampler
from veilstream.personalised import PeopleCounts, Roster, SimulatedMeter, count_levels
from veilstream.testing.simulation import SeededSource


def seeded(seed: int) -> ExactSampler:
    return ExactSampler(SeededSource(seed))


def town(bins: int = 3, people: int = 600) -> PeopleCounts:
    """People with five budgets, spread evenly over the bins whatever their budget."""
    budgets = np.array(["1/16", "1/8", "1/4", "1/2", "1"])
    who = np.arange(people)
    roster = Roster.of_budgets(budgets[who % 5].tolist())
    return count_levels(roster, who % 5, (who // 5) % bins, bins)


def meter(x: PeopleCounts, seed: int, w: int | None = None) -> SimulatedMeter:
    return SimulatedMeter(x.roster, seed, w)
