"""Block estimates of a correlation with blocks cut by row number (thesis, algorithm 2).

Block t holds rows (t−1)b + 1 to tb. The proof says that one person changes one block, whose estimate lies in [−1, 1],
so the mean of l blocks moves by 2/l. But a row that is inserted at the top pushes every other row one place
down, and all l blocks change.

Pair. The rows alternate, two strongly positive ones and two weakly negative ones: blocks of two agree in sign, and the
mean estimate is 0. With one more row on top every block has one of each, and their estimates are all about 0.78.
Event: the published mean is high.

Normal scores are fixed public numbers (as printed they are ranks in the whole table, which leaks besides), so that only
the cut by number is at fault; the estimate in a block is the maximum-likelihood one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilstream.trusted.statistics.blocks import likeliest_correlation

from .example import Floats, Generator, KnownBad

EPSILON, BLOCKS, SIZE = 1.0, 20, 2
STRONG, WEAK = (3, 3), (2, 1)
SCORES = np.array([-2.0, -0.5, 0.5, 2.0])
"""The public normal score of each of four codes."""


def rows(present: bool) -> NDArray[np.int64]:
    """Codes of two attributes; the person's row comes first."""
    table = np.array([STRONG, STRONG, WEAK, WEAK] * (BLOCKS * SIZE // 4))
    return np.vstack([STRONG, table]) if present else table


def mean_estimate(present: bool) -> float:
    """The mean over blocks by row number; rows beyond the last whole block are left out, as n/l rounds down."""
    z = SCORES[rows(present)][: BLOCKS * SIZE].reshape(BLOCKS, SIZE, 2)
    return float(likeliest_correlation(z.prod(axis=2).mean(axis=1), (z * z).sum(axis=2).mean(axis=1)).mean())


def outputs(present: bool, trials: int, generator: Generator) -> Floats:
    """The noisy mean estimate."""
    noisy: Floats = mean_estimate(present) + generator.laplace(scale=2 / (BLOCKS * EPSILON), size=(trials, 1))
    return noisy


MLE_BY_INDEX = KnownBad(
    name="MLE, blocks by row number",
    mistake="a row on top moves every other row, and all blocks change",
    pair="one more row on top of 40",
    claimed=EPSILON,
    loss=abs(mean_estimate(True) - mean_estimate(False)) * BLOCKS * EPSILON / 2,
    trials=100_000,
    deep=1_000_000,
    outputs=outputs,
)
