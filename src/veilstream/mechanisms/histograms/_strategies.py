"""Strategies of the matrix mechanism on trees: how much of a budget each level of a tree gets for a declared workload.

A tree over n bins has levels 0..h; a node of level l covers s_l = b^(h−l) bins. If level l is measured with noise of
variance 1/w_l², least squares has the covariance (Σ_l w_l² J_l)⁻¹, J_l the block matrix of ones on the nodes of level
l. All J_l share their eigenspaces: V_k, what is constant on nodes of level k and adds up to 0 in those of level k − 1,
has eigenvalue s_l of J_l for l ≥ k and 0 else. A query q therefore has the variance

    Σ_k |P_k q|² / λ_k,     λ_k = Σ_{l ≥ k} w_l² s_l,

P_k the projection on V_k, and a workload enters only by the means E_k of |P_k q|² over its queries. Weights are found
by minimising Σ E_k/λ_k under Σ w_l = 1 (Laplace noise, where a count moves every level by 1) or Σ w_l² = 1
(Gaussian). Along several axes strategies multiply, and so do their errors.

Li, Miklau, Hay, McGregor, Rastogi: The matrix mechanism, VLDB Journal 2015; Qardaji, Yang, Li: Understanding
hierarchical methods for differentially private histograms, VLDB 2013 (branching); McKenna, Miklau, Hay,
Machanavajjhala: Optimizing error of high-dimensional statistical queries under differential privacy, VLDB 2018
(products of strategies).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Reals: TypeAlias = NDArray[np.float64]
Workload: TypeAlias = Literal["bins", "ranges", "prefixes"]
Law: TypeAlias = Literal["laplace", "gaussian"]
GRID: Final = 1 << 20
SMALLEST_SHARE: Final = 1e-3
"""A level that would get less is not measured."""
QUERIES: Final = 2048
TALLEST: Final = 20


@dataclass(frozen=True, slots=True)
class Tree:
    """A complete tree of ``height`` levels below its root, ``branching`` children a node, over at least ``size`` bins.

    ``shares`` says how much of the budget each level gets, from the root down, and they sum to 1: of ε under Laplace
    noise, of μ² under Gaussian noise.
    """

    size: int
    branching: int
    shares: tuple[Fraction, ...]
    law: Law

    @property
    def height(self) -> int:
        return len(self.shares) - 1

    @property
    def measured(self) -> list[int]:
        """The levels that have a share."""
        return [level for level, share in enumerate(self.shares) if share]

    def width(self, level: int) -> int:
        """How many bins a node of a level covers."""
        return int(self.branching ** (self.height - level))

    def nodes(self, level: int) -> int:
        """How many nodes of a level have bins that exist."""
        return -(-self.size // self.width(level))

    def precisions(self) -> Reals:
        """w_l² of every level for a budget of 1: variances of noise are 1/w_l² times that of one whole budget."""
        shares = np.array([float(share) for share in self.shares])
        return shares**2 if self.law == "laplace" else shares

    def solve(self, levels: dict[int, Reals], axis: int) -> Reals:
        """The least-squares bins along ``axis`` from noisy counts of the nodes of every measured level."""
        precisions = self.precisions()
        total: Reals | float = 0.0
        for level, noisy in levels.items():
            counts = np.moveaxis(noisy, axis, -1)
            missing = self.branching**level - counts.shape[-1]
            full = np.pad(counts, [(0, 0)] * (counts.ndim - 1) + [(0, missing)])
            total = total + np.repeat(full * precisions[level], self.width(level), axis=-1)
        assert isinstance(total, np.ndarray)
        solved = np.zeros_like(total)
        coarser: Reals | float = 0.0
        for level, eigenvalue in enumerate(self.eigenvalues()):
            means = total.reshape(*total.shape[:-1], -1, self.width(level)).mean(axis=-1)
            finer = np.repeat(means, self.width(level), axis=-1)
            solved += (finer - coarser) / eigenvalue
            coarser = finer
        return np.moveaxis(solved[..., : self.size], -1, axis)

    def eigenvalues(self) -> Reals:
        """λ_k of every level."""
        weighted = self.precisions() * [self.width(level) for level in range(self.height + 1)]
        return np.maximum(np.cumsum(weighted[::-1])[::-1], 1e-300)

    def bin_variance(self) -> float:
        """The variance of a single bin, as a multiple of that of the whole budget's noise."""
        spread = np.diff(1 / np.array([float(self.width(level)) for level in range(self.height + 1)]), prepend=0.0)
        return float((spread / self.eigenvalues()).sum())


@lru_cache(maxsize=256)
def best_tree(size: int, workload: Workload, law: Law) -> Tree:
    """The tree and its shares with the least mean variance over a workload, of all heights.

    >>> tree = best_tree(4096, "ranges", "laplace")
    >>> tree.branching, [round(float(share), 2) for share in tree.shares]
    (16, [0.0, 0.32, 0.33, 0.35])
    >>> best_tree(4096, "bins", "laplace").shares[-1]
    Fraction(1, 1)
    """
    flat = Tree(size, max(size, 1), (Fraction(0), Fraction(1)), law)
    if workload == "bins" or size < 4:
        return flat
    best, least = flat, workload_error(flat, workload)
    for height in range(2, TALLEST + 1):
        branching = math.ceil(size ** (1 / height) - 1e-9)
        if branching < 2 or branching ** (height - 1) >= size:
            break
        tree = _optimised(size, branching, height, workload, law)
        error = workload_error(tree, workload)
        if error < least:
            best, least = tree, error
    return best


def workload_error(tree: Tree, workload: Workload) -> float:
    """The mean variance of a workload's queries, as a multiple of that of the whole budget's noise."""
    return float((_energies(tree, workload) / tree.eigenvalues()).sum())


