"""Noise on every bin, and of the steps between neighbouring bins, at all scales, only those beyond noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms._axes import has_bands, smoothed_axes
from veilstream.mechanisms.histograms._shrinkage import NORMAL, posterior_medians
from veilstream.mechanisms.histograms._strategies import Tree
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.projection import onto_simplex
from veilstream.values.values import NoiseLaw, Values, smoothed_values

Reals = NDArray[np.float64]
Rule: TypeAlias = Literal["median", "threshold"]
Order: TypeAlias = Literal["axes", "rows", "z"]
ORDERS: Final[tuple[Order, ...]] = get_args(Order)
THRESHOLD: Final = 0.75
"""Of the largest that noise alone makes of a step; chosen on margins of five real tables."""
SHARES: Final[Mapping[Rule, Fraction]] = {"median": Fraction(1, 50), "threshold": Fraction(1, 20)}
"""Of the budget, for the total."""
FEWEST_IN_BLOCKS: Final = 4
"""Bins below which there are no blocks."""


@dataclass(frozen=True, slots=True)
class Haar:
    """Publishes all bins with Laplace noise and smooths them, at no cost, down to the steps that noise cannot explain.

    Steps between neighbouring means at every scale and every offset are drawn to 0 as far as all steps of their scale
    suggest (``posterior_medians``): where most are noise, all but the largest become 0, so that spikes stay and flat
    stretches become flat; on rough data all stay nearly as they are. ``rule="threshold"`` instead keeps steps beyond
    one public limit and makes 0 of the others. A fiftieth of ε (a twentieth with a threshold) counts the total, which
    is averaged with the sum of the bins by their variances, and the result is projected on counts ≥ 0 of that total.
    For single bins of lines and tables, of most data; long ranges gain little.

    ``blocks`` of what is left after the total measures sums over blocks of about √n neighbours too, for lines with so
    few records that no single bin says much: bins and blocks are made consistent by least squares (``Tree``), and each
    step is drawn to 0 by the exact deviation of its own noise, which depends on where it lies among the blocks.

    In a table steps are taken along all its "axes" at once, each at a scale of its own (``_axes``), or in the ``order``
    of its "rows", or along a curve that stays nearby in all directions ("z", the order of interleaved binary digits of
    the coordinates). The curve also stands in for the axes where these are too short to learn from, and with blocks
    or a threshold.

    ``side`` measures boxes of so many cells along every axis instead of the cells, and spreads their counts evenly: for
    tables with so few records that single cells say nothing.

    Intervals hold the counts, at every bin and for any data, because how far a bin was moved from its noisy count is
    in them (``smoothed_values``); on boxes they are of the noise alone.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.histograms import Geometric
    >>> from veilstream.mechanisms.streams import Sample
    >>> steps = np.repeat([0, 900, 0, 300], 250)[None]
    >>> g = Guarantee("1/10", w=1)
    >>> error = {h: abs(simulate(Sample(h), g, steps, seed=1) - steps).mean() for h in (Haar(), Geometric())}
    >>> bool(error[Haar()] < error[Geometric()] / 4)
    True

    Coifman, Donoho: Translation-invariant de-noising, 1995. Their noise is normal; that of a bin is Laplace, whose
    tails a mean over several bins loses.
    """

    version: ClassVar[int] = 3
    former_defaults: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        1: {"rule": "threshold", "order": "rows"},
        2: {"order": "rows"},
    }
    oblivious: ClassVar[bool] = True
    rule: Rule = "median"
    blocks: Fraction = Fraction(0)
    order: Order = "axes"
    side: int = 1

    def __post_init__(self) -> None:
        if self.rule not in SHARES:
            raise InvalidInputError(name="rule", of="Haar", value=self.rule, limit="'median' or 'threshold'")
        if not 0 <= self.blocks < 1 or (self.blocks and self.rule != "median"):
            raise InvalidInputError(
                name="blocks", of="Haar", value=self.blocks, limit="from 0 to below 1, and 0 with a threshold"
            )
        if self.order not in ORDERS:
            raise InvalidInputError(name="order", of="Haar", value=self.order, limit="'axes', 'rows' or 'z'")
        if type(self.side) is not int or self.side < 1 or (self.side > 1 and self.blocks):
            limit = "a whole number from 1 on, and 1 with blocks"
            raise InvalidInputError(name="side", of="Haar", value=self.side, limit=limit)

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        share = epsilon * SHARES[self.rule]
        return self.with_total(x, meter.laplace(x.total(), share, "total"), epsilon - share, meter)

    def with_total(self, x: Sealed, counted: Values, epsilon: Fraction, meter: Meter) -> Values:
        """The histogram for all of ``epsilon``, with the noisy total ``counted`` before."""
        if self.side == 1:
            return self._with_shape(x, x.shape, np.ones(x.size), counted, epsilon, meter)
        labels, shape = boxes_of(x.shape, self.side)
        volume = np.bincount(labels).astype(np.float64)
        values = self._with_shape(x.sums(labels, volume.size), shape, volume, counted, epsilon, meter)
        spread = np.broadcast_to(np.asarray(values.std, dtype=np.float64), volume.shape) / volume
        return Values((values.numbers / volume)[..., labels], spread[labels], values.law)

    def _with_shape(
        self, x: Sealed, shape: tuple[int, ...], volume: Reals, counted: Values, epsilon: Fraction, meter: Meter
    ) -> Values:
        """The same of counts of boxes of some ``volume`` in a table of this ``shape``."""
        axes = self.order == "axes" and self.rule == "median" and not self.blocks and has_bands(shape)
        if self.order != "rows" and not axes and len(shape) > 1:
            places = along_curve(shape)
            line, sizes = replace(self, order="rows"), np.empty_like(volume)
            sizes[places] = volume
            values = line._with_shape(x.sums(places, x.size), (x.size,), sizes, counted, epsilon, meter)
            std = values.std[..., places] if isinstance(values.std, np.ndarray) else values.std
            return Values(values.numbers[..., places], std, values.law)
        total = np.asarray(counted.numbers, dtype=np.float64)
        if self.blocks and x.size >= FEWEST_IN_BLOCKS:
            return self._in_blocks(x, counted, epsilon, meter)
        noisy = meter.laplace(x, epsilon, "publish")
        std = float(np.max(noisy.std))
        numbers = np.asarray(noisy.numbers, dtype=np.float64)
        if self.rule == "median" and std > 0:
            total = _averaged(counted, numbers, x.size * std**2)
        # Boxes at the ends may be smaller, which is no step.
        even = total * volume / volume.sum() if self.side > 1 else 0.0
        above = numbers - even
        smooth = even + (smoothed_axes(above, shape, std) if axes else smoothed(above, std, self.rule))
        numbers = onto_simplex(smooth, total)
        # What a cell has of a box is unknown.
        return smoothed_values(numbers, noisy) if self.side == 1 else Values(numbers, std, NoiseLaw.MIXED)

    def _in_blocks(self, x: Sealed, counted: Values, epsilon: Fraction, meter: Meter) -> Values:
        tree = Tree(x.size, block_width(x.size), (Fraction(0), self.blocks, 1 - self.blocks), "laplace")
        labels = np.arange(x.size, dtype=np.int64) // tree.width(1)
        blocks = meter.laplace(x.sums(labels, tree.nodes(1)), epsilon * tree.shares[1], "blocks")
        bins = meter.laplace(x, epsilon * tree.shares[2], "publish")
        # What either level would have with all of the budget.
        std = max(float(np.max(blocks.std)) * float(self.blocks), float(np.max(bins.std)) * float(1 - self.blocks))
        levels = {level: np.asarray(one.numbers, dtype=np.float64) for level, one in ((1, blocks), (2, bins))}
        numbers = tree.solve(levels, -1)
        total = _averaged(counted, numbers, x.size * std**2 / float(tree.eigenvalues()[0]))
        smooth = smoothed_tree(numbers, tree, std)
        fitted = Values(numbers, std * math.sqrt(tree.bin_variance()), NoiseLaw.SUM)
        return smoothed_values(onto_simplex(smooth, total), fitted)


@lru_cache(maxsize=16)
def along_curve(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The place of every cell, row by row, on the curve of interleaved binary digits.

    >>> along_curve((4, 4)).reshape(4, 4).tolist()
    [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    """
    coordinates = np.indices(shape, dtype=np.int64).reshape(len(shape), -1)
    lengths = [(size - 1).bit_length() for size in shape]
    key, digit = np.zeros(math.prod(shape), dtype=np.int64), 0
    for bit in range(max(lengths)):
        for along, length in zip(coordinates[::-1], lengths[::-1], strict=True):
            if bit < length:
                key |= (along >> bit & 1) << digit
                digit += 1
    places = np.empty(key.size, dtype=np.int64)
    places[np.argsort(key, kind="stable")] = np.arange(key.size)
    places.setflags(write=False)
    return places


