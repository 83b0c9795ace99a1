"""DSFT with the constants of the thesis (algorithm 7): a secret Lap(2Δ/ε₁) and comparisons with Lap(2CΔ/ε₁).

The proof there charges the secret ε₁/2 and the C positives ε₁/(2C) each. But the secret moves by Δ to make good for the
negatives while the distance of a positive may move by Δ the other way, so that a positive costs twice its share:
with C − 1 positives the decisions lose ε₁/2 + 2(C−1)·ε₁/(2C) = (1.5 − 1/C)·ε₁. The CIKM version has Lap(2CΔ/ε₁) for the
secret too, and that holds.

Pair. A person who is farther from the release than the others at eleven steps and nearer at two more: without the
person distances are k at first and k + 1 at the end, with the person the other way round; T = k + 0.2. Event: no
release in the long part, which makes a high secret likely, and releases at both last steps.

Histograms are released by a method that publishes a fixed public histogram whatever the data: it costs nothing, so
that all of ε is ε₁ and only the decisions speak. Given the secret, comparisons are independent and their chances known,
so that the answers of a part are drawn at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .example import Floats, Generator, KnownBad, chance_above

EPSILON, RELEASES = 2.0, 3
LONG, SHORT = 11, RELEASES - 1
PUBLIC = np.array([50, 50])
NEAR = 4
THRESHOLD = NEAR + 0.2


def stream(present: bool) -> NDArray[np.int64]:
    """The first step and the two parts; the person is in bin 0 in the long one and in bin 1 in the short one."""
    long = PUBLIC + np.array([NEAR + present, 0])
    short = PUBLIC - np.array([0, NEAR + 1 - present])
    return np.vstack([PUBLIC, *[long] * LONG, *[short] * SHORT])


def outputs(present: bool, trials: int, generator: Generator) -> Floats:
    """0 for a release in the long part, 1 for none there, 2 if both of the short part came then."""
    distances = np.abs(stream(present) - PUBLIC).sum(axis=1)
    threshold = THRESHOLD + generator.laplace(scale=2 / EPSILON, size=trials)
    scale = 2 * RELEASES / EPSILON
    calm = np.flatnonzero(generator.random(trials) < chance_above(distances[1] - threshold, scale) ** LONG)
    both = generator.random(calm.size) < chance_above(threshold[calm] - distances[-1], scale) ** SHORT
    seen = np.zeros((trials, 1))
    seen[calm, 0] = 1.0 + both
    return seen


DSFT_THESIS = KnownBad(
    name="DSFT, constants of the thesis",
    mistake="a positive comparison costs twice what the proof charges",
    pair="farther from the release at 11 steps, nearer at 2",
    claimed=EPSILON,
    loss=(1.5 - 1 / RELEASES) * EPSILON,
    trials=6_000_000,
    deep=40_000_000,
    outputs=outputs,
)
