"""A person counts if they *counted* in fewer than c of the last w−1 steps: the tempting rule, which cascades.

It keeps more rows than looking back at presence, and no window holds more than c steps in which a person counts. But a
step that goes lets the next one in, which shuts out the one after it, and so on without end: somebody who comes at
every step counts in other steps for ever. With c = 1 and w = 2 the even steps become the odd ones. What is charged, 2c
steps of ε/(2c), is lost at every pair of them.

Pair. A person who is present in all of 12 steps, and the same without the first step. Every step publishes the count
with Laplace noise of scale 2c/ε, as Uniform does where people count in few steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .example import Floats, Generator, KnownBad

EPSILON, PRESENCE, WINDOW, STEPS = 1.0, 1, 2, 12
OTHERS = 20


def counted_before(present: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Who counts when the rule looks back at what was counted."""
    counted = np.zeros(len(present), dtype=np.bool_)
    for t in range(len(present)):
        counted[t] = present[t] and counted[max(0, t - WINDOW + 1) : t].sum() < PRESENCE
    return counted


def presences(whole: bool) -> NDArray[np.bool_]:
    """Present at every step, or at every step but the first."""
    present = np.ones(STEPS, dtype=np.bool_)
    present[0] = whole
    return present


def outputs(present: bool, trials: int, generator: Generator) -> Floats:
    """The log-likelihood ratio of all that is published."""
    scale = 2 * PRESENCE / EPSILON
    left, right = (OTHERS + counted_before(presences(whole)) for whole in (True, False))
    noisy = (left if present else right) + generator.laplace(scale=scale, size=(trials, STEPS))
    ratios: Floats = ((np.abs(noisy - right) - np.abs(noisy - left)) / scale).sum(axis=1)
    return np.round(ratios, 9)[:, None]


PRESENCE_COUNTED = KnownBad(
    name="Presence by what was counted",
    mistake="a step that goes lets the next one in, and all later steps change",
    pair="present at all of 12 steps, or at all but the first",
    claimed=EPSILON,
    loss=STEPS * EPSILON / (2 * PRESENCE),
    trials=100_000,
    deep=1_000_000,
    outputs=outputs,
)
