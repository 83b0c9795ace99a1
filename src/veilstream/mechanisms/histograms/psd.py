"""Private spatial decompositions: noisy counts on a tree of boxes, made consistent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms._trees import (
    Cuts,
    DenseCells,
    Divisible,
    Level,
    cuts_at,
    full_height,
    geometric_shares,
    leaf_boxes,
    least_squares,
    next_axis,
)
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.records import SealedRecords
from veilstream.trusted.statistics import median_scores, record_median_scores
from veilstream.values.boxes import Boxes
from veilstream.values.values import Values

MAX_HEIGHT = 20
MEDIAN_LEVELS = 7
"""Private medians are worth their budget near the root, where nodes hold many records."""
PRUNED_ATTRIBUTES = 4
"""Beyond, leaves are so wide that spreading a node evenly costs more than noise: measured on 3, 4 and 8 attributes."""
SMALLEST_VARIANCE = 1e-100
"""Stands for noise too narrow for floating point, so that no weight becomes 0/0."""


@dataclass(frozen=True, slots=True)
class PSD:
    """Halves the domain again and again, counts the nodes of every other level with noise, and fits the leaves to all.

    A level's nodes are disjoint, so its counts are one vector which a unit moves by l1: level i costs ε_i once,
    however many nodes it has. The ``kind`` says where boxes are cut: ``"quad"`` in the middle, at no cost; ``"kd"`` at
    private medians; ``"hybrid"`` at medians on the first levels and in the middle below. The budget for counts
    grows towards the leaves, ε_i ∝ 2^(i(d−1)/(3d)) (by ∛2 from level to level of a tree of fanout 4 in the plane), and
    generalised least squares makes parents the sums of their children. A node that holds less than ``prune`` standard
    deviations of what was measured below it is spread evenly instead of being divided (by default 1 on up to four
    attributes and 0, never, beyond, where boxes are wide). The leaves come out, each spread evenly over its cells.

    Works on a histogram of any shape (``estimate``) and on records of a domain of any size (``estimate_records``), in
    time O(height · records) and memory O(records + 2^height). The medians of a level are chosen together.

    >>> import numpy as np, veilstream as vs
    >>> y = vs.simulate(vs.STREAMS["sample"](PSD()), vs.Guarantee(1, w=1), np.full((1, 512), 20), seed=1)
    >>> bool(abs(y[0, 100:300].sum() - 4000) < 100)
    True

    Cormode, Procopiuc, Srivastava, Shen, Yu: Differentially private spatial decompositions, ICDE 2012; read in its
    abstract and in the authors' program, which DPBench distributes, not in full. There a level is two cuts (fanout
    4). Medians take 3/10 of ε in equal parts, each by the exponential mechanism on |rank − rank of the median|; the
    hybrid has them on the first half of the levels. Every level is counted, with ε_i ∝ 2^(i/3), and least squares
    over the complete tree takes three passes. Nodes with a small final count are leaves.

    Corrected or changed:

    * Medians: the score −|below − above| moves by l1 per unit. |rank − rank of the median| moves by half a count only,
      yet is charged for a whole one: at the same ε the cuts here are twice as sharp. The medians of one level
      cost one charge, because the nodes are disjoint (``JointScores``). They are made from all records, not
      from a sample of 1%, which only saves time.
    * Least squares by variances instead of three passes over a complete tree: it takes uneven trees, single cells
      that cannot be cut, levels that are not counted, and returns the variance of every leaf.
    * Pruning compares with the noise of what was measured below a node, not with a number that the user must find.
    * The default is the quad-tree: with a public height that reaches (nearly) single cells it was better than the
      hybrid on all DPBench lines at ε = 0.1 and 1 and on eight of ten at 0.01, because medians take 3/10 of ε and leave
      some leaves wide.
    * The height and the borders of the domain are public. Ending a branch where it is exactly empty, as that program
      does, or taking borders or height from the records, would be a choice by private data that nobody paid for.
    """

    kind: Literal["hybrid", "kd", "quad"] = "quad"
    height: int = 16
    count_every: int = 2
    median_share: Fraction = Fraction(3, 10)
    prune: float | None = None
    batchable: ClassVar[bool] = True
    sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.kind not in {"hybrid", "kd", "quad"}:
            raise InvalidInputError(name="kind", value=self.kind, limit="one of hybrid, kd, quad")
        if not 0 <= self.height <= MAX_HEIGHT:
            raise InvalidInputError(name="height", value=self.height, limit=f"from 0 to {MAX_HEIGHT}")
        if not 1 <= self.count_every <= MAX_HEIGHT:
            raise InvalidInputError(name="count_every", value=self.count_every, limit=f"from 1 to {MAX_HEIGHT}")
        if not 0 < self.median_share < 1:
            raise InvalidInputError(name="median_share", value=self.median_share, limit="strictly between 0 and 1")
        if self.prune is not None and not 0 <= self.prune <= 100:
            raise InvalidInputError(name="prune", value=self.prune, limit="from 0 to 100")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        cells = DenseCells.of(x)
        levels, last = self._grow(cells, epsilon, meter)
        assert isinstance(last, DenseCells)
        leaves, variance = least_squares(levels, self._prune(x.shape), meter.branch)
        volume = np.bincount(last.labels, minlength=variance.size).astype(np.float64)
        return Values((leaves / volume)[..., last.labels], (np.sqrt(variance) / volume)[last.labels])

    def estimate_records(self, records: SealedRecords, epsilon: Fraction, meter: Meter) -> Boxes:
        """The leaves of the tree over a domain of any size.

        >>> import numpy as np, veilstream as vs
        >>> from veilstream.privacy.accountant import Accountant
        >>> from veilstream.trusted.records import seal_records
        >>> rows = np.stack([np.arange(2000) % 50, np.arange(2000) % 999], axis=1)
        >>> meter = Meter(Accountant(vs.Guarantee(1, w=1), bins=1), vs.noise.SecureNoise(), t=0)
        >>> boxes = PSD(height=8).estimate_records(seal_records(rows, (1000, 1000), t=0), Fraction(1), meter)
        >>> boxes.size, bool(abs(boxes.count([0, 0], [500, 1000]) - 2000) < 400), meter.left
        (256, True, Fraction(0, 1))
        """
        if records.groups != 1:
            raise InvalidInputError(f"records in {records.groups} groups: the tree starts from one")
        levels, _ = self._grow(records, epsilon, meter)
        return leaf_boxes(records.shape, levels, self._prune(records.shape))

    def _prune(self, shape: tuple[int, ...]) -> float:
        return self.prune if self.prune is not None else 1.0 if len(shape) <= PRUNED_ATTRIBUTES else 0.0

    def _grow(self, data: Divisible, epsilon: Fraction, meter: Meter) -> tuple[list[Level], Divisible]:
        shape = data.shape
        height = min(self.height, full_height(shape))
        medians = {"quad": 0, "kd": height, "hybrid": min(MEDIAN_LEVELS, height // 2)}[self.kind]
        for_medians = epsilon * self.median_share if medians else Fraction(0)
        counted = list(range(height, -1, -self.count_every))[::-1]
        shares = dict(zip(counted, geometric_shares(counted, len(shape)), strict=True))
        low = np.zeros((1, len(shape)), dtype=np.int64)
        high, parent = np.array([shape], dtype=np.int64), np.zeros(1, dtype=np.int64)
        levels: list[Level] = []
        for depth in range(height + 1):
            noisy, variance = np.zeros(len(low)), np.inf
            if depth in shares:
                values = meter.laplace(data.counts(), (epsilon - for_medians) * shares[depth], "count")
                noisy, variance = values.numbers.astype(np.float64), float(np.max(values.std)) ** 2
            levels.append(Level(low, high, parent, noisy, max(variance, SMALLEST_VARIANCE)))
            if depth == height:
                break
            axis, divisible = next_axis(low, high, depth)
            if depth < medians:
                cut = self._medians(data, axis, divisible, levels[-1], for_medians / medians, meter)
            else:
                cut = _middle(axis, levels[-1])
            cuts: Cuts = cuts_at(axis, cut, divisible)
            data = data.split(cuts.axis, cuts.cut, cuts.below, cuts.above)
            low, high, parent = cuts.children(low, high)
        return levels, data

    def _medians(
        self,
        data: Divisible,
        axis: NDArray[np.int64],
        divisible: NDArray[np.bool_],
        level: Level,
        epsilon: Fraction,
        meter: Meter,
    ) -> NDArray[np.int64]:
        node = np.arange(axis.size)
        first = level.low[node, axis]
        widths = np.where(divisible, level.high[node, axis] - first, 0)
        cut = first.copy()
        if divisible.any():
            if isinstance(data, SealedRecords):
                scores = record_median_scores(data, axis, first, widths)
            else:
                assert isinstance(data, DenseCells)
                scores = median_scores(data.marginals(axis, first, widths), widths[divisible])
            cut[divisible] += 1 + meter.select_each(scores, epsilon, "median")
        return cut


def _middle(axis: NDArray[np.int64], level: Level) -> NDArray[np.int64]:
    node = np.arange(axis.size)
    return (level.low[node, axis] + level.high[node, axis] + 1) // 2
