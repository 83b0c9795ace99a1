"""Dependence by maximum likelihood on blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from veilstream.errors import InvalidInputError
from veilstream.synthesis.margins import Margins
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.statistics.blocks import block_correlations

FEWEST_ROWS: Final = 8
"""Blocks of fewer rows on average estimate next to nothing."""


@dataclass(frozen=True, slots=True)
class BlockMLE:
    """Correlations as the mean of maximum-likelihood estimates on disjoint blocks of rows.

    One person is in one block, whose estimates lie in [−1, 1]; the mean over l blocks moves by at most 2/l. Each of the
    m(m−1)/2 coefficients gets noise Lap(m(m−1)/(l·ε)). Few blocks mean much noise, many blocks few rows in each:
    measured, ``Kendall`` is better (docs/synthesis.md), as the thesis found too.

    ``blocks`` is the public l. By default it is the thesis' rule, m(m−1)/2 / (0.025·ε), but leaves 8 published rows
    to a block.

    >>> BlockMLE(blocks=0)
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: blocks 0 of BlockMLE: a whole number of at least 1, or None; nothing was
    released

    Li, Xiong, Jiang, EDBT 2014; thesis algorithms 1 and 2, after Dwork and Smith 2010. Corrected: blocks come from a
    hash of the row, because cutting the table by position moves every row behind a new one; normal scores come from
    the published margins, because ranks within the whole table change in every block.
    """

    blocks: int | None = None

    def __post_init__(self) -> None:
        if self.blocks is not None and (type(self.blocks) is not int or not 1 <= self.blocks <= 1 << 26):
            raise InvalidInputError(
                name="blocks", of="BlockMLE", value=self.blocks, limit="a whole number of at least 1, or None"
            )

    def correlations(self, rows: SealedRows, margins: Margins, epsilon: Fraction, meter: Meter) -> NDArray[np.float64]:
        """A noisy correlation for every pair of attributes, between −1 and 1."""
        attributes = len(rows.shape)
        rule = int(Fraction(attributes * (attributes - 1) // 2) / (epsilon * Fraction(1, 40))) + 1
        blocks = self.blocks or max(1, min(rule, int(margins.total) // FEWEST_ROWS))
        scores = [_normal_scores(p) for p in margins.probabilities()]
        sums = meter.laplace(block_correlations(rows, scores, blocks), epsilon, "block estimates")
        return np.clip(np.asarray(sums.numbers) / blocks, -1.0, 1.0)


def _normal_scores(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """The normal quantile of the middle of every value's step in the distribution function."""
    middle = np.clip(np.cumsum(p) - p / 2, 1e-9, 1 - 1e-9)
    scores: NDArray[np.float64] = ndtri(middle)
    return scores