def boxes_of(shape: tuple[int, ...], side: int) -> tuple[NDArray[np.int64], tuple[int, ...]]:
    """The box of every cell, row by row, and how many boxes of ``side`` cells there are along every axis.

    >>> labels, boxes = boxes_of((4, 3), 2)
    >>> labels.reshape(4, 3).tolist(), boxes
    ([[0, 0, 1], [0, 0, 1], [2, 2, 3], [2, 2, 3]], (2, 2))
    """
    boxes = tuple(-(-size // side) for size in shape)
    along = np.ix_(*(np.arange(size, dtype=np.int64) // side for size in shape))
    labels = np.ravel_multi_index(np.broadcast_arrays(*along), boxes).reshape(-1)
    return np.asarray(labels, dtype=np.int64), boxes


def block_width(size: int) -> int:
    """The power of two from √n on: blocks have as many bins.

    >>> block_width(4096), block_width(500)
    (64, 32)
    """
    return 1 << math.ceil(math.log2(size) / 2)


def _averaged(counted: Values, numbers: Reals, variance: float) -> Reals:
    """The total and the sum of the bins, which has this ``variance``, by their precisions."""
    total = np.asarray(counted.numbers, dtype=np.float64)
    own = float(np.max(counted.std)) ** 2
    if own + variance <= 0:
        return total
    return np.asarray(total + own / (own + variance) * (numbers.sum(axis=-1, keepdims=True) - total), dtype=np.float64)


def smoothed(noisy: Reals, std: float, rule: Rule = "threshold", normal: bool = False) -> Reals:
    """Noisy histograms, along the last axis, without the steps between neighbours that noise of ``std`` explains.

    The noise is Laplace, or ``normal``; a threshold does not ask.

    >>> smoothed(np.array([9.0, 11.0, 10.0, 10.0, 500.0, 10.0, 11.0, 9.0]), std=3.0).round().tolist()
    [10.0, 10.0, 10.0, 10.0, 500.0, 10.0, 10.0, 10.0]
    """
    count = int(noisy.shape[-1])
    if std <= 0 or count < 2:
        return noisy
    limit = THRESHOLD * math.sqrt(2 * math.log(1 << math.ceil(math.log2(count))))

    def drawn(level: int, step: Reals) -> Reals:
        deviation = std * 2 ** (-(level + 1) / 2)
        if rule == "median":
            return posterior_medians(step, deviation, NORMAL if normal else 2 << level)
        return np.where(np.abs(step) > limit * deviation, step, 0.0)

    return _rebuilt(noisy, drawn)


def smoothed_tree(noisy: Reals, tree: Tree, std: float) -> Reals:
    """The same for least squares on a tree; ``std`` is that of noise with all of the budget.

    >>> tree = Tree(16, 4, (Fraction(0), Fraction(1, 2), Fraction(1, 2)), "laplace")
    >>> smoothed_tree(np.array([9.0, 11.0, 10.0, 10.0, 500.0, 10.0, 11.0, 9.0] * 2), tree, std=1.0).round().tolist()[:6]
    [10.0, 10.0, 10.0, 10.0, 500.0, 10.0]
    """
    if std <= 0:
        return noisy

    def drawn(level: int, step: Reals) -> Reals:
        deviation = np.resize(std * step_deviations(tree, level), step.shape[-1])
        return posterior_medians(step / deviation, 1.0, 2 << level) * deviation

    return _rebuilt(noisy, drawn)


def _rebuilt(noisy: Reals, drawn: Callable[[int, Reals], Reals]) -> Reals:
    """Histograms of whose steps, at every scale and offset, is kept what ``drawn`` leaves."""
    count = int(noisy.shape[-1])
    levels = math.ceil(math.log2(count))
    mean = np.concatenate([noisy, noisy[..., ::-1]], axis=-1)[..., : 1 << levels]
    steps: list[Reals] = []
    for level in range(levels):
        beside = np.roll(mean, -(1 << level), axis=-1)
        step, mean = (mean - beside) / 2, (mean + beside) / 2
        steps.append(drawn(level, step))
    for level in reversed(range(levels)):
        mean = (mean + steps[level] + np.roll(mean - steps[level], 1 << level, axis=-1)) / 2
    return np.asarray(mean[..., :count], dtype=np.float64)


@lru_cache(maxsize=128)
def step_deviations(tree: Tree, level: int) -> Reals:
    """Deviations of half the step between the means of 2^level bins and of the next as many, for noise of 1.

    One for each offset from the beginning of the tree's widest node that is measured, after which they repeat: that of
    the query q is the root of Σ_k |P_k q|²/λ_k (``_strategies``).

    >>> step_deviations(Tree(16, 16, (Fraction(0), Fraction(1)), "laplace"), 1).tolist()
    [0.5]
    """
    width = 1 << level
    first = tree.measured[0]
    nodes = [tree.width(below) for below in range(first, tree.height + 1)]
    norms: list[Reals] = []
    for node in nodes:
        begin = node * np.arange(-(-2 * width // node) + 1)[None, :] - np.arange(node)[:, None]
        ends = [np.clip(width - np.abs(at - width), 0, width) for at in (begin, begin + node)]
        inside = np.square((ends[1] - ends[0]) / (2 * width)).sum(axis=1) / node
        norms.append(np.tile(inside, nodes[0] // node))
    energies = np.maximum(np.diff(np.stack(norms), axis=0, prepend=0.0), 0.0)
    eigenvalues = tree.eigenvalues()[first:]
    return np.asarray(np.sqrt((energies / eigenvalues[:, None]).sum(axis=0)), dtype=np.float64)
