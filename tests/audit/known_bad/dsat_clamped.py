"""DSAT with the noisy threshold clamped to [0, 2] (CIKM 2015, algorithm 2, lines 7 and 8).

The secret noise of the threshold is what makes negative answers free. DSAT adds the controller's moves to the *noisy*
threshold and clamps the sum to the range of the distance. The printed controller moves by θ·|E − δ|/δ, more than 2
right after the first release: the threshold lies at 2 exactly, whatever the noise was, and stays there while the rate
of releases is above C/N. Then it is public, and every negative answer costs up to ε₁/(2C), without end: m of them, each
positive with a small probability p without the person, cost m·ln((1−p)/(1−p·e^{ε₁/(2C)})).

Pair. One person who raises the normalised distance by Δ at every step. Distances lie 3Δ under 2 without the person.
Event: no release in N/C steps.

The first release is a fixed public histogram as in ``dsft_thesis``: all of ε is ε₁. Distances are in units of Δ, which
is taken to be public (as printed it depends on the private number of people, which leaks besides).
"""

from __future__ import annotations

import math

import numpy as np

from .example import Floats, Generator, KnownBad

EPSILON, RELEASES, HORIZON = 2.0, 2, 100
PEOPLE = 41
LARGEST = PEOPLE - 1
"""The normalised distance 2 in units of Δ = 2/(n−1)."""
THETA, DELTA = 0.5, 0.05
UNDER = 3
LAST = HORIZON // RELEASES - 1
"""The last step at which one release is more than the planned rate."""


def outputs(present: bool, trials: int, generator: Generator) -> Floats:
    """The step of the second release, or one after the last step if none came; by then the number C is reached."""
    scale = 2 * RELEASES / EPSILON
    distance = LARGEST - UNDER + present
    # The paper's tiny budget for the first threshold: noise much wider than its range.
    threshold = np.clip(LARGEST / 2 + generator.laplace(scale=1000 * LARGEST, size=trials), 0, LARGEST)
    released = np.full(trials, float(LAST + 1))
    for step in range(2, LAST + 1):
        error = 1 / step - RELEASES / HORIZON
        moved = THETA * abs(abs(error) - DELTA) / DELTA * LARGEST / 2
        threshold = np.maximum(threshold - moved, 0) if error <= 0 else np.minimum(threshold + moved, LARGEST)
        positive = distance + generator.laplace(scale=scale, size=trials) >= threshold
        released = np.where(positive & (released > LAST), float(step), released)
    return released[:, None]


def silent(present: bool) -> float:
    """P(no release) with the threshold at its limit."""
    chance = 0.5 * math.exp(-(UNDER - present) * EPSILON / (2 * RELEASES))
    return (1 - chance) ** (LAST - 1)


DSAT_CLAMPED = KnownBad(
    name="DSAT, clamped noisy threshold",
    mistake="after the clamp the threshold is public and every negative answer costs",
    pair="Δ farther from the release at every one of 49 steps",
    claimed=EPSILON,
    loss=math.log(silent(False) / silent(True)),
    trials=300_000,
    deep=3_000_000,
    outputs=outputs,
)
