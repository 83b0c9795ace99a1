"""Kendall's τ with noise that is scaled by the private number of rows (thesis, algorithm 5 and lemma 3.2.1).

The sensitivity 4/(n+1) is used with the table's own n, so neighbours get noise of different widths. Where one more row
moves τ by all of 4/(n+1), the narrower noise of the larger table already loses ε·(n+2)/(n+1). And beyond both values,
where densities fall like e^{−x(n+1)ε/4} and e^{−x(n+2)ε/4}, every step outwards adds ε/4, for ever: no ε holds.

Pair. Two concordant rows, and a third that is discordant with both: τ = 1 and −1/3. Event: τ̃ is far above 1.
"""

from __future__ import annotations

import math

import numpy as np

from .example import Floats, Generator, KnownBad

EPSILON = 1.0
ROWS = np.array([[0, 0], [1, 1], [2, -1]])


def outputs(present: bool, trials: int, generator: Generator) -> Floats:
    """The noisy coefficient of two attributes, as printed, before any clamp."""
    rows = ROWS if present else ROWS[:-1]
    n = len(rows)
    signs = np.sign(rows[:, None] - rows[None])
    tau = signs.prod(axis=2).sum() / (n * (n - 1))
    noisy: Floats = tau + generator.laplace(scale=4 / ((n + 1) * EPSILON), size=(trials, 1))
    return noisy


KENDALL_PRIVATE_N = KnownBad(
    name="Kendall, noise by the private n",
    mistake="the width of the noise tells the number of rows; far out no ε holds",
    pair="a third row, discordant with two concordant ones",
    claimed=EPSILON,
    loss=math.inf,
    trials=200_000,
    deep=10_000_000,
    outputs=outputs,
)
