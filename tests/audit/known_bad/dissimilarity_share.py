"""BD and BA with ε₁ = ε/w for every distance, as the DSAT paper reads them (CIKM 2015, section 7.3).

Kellaris et al. give ε/(2w) to every distance and ε/2 to publications. With ε/w for the distances these alone cost ε in
a window, and publications come on top: 1.5ε for BA, which spends up to ε/2 on them, and ε + ε/4 for BD in a
window of one step, where it spends half of what is left.

Whether the distance is a sum or a mean does not matter, as long as noise goes by its sensitivity; with one bin they are
the same. (A mean over U ≥ 2 bins with noise for a sensitivity of 1, its 1/U forgotten, costs ε/U only, and holds.)

Pair, at w = 1. One person in the second of two steps of one bin. Event: the distance was found large enough to publish,
and the published count lies high. The score of an output is the adversary's exact log-likelihood ratio: both laws are
known given the first release, which has the same law for both.
"""

from __future__ import annotations

import numpy as np

from .example import Floats, Generator, KnownBad, chance_above, laplace_ratio

EPSILON = 1.0
COUNT = 20.0


def outputs(share: float, present: bool, trials: int, generator: Generator) -> Floats:
    """What the second step tells, where publications have ``share``; BA has ε/2 at w = 1, BD half of that."""
    first = COUNT + generator.laplace(scale=1 / share, size=trials)
    count = COUNT + present
    error = 1 / share
    noisy = np.abs(count - first) + generator.laplace(scale=1 / EPSILON, size=trials)
    published = noisy > error
    value = count + generator.laplace(scale=1 / share, size=trials)
    # The distance's noise is above the gap to the error that a publication would have, or is not.
    with_one, without = (error - np.abs(c - first) for c in (COUNT + 1, COUNT))
    sides = np.where(published, 1.0, -1.0)
    told: Floats = np.log(chance_above(sides * with_one, 1 / EPSILON) / chance_above(sides * without, 1 / EPSILON))
    told += np.where(published, laplace_ratio(value, COUNT, 1 / share), 0.0)
    told = np.round(told, 9)
    return told[:, None]


def absorption(present: bool, trials: int, generator: Generator) -> Floats:
    return outputs(EPSILON / 2, present, trials, generator)


def distribution(present: bool, trials: int, generator: Generator) -> Floats:
    return outputs(EPSILON / 4, present, trials, generator)


BUDGET_ABSORPTION = KnownBad(
    name="BA, ε/w for every distance",
    mistake="distances alone cost ε, and publications come on top",
    pair="in the second of 2 steps, w = 1",
    claimed=EPSILON,
    loss=1.5 * EPSILON,
    trials=400_000,
    deep=5_000_000,
    outputs=absorption,
)
BUDGET_DISTRIBUTION = KnownBad(
    name="BD, ε/w for every distance",
    mistake="distances alone cost ε, and publications come on top",
    pair="in the second of 2 steps, w = 1",
    claimed=EPSILON,
    loss=1.25 * EPSILON,
    trials=400_000,
    deep=5_000_000,
    outputs=distribution,
)
