"""Marginals chosen privately: a tree of pairs first, then what the tree predicts worst."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.histograms._strategies import Law
from veilstream.mechanisms.histograms.noise_first import NoiseFirst
from veilstream.mechanisms.histograms.segments import segment
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.privacy.rationals import rational
from veilstream.synthesis.graph_fit import Graph, Pair
from veilstream.synthesis.graph_layout import MOST_AXES, MOST_GROUPS, GraphLayout, Marginal
from veilstream.synthesis.junction import Scope
from veilstream.synthesis.margins import Margins, private_margins
from veilstream.synthesis.views import best_covering
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows, SealedTable
from veilstream.trusted.statistics.marginal_counts import marginal_counts, misfit_scores
from veilstream.values.projection import onto_simplex
from veilstream.values.values import Values

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Choose = Callable[[list[int], Mapping[Pair, Reals]], int]
FEWEST_GROUPS: Final = 4
ROWS_OF_CELL: Final = 4.0
"""Groups are so wide that a cell of a pair's table has this many noises' worth of rows on average."""
NOISE_OF_TABLE: Final = 0.08
"""Pairs are measured as long as the noise of a table stays below this share of the rows."""
MOST_FOR_MARGINS: Final = Fraction(4, 5)
SMOOTHING_PRICE: Final = 6.0
FOR_MARGINS: Final = Fraction(11, 20)
FOR_MARGINS_BESIDE_VIEWS: Final = Fraction(1, 20)
NOISE_OF_VIEWS: Final = 0.05
"""Every pair is measured where noise changes its table by at most this share of the rows."""
BATCH: Final = 4
"""Pairs that are chosen by one prediction."""


@dataclass(frozen=True, slots=True)
class _Budget:
    """What margins and tables are measured with: ε by Laplace noise, or μ² by Gaussian noise."""

    noise: Law
    amount: Fraction

    @classmethod
    def of(cls, noise: Law, epsilon: Fraction, meter: Meter) -> _Budget:
        if noise == "laplace":
            return cls(noise, epsilon)
        guarantee = meter.guarantee
        if guarantee.mu_squared == 0 or guarantee.pure == 0:
            raise InvalidBudgetError(f"Gaussian noise under {guarantee}: delta and pure_share must both be above 0")
        return cls(noise, guarantee.mu_squared * epsilon / guarantee.pure)

    def rate(self, l1: Fraction, share: Fraction) -> float:
        """One over the mean absolute noise of a count for a share of the budget."""
        if self.noise == "laplace":
            return float(self.amount * share / l1)
        return math.sqrt(float(self.amount * share) * math.pi / 2) / float(l1)

    def measure(self, x: Sealed, share: Fraction, purpose: str, meter: Meter) -> Values:
        if self.noise == "laplace":
            return meter.laplace(x, self.amount * share, purpose)
        return meter.gaussian(x, self.amount * share, purpose)

    def margins(
        self, rows: SealedRows, total: float, histogram: HistogramMechanism, share: Fraction, meter: Meter
    ) -> Margins:
        """Every margin for a share of the budget in all; Gaussian noise is smoothed like Laplace noise."""
        if self.noise == "laplace":
            return private_margins(rows, total, histogram, self.amount * share, meter)
        part = share / len(rows.shape)
        noisy = [self.measure(rows.margin(axis), part, "margin", meter) for axis in range(len(rows.shape))]
        smooth = [smoothed(values, SMOOTHING_PRICE) for values in noisy]
        counts = tuple(onto_simplex(values, total) for values in smooth)
        return Margins(counts, total, tuple(float(np.max(values.std)) for values in noisy))


@dataclass(frozen=True, slots=True)
class MarginalGraph:
    """Publishes a histogram per attribute and tables of those pairs that depend on one another, chosen privately.

    ``size_share`` of ε counts the rows and ``select_share`` chooses pairs; ``margin_share`` of the rest goes to the
    margins, in equal parts: about half by default, four fifths where there are few rows for the noise, which the noisy
    number of rows tells. Attributes are then
    gathered into groups, fewer the less there are rows for the budget: neighbours of an ordered attribute, rare values
    of categories. Pairs are chosen by the exponential mechanism on the L1 distance of their table from what the model
    so far predicts, less the noise that measuring it would add:

    * first a tree: of all pairs that join two parts not yet joined, against independence (MST);
    * then, as far as rows and budget allow, pairs that the tree predicts worst (the expected improvement of AIM).

    What is left measures the chosen tables in equal parts. With ``noise="gaussian"``, for guarantees with delta > 0,
    margins and tables are paid from μ² and the pure part pays for rows and choices. A table is drawn towards
    independence as far as it deviates from that no more than its noise does (James and Stein), so a pair that was
    chosen for nothing does no harm. Rows come from the tree exactly, and are weighted until all other tables fit too
    (``Graph``); values inside a group follow the margin, so attributes may have many values.

    >>> import numpy as np
    >>> from veilstream.data import Categories
    >>> from veilstream.synthesis import TableDomain, fit
    >>> x = np.arange(4000) % 4
    >>> domain = TableDomain({name: Categories(range(4)) for name in "xyz"})
    >>> model = fit({"x": x, "y": (x * x + 1) % 4, "z": np.arange(4000) // 4 % 4}, domain, 2, MarginalGraph())
    >>> rows = model.sample(1000, seed=1)
    >>> bool(((rows["x"] * rows["x"] + 1) % 4 == rows["y"]).mean() > 0.9)
    True

    McKenna, Miklau, Sheldon: Winning the NIST contest, 2021 (MST); McKenna, Mullins, Sheldon, Miklau: AIM, VLDB 2022.
    Changed: pure ε; groups; shrinkage; weighted rows instead of a junction tree, in memory that depends on the number
    of rows drawn and not on the cliques.
    """

    margins: HistogramMechanism = field(default_factory=NoiseFirst)
    noise: Law = "laplace"
    size_share: Fraction = Fraction(1, 20)
    margin_share: Fraction | None = None
    select_share: Fraction = Fraction(1, 12)
    ordered: tuple[bool, ...] | None = None
    """Of which attributes neighbouring values are alike; by default those with more than 32 values."""
    schema: str | None = None
    """Fingerprint of the table's domain, for ledgers."""

    def __post_init__(self) -> None:
        for name in ("size_share", "margin_share", "select_share"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, rational(getattr(self, name), name))
        shares = [self.size_share, self.margin_share or MOST_FOR_MARGINS, self.select_share]
        if min(shares) <= 0 or max(shares[1], self.size_share + self.select_share) >= 1:
            raise InvalidInputError(f"shares {', '.join(map(str, shares))} of MarginalGraph: above 0 and below 1")
        if self.noise not in ("laplace", "gaussian"):
            raise InvalidInputError(name="noise", of="MarginalGraph", value=self.noise, limit="'laplace' or 'gaussian'")

    def layout(self, shape: tuple[int, ...]) -> GraphLayout:
        """Where the numbers of a release lie, for a table of this shape."""
        ordered = tuple(size > MOST_GROUPS for size in shape) if self.ordered is None else self.ordered
        if len(ordered) != len(shape):
            raise InvalidInputError(f"ordered: {len(ordered)} answers for {len(shape)} attributes")
        return GraphLayout(shape, ordered)

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        """The model of a table for ``epsilon``."""
        if not isinstance(x, SealedTable):
            raise InvalidInputError("MarginalGraph: it publishes tables, not histograms; seal rows with its layout")
        rows, layout = x.rows, self.layout(x.rows.shape)
        single = len(rows.shape) == 1
        size, select = epsilon * self.size_share, epsilon * (0 if single else self.select_share)
        measure = epsilon - size - select
        if self.noise == "gaussian":
            # Margins and tables have a budget of their own: the pure one is all for rows and choices.
            size, select, measure = size * epsilon / (size + select), select * epsilon / (size + select), epsilon
        budget = _Budget.of(self.noise, measure, meter)
        counted = meter.laplace(rows.counts(()), size, "total")
        total = max(float(counted.numbers[0]), 0.0)
        views = self._views(layout, total, rows.l1, budget)
        share = Fraction(1) if single else self._for_margins(layout, total, budget.rate(rows.l1, Fraction(1)))
        if views:
            share = FOR_MARGINS_BESIDE_VIEWS
        margins = budget.margins(rows, total, self.margins, share, meter)
        groups, tables = FEWEST_GROUPS, list[Marginal]()
        if views:
            groups = MOST_GROUPS
            labels = layout.labels(margins.counts, groups)
            part = (1 - share) / len(views)
            if self.noise == "laplace":
                part += select / len(views) / budget.amount
            for scope, exact in zip(views, marginal_counts(rows, labels, views), strict=True):
                tables.append(_measure(exact, scope, labels, part, budget, meter))
        elif not single:
            groups, count = self._plan(layout, total, rows.l1, budget, 1 - share)
            graph = Graph.of(layout, margins, groups, [])
            tables = self._measured(x, layout, graph, groups, count, select, budget, 1 - share, meter)
        numbers = layout.pack(margins, groups, tables)
        std = np.zeros(layout.size)
        std[0] = float(np.max(counted.std))
        std[1 : 1 + sum(layout.shape)] = np.repeat(margins.std, layout.shape)
        return Values(numbers, std)

    def _views(self, layout: GraphLayout, total: float, l1: Fraction, budget: _Budget) -> list[Scope]:
        """Tables that hold every pair, where attributes are so small that these are hardly noisy; else none."""
        if len(layout.shape) < 2 or max(layout.shape) > MOST_GROUPS:
            return []
        spared = 1 - FOR_MARGINS_BESIDE_VIEWS
        views, noise = best_covering(layout.shape, lambda count: 1 / budget.rate(l1, spared / count))
        enough = max(map(len, views)) <= MOST_AXES and len(views) <= layout.most_tables
        cells = sum(math.prod(layout.shape[axis] for axis in view) for view in views)
        return views if enough and cells <= layout.most_cells and noise <= NOISE_OF_VIEWS * total else []

    def _for_margins(self, layout: GraphLayout, total: float, rate: float) -> Fraction:
        """Half of the budget, or four fifths where the noise of all margins would outweigh the rows."""
        if self.margin_share is not None:
            return self.margin_share
        noise = sum(layout.shape) * len(layout.shape) / rate
        return MOST_FOR_MARGINS if total < noise else FOR_MARGINS

    def _plan(
        self, layout: GraphLayout, total: float, l1: Fraction, budget: _Budget, share: Fraction
    ) -> tuple[int, int]:
        """Groups of an attribute and number of pairs, from the published number of rows, the budget and the shape.

        Groups are as fine as a tree's tables allow, and pairs as many as leave every table readable.
        """
        attributes = len(layout.shape)
        tree = attributes - 1
        side = math.sqrt(max(total, 1.0) * budget.rate(l1, share / tree) / ROWS_OF_CELL)
        groups = max(FEWEST_GROUPS, min(MOST_GROUPS, int(side)))
        cells = np.mean([math.prod(min(layout.shape[a], groups) for a in pair) for pair in _pairs(attributes)])
        count = layout.most_tables
        while count > tree and float(cells) / budget.rate(l1, share / count) > NOISE_OF_TABLE * total:
            count -= 1
        return groups, count

    def _measured(
        self,
        x: SealedTable,
        layout: GraphLayout,
        graph: Graph,
        groups: int,
        count: int,
        select: Fraction,
        budget: _Budget,
        share: Fraction,
        meter: Meter,
    ) -> list[Marginal]:
        pairs = _pairs(len(x.rows.shape))
        exact = marginal_counts(x.rows, graph.labels, pairs)
        each = select / count
        noise = 1 / budget.rate(x.rows.l1, share / count)
        total = graph.margins.total

        def choose(candidates: list[int], predictions: Mapping[Pair, Reals]) -> int:
            scores = misfit_scores(
                [exact[at] for at in candidates],
                [total * predictions[pairs[at]].reshape(-1) for at in candidates],
                [noise * exact[at].size for at in candidates],
            )
            return candidates[meter.select(scores, each, "pair")]

        def measure(at: int) -> Marginal:
            return _measure(exact[at], pairs[at], graph.labels, share / count, budget, meter)

        tree = _chosen_tree(pairs, graph, choose)
        tables = [measure(at) for at in tree]
        left = [at for at in range(len(pairs)) if at not in tree]
        while left and len(tables) < count:
            law = Graph.of(layout, graph.margins, groups, tables).law
            predicted = law.pairs()
            for _ in range(min(BATCH, count - len(tables), len(left))):
                at = choose(left, predicted)
                left.remove(at)
                tables.append(measure(at))
        return tables


def _measure(
    exact: Sealed, scope: Scope, labels: Sequence[Integers], share: Fraction, budget: _Budget, meter: Meter
) -> Marginal:
    noisy = budget.measure(exact, share, "table of attributes", meter)
    shape = [1 + int(labels[axis].max()) for axis in scope]
    return Marginal(scope, np.asarray(noisy.numbers, dtype=np.float64).reshape(shape), float(np.max(noisy.std)))


def smoothed(values: Values, price: float) -> Reals:
    """Means over the stretches that noisy values suggest, as in ``NoiseFirst``."""
    numbers = np.asarray(values.numbers, dtype=np.float64)
    starts = segment(numbers, price * float(np.max(values.std)) ** 2)
    lengths = np.diff(starts, append=numbers.size)
    return np.repeat(np.add.reduceat(numbers, starts) / lengths, lengths)


def _pairs(attributes: int) -> list[Pair]:
    return list(itertools.combinations(range(attributes), 2))


def _chosen_tree(pairs: Sequence[Pair], graph: Graph, choose: Choose) -> list[int]:
    """The positions of pairs that join all attributes, each chosen among those that join two parts."""
    independent = graph.law.pairs()
    part = list(range(len(graph.sizes)))
    chosen: list[int] = []
    while len(set(part)) > 1:
        at = choose([n for n, (j, k) in enumerate(pairs) if part[j] != part[k]], independent)
        j, k = pairs[at]
        part = [part[j] if each == part[k] else each for each in part]
        chosen.append(at)
    return chosen
