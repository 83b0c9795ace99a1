"""HB: a tree of the branching that suits ranges, made consistent, and pruned where it holds noise alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms._strategies import BoxTree, best_box_tree
from veilstream.mechanisms.histograms._trees import Integers, Level, least_squares
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.boxes import require_dense
from veilstream.values.values import Values

SMALLEST_VARIANCE = 1e-100
"""Stands for noise too narrow for floating point, so that no weight becomes 0/0."""


@dataclass(frozen=True, slots=True)
class HB:
    """Measures the boxes of a tree level by level, fits the bins to all of them, and spreads what holds noise alone.

    Height, branching and the budget of every level are those with the least mean variance over random ranges
    (``_strategies``), from the shape alone. Least squares makes parents the sums of their children. A box whose
    estimate is below ``prune`` standard deviations of what was measured inside it is spread evenly instead of being
    divided, which is most of the gain where data are sparse or budgets small; with ``prune=0`` it is never, and the
    noise is unbiased and that of ``Matrix`` on a line.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.histograms import PSD
    >>> from veilstream.mechanisms.streams import Sample
    >>> flat, g = np.full((1, 4096), 50), Guarantee("1/10", w=1)
    >>> half = {h: np.std([simulate(Sample(h), g, flat, seed=s)[0, 700:2748].sum() for s in range(40)])
    ...     for h in (HB(), PSD())}
    >>> bool(half[HB()] < half[PSD()])
    True

    Qardaji, Yang, Li: Understanding hierarchical methods for differentially private histograms, VLDB 2013. Changed:
    budgets of levels are optimised for ranges instead of equal, the branching is not a power of two, and the tree is
    pruned as in ``PSD``.
    """

    prune: float = 2.0
    batchable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.prune <= 100:
            raise InvalidInputError(name="prune", value=self.prune, limit="from 0 to 100")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        require_dense(x.shape)
        tree = best_box_tree(x.shape)
        places = [along.reshape(-1) for along in np.indices(x.shape, dtype=np.int64)]
        levels: list[Level] = []
        for depth, share in enumerate(tree.shares):
            low, high, parent = _boxes(tree, depth)
            noisy, variance = np.zeros(len(low)), math.inf
            if share:
                values = meter.laplace(_counts(x, places, tree, depth), epsilon * share, "boxes")
                noisy = np.asarray(values.numbers, dtype=np.float64)
                variance = max(float(np.max(values.std)) ** 2, SMALLEST_VARIANCE)
            levels.append(Level(low, high, parent, noisy, variance))
        numbers, variance_of_bins = least_squares(levels, self.prune, meter.branch)
        return Values(numbers, np.sqrt(variance_of_bins))


def _counts(x: Sealed, places: Sequence[Integers], tree: BoxTree, depth: int) -> Sealed:
    if depth == tree.height:
        return x
    labels = np.zeros(x.size, dtype=np.int64)
    for place, width, nodes in zip(places, tree.widths(depth), tree.nodes(depth), strict=True):
        labels = labels * nodes + place // width
    return x.sums(labels, math.prod(tree.nodes(depth)))


def _boxes(tree: BoxTree, depth: int) -> tuple[Integers, Integers, Integers]:
    """Corners of the boxes of a level, row-major, and their parents in the level above."""
    number = np.indices(tree.nodes(depth), dtype=np.int64).reshape(len(tree.shape), -1)
    widths = np.array(tree.widths(depth), dtype=np.int64)[:, None]
    low = number * widths
    high = np.minimum(low + widths, np.array(tree.shape, dtype=np.int64)[:, None])
    parent = np.zeros(number.shape[1], dtype=np.int64)
    if depth:
        for along, branching, nodes in zip(number, tree.branchings, tree.nodes(depth - 1), strict=True):
            parent = parent * nodes + along // branching
    return low.T, high.T, parent
