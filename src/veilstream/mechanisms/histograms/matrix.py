"""Noisy counts on a tree whose branching and budgets fit a declared workload, made consistent."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.histograms._strategies import Law, Reals, Tree, Workload, best_tree
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.boxes import require_dense
from veilstream.values.values import NoiseLaw, Values


@dataclass(frozen=True, slots=True)
class Matrix:
    """Measures the nodes of a tree, level by level, and fits the bins to all of them by least squares.

    ``workload`` is what the release is for: "ranges" (the default), "prefixes", or "bins". Branching and the budget
    of every level are those with the least mean variance over that workload (``_strategies``): both depend on the
    shape alone, so the noise is the same whatever the data, unbiased, and its variance known. Along several axes the
    strategies multiply: every pair of levels is measured, with the product of their shares.

    ``noise`` is "laplace", or "gaussian" for guarantees with delta > 0, where the shares are of μ².

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.histograms import Privelet
    >>> from veilstream.mechanisms.streams import Sample
    >>> flat, g = np.full((1, 4096), 50), Guarantee("1/10", w=1)
    >>> half = {h: np.std([simulate(Sample(h), g, flat, seed=s)[0, 700:2748].sum() for s in range(40)])
    ...     for h in (Matrix(), Privelet())}
    >>> bool(half[Matrix()] < 0.8 * half[Privelet()])
    True

    Qardaji, Yang, Li: Understanding hierarchical methods for differentially private histograms, VLDB 2013 (HB: the
    branching that suits ranges, consistency by least squares); McKenna and others, VLDB 2018 (HDMM: strategies
    optimised for a workload, products of them). Changed: budgets of levels are optimised instead of equal; the tree
    is as high as the bins ask for and not padded to a power of a fixed branching.
    """

    workload: Workload = "ranges"
    noise: Law = "laplace"
    oblivious: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.workload not in ("bins", "ranges", "prefixes"):
            raise InvalidInputError(name="workload", value=self.workload, limit="'bins', 'ranges' or 'prefixes'")
        if self.noise not in ("laplace", "gaussian"):
            raise InvalidInputError(name="noise", value=self.noise, limit="'laplace' or 'gaussian'")

    def trees(self, shape: tuple[int, ...]) -> list[Tree]:
        """The public strategy along every axis."""
        return [best_tree(size, self.workload, self.noise) for size in shape]

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        require_dense(x.shape)
        trees = self.trees(x.shape)
        places = np.unravel_index(np.arange(x.size), x.shape) if len(x.shape) > 1 else (np.arange(x.size),)
        noisy: dict[tuple[int, ...], Reals] = {}
        variance = 0.0
        for levels in itertools.product(*(tree.measured for tree in trees)):
            share = math.prod(
                (tree.shares[level] for tree, level in zip(trees, levels, strict=True)), start=Fraction(1)
            )
            counts = _node_counts(x, places, trees, levels)
            values = self._measured(counts, epsilon, share, meter)
            shape = tuple(tree.nodes(level) for tree, level in zip(trees, levels, strict=True))
            noisy[levels] = np.asarray(values.numbers, dtype=np.float64).reshape(*values.numbers.shape[:-1], *shape)
            # All levels have the noise of the whole budget but for their shares.
            precision = math.prod(tree.precisions()[level] for tree, level in zip(trees, levels, strict=True))
            variance = max(variance, float(np.max(values.std)) ** 2 * precision)
        bins = _solved(noisy, trees)
        spread = math.prod(tree.bin_variance() for tree in trees)
        return Values(bins.reshape(*bins.shape[: -len(trees)], -1), math.sqrt(variance * spread), self._law(trees))

    def _measured(self, counts: Sealed, epsilon: Fraction, share: Fraction, meter: Meter) -> Values:
        if self.noise == "laplace":
            return meter.laplace(counts, epsilon * share, "nodes")
        guarantee = meter.guarantee
        if guarantee.mu_squared == 0 or guarantee.pure == 0:
            raise InvalidBudgetError(f"Gaussian noise under {guarantee}: delta and pure_share must both be above 0")
        return meter.gaussian(counts, guarantee.mu_squared * epsilon / guarantee.pure * share, "nodes")

    def _law(self, trees: list[Tree]) -> NoiseLaw:
        if self.noise == "gaussian":
            return NoiseLaw.GAUSSIAN
        return NoiseLaw.LAPLACE if all(len(tree.measured) == 1 for tree in trees) else NoiseLaw.SUM


def _node_counts(
    x: Sealed, places: tuple[NDArray[np.int64], ...], trees: list[Tree], levels: tuple[int, ...]
) -> Sealed:
    """Counts of the boxes that are nodes of these levels along their axes."""
    if all(tree.width(level) == 1 for tree, level in zip(trees, levels, strict=True)):
        return x
    labels = np.zeros(x.size, dtype=np.int64)
    for place, tree, level in zip(places, trees, levels, strict=True):
        labels = labels * tree.nodes(level) + place // tree.width(level)
    return x.sums(labels, math.prod(tree.nodes(level) for tree, level in zip(trees, levels, strict=True)))


def _solved(noisy: dict[tuple[int, ...], Reals], trees: list[Tree]) -> Reals:
    """Least squares axis by axis, the last one first: the strategy is a product."""
    for axis in range(len(trees) - 1, -1, -1):
        finished: dict[tuple[int, ...], Reals] = {}
        for outer in dict.fromkeys(levels[:axis] for levels in noisy):
            along = {levels[axis]: values for levels, values in noisy.items() if levels[:axis] == outer}
            finished[outer] = trees[axis].solve(along, axis - len(trees))
        noisy = finished
    return noisy[()]