def _energies(tree: Tree, workload: Workload) -> Reals:
    """E_k of every level, by evenly spread queries."""
    widths = [float(tree.width(level)) for level in range(tree.height + 1)]
    norms = [1 / width for width in widths] if workload == "bins" else _norms(tree.size, widths, workload)
    return np.maximum(np.diff(norms, prepend=0.0), 0.0)


def _norms(size: int, widths: Sequence[float], workload: Workload) -> list[float]:
    """The mean of |P q|² over queries q, P the projection on what is constant in nodes of each width."""
    first, last = _queries(size, workload)
    norms: list[float] = []
    for width in widths:
        low, high = np.floor(first / width), np.floor(last / width)
        inside = np.maximum(high - low - 1, 0.0) * width
        head, tail = (low + 1) * width - first, last - high * width
        apart = inside + (head**2 + tail**2) / width
        norms.append(float(np.where(low == high, (last - first) ** 2 / width, apart).mean()))
    return norms


def _queries(size: int, workload: Workload) -> tuple[Reals, Reals]:
    """Ends of ranges from an additive recurrence, which is spread more evenly than chance."""
    number = np.arange(1, QUERIES + 1)
    u, v = (number * 0.7548776662466927) % 1, (number * 0.5698402909980532) % 1
    ends = np.sort(np.floor(np.stack([u, v]) * (size + 1)), axis=0)
    if workload == "prefixes":
        return np.zeros(QUERIES), 1 + np.floor(u * size)
    return ends[0], np.maximum(ends[1], ends[0] + 1)


def _optimised(size: int, branching: int, height: int, workload: Workload, law: Law) -> Tree:
    even = Tree(size, branching, tuple([Fraction(1, height + 1)] * (height + 1)), law)
    widths = np.array([float(even.width(level)) for level in range(height + 1)])
    shares, _ = _best_shares(_energies(even, workload), widths, law)
    return Tree(size, branching, shares, law)


def _best_shares(energies: Reals, cells: Reals, law: Law) -> tuple[tuple[Fraction, ...], float]:
    """Shares of the levels, whose nodes cover so many ``cells``, with the least mean variance, and that variance."""
    from scipy.optimize import minimize

    power = 2 if law == "laplace" else 1

    def error(logits: Reals) -> tuple[float, Reals]:
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        eigenvalues = np.cumsum((shares**power * cells)[::-1])[::-1]
        each = energies / eigenvalues
        slope = -np.cumsum(each / eigenvalues) * cells * power * shares ** (power - 1)
        # On a logarithmic scale all errors of interest are of one size.
        total = float(each.sum())
        return math.log(total), shares * (slope - shares @ slope) / total

    found = minimize(error, np.zeros(cells.size), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return exact_shares(np.exp(found.x - np.max(found.x))), float(found.fun)


@dataclass(frozen=True, slots=True)
class BoxTree:
    """A tree of boxes: a box of level l is divided along every axis into as many parts as ``branchings`` says."""

    shape: tuple[int, ...]
    branchings: tuple[int, ...]
    shares: tuple[Fraction, ...]

    @property
    def height(self) -> int:
        return len(self.shares) - 1

    def widths(self, level: int) -> tuple[int, ...]:
        """Bins of a box along every axis."""
        return tuple(branching ** (self.height - level) for branching in self.branchings)

    def nodes(self, level: int) -> tuple[int, ...]:
        """Boxes along every axis that have bins."""
        return tuple(-(-size // width) for size, width in zip(self.shape, self.widths(level), strict=True))


@lru_cache(maxsize=64)
def best_box_tree(shape: tuple[int, ...]) -> BoxTree:
    """The tree of boxes and its shares of ε with the least mean variance over random ranges along all axes.

    A box is a product, and so is |P q|² of a range; with ends that are independent from axis to axis means multiply.

    >>> tree = best_box_tree((256, 256))
    >>> tree.branchings, [round(float(share), 2) for share in tree.shares]
    ((7, 7), [0.0, 0.1, 0.27, 0.63])
    """
    best, least = BoxTree(shape, shape, (Fraction(0), Fraction(1))), math.inf
    for height in range(1, TALLEST + 1):
        branchings = tuple(max(1, math.ceil(size ** (1 / height) - 1e-9)) for size in shape)
        if height > 1 and max(branchings) ** (height - 1) >= max(shape):
            break
        levels = range(height + 1)
        norms = [
            _norms(size, [float(branching ** (height - level)) for level in levels], "ranges")
            for size, branching in zip(shape, branchings, strict=True)
        ]
        energies = np.maximum(np.diff(np.prod(norms, axis=0), prepend=0.0), 0.0)
        cells = np.array([math.prod(float(b ** (height - level)) for b in branchings) for level in levels])
        shares, error = _best_shares(energies, cells, "laplace")
        if error < least:
            best, least = BoxTree(shape, branchings, shares), error
    return best


def exact_shares(weights: Reals, *, keep_last: bool = True) -> tuple[Fraction, ...]:
    """Weights as fractions that sum to 1 exactly; what is below a thousandth is 0, the last one only if not kept.

    >>> exact_shares(np.array([1e-9, 1.0, 3.0]))
    (Fraction(0, 1), Fraction(1, 4), Fraction(3, 4))
    """
    shares = weights / weights.sum()
    needed = np.zeros(shares.size, dtype=np.bool_)
    needed[-1] = keep_last
    kept = np.where((shares < SMALLEST_SHARE) & ~needed, 0.0, np.maximum(shares, 1 / GRID))
    whole = np.floor(kept / kept.sum() * GRID).astype(np.int64)
    whole[int(np.argmax(whole))] += GRID - int(whole.sum())
    return tuple(Fraction(int(share), GRID) for share in whole)
