"""Marginals chosen privately: a tree of pairs first, then what the tree predicts worst."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.histograms._strategies import Law
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.privacy.rationals import rational
from veilstream.synthesis.denoising import smoothed
from veilstream.synthesis.graph_fit import Graph, Pair
from veilstream.synthesis.graph_layout import MOST_AXES, MOST_GROUPS, GraphLayout, Marginal
from veilstream.synthesis.junction import Scope
from veilstream.synthesis.kendall import Kendall
from veilstream.synthesis.margins import Margins
from veilstream.synthesis.views import best_covering
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows, SealedTable
from veilstream.trusted.statistics.marginal_counts import marginal_counts, misfit_scores
from veilstream.values.projection import onto_simplex
from veilstream.values.values import Values

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Choose = Callable[[list[int], Mapping[Pair, Reals]], int | None]
FEWEST_GROUPS: Final = 4
ROWS_OF_CELL: Final = 2.0
"""Groups are so wide that a cell of a pair's table has this many noises' worth of rows on average."""
NOISE_OF_TABLE: Final = 0.2
"""Pairs are measured as long as the noise of a table stays below this share of the rows."""
MOST_FOR_MARGINS: Final = Fraction(4, 5)
FEWEST_SMOOTHED: Final = 12
LEAST_FOR_MARGINS: Final = Fraction(1, 8)
MARGINS_BY_NOISE: Final = 30.0
"""Share of the budget for margins, for every unit of total variation that their noise would make with all of it."""
FOR_MARGINS_BESIDE_VIEWS: Final = Fraction(1, 20)
NOISE_OF_VIEWS: Final = 0.25
"""Every pair is measured where noise changes its table by at most this share of the rows."""
PENALTY: Final = 0.5
NOISE_OF_CORRELATION: Final = 0.15
"""Correlations of ordered attributes are measured if the mean absolute noise of Kendall's coefficient is below this."""
ROWS_OF_CHOICE: Final = 0.05
"""So many choices are made that the noise of one, in rows, is at most twice this share of all."""
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
        self, rows: SealedRows, total: float, histogram: HistogramMechanism | None, share: Fraction, meter: Meter
    ) -> Margins:
        """Every margin for a share of the budget in all, larger ones for more of it; Gaussian noise is smoothed too."""
        noisy: list[Values] = []
        for axis, part in enumerate(_parts(rows.shape, self.noise)):
            if histogram is not None and self.noise == "laplace":
                noisy.append(histogram.estimate(rows.margin(axis), self.amount * share * part, meter))
                continue
            raw = self.measure(rows.margin(axis), share * part, "margin", meter)
            std = float(np.max(raw.std))
            numbers = np.asarray(raw.numbers, dtype=np.float64)
            noisy.append(Values(numbers if rows.shape[axis] < FEWEST_SMOOTHED else smoothed(numbers, std), std))
        counts = tuple(onto_simplex(np.asarray(values.numbers, dtype=np.float64), total) for values in noisy)
        return Margins(counts, total, tuple(float(np.sqrt(np.mean(np.square(values.std)))) for values in noisy))


def _parts(sizes: Sequence[int], noise: Law) -> list[Fraction]:
    """Parts of a budget for histograms of these sizes, under which all their noises together are least."""
    power = 1 / 2 if noise == "laplace" else 2 / 3
    weights = [Fraction(round(1024 * size**power)) for size in sizes]
    return [weight / sum(weights) for weight in weights]


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

    margins: HistogramMechanism | None = None
    """Margins by a histogram mechanism, with Laplace noise only; by default plain noise, smoothed."""
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
        share = Fraction(1) if single else self._for_margins(layout, total, rows.l1, budget)
        choices = math.floor(ROWS_OF_CHOICE * total * float(select / rows.l1))
        if views:
            share = FOR_MARGINS_BESIDE_VIEWS
        elif choices < 1:
            share = Fraction(1)
        margins = budget.margins(rows, total, self.margins, share, meter)
        correlations = np.zeros(layout.correlations)
        if not views and self._correlated(layout, total, rows.l1, select):
            correlations = _correlations(rows, layout, margins, select / 2, meter)
            select /= 2
        groups, tables = FEWEST_GROUPS, list[Marginal]()
        if views:
            groups = MOST_GROUPS
            labels = layout.labels(margins.counts, groups)
            part = (1 - share) / len(views)
            if self.noise == "laplace":
                part += select / len(views) / budget.amount
            for scope, exact in zip(views, marginal_counts(rows, labels, views), strict=True):
                tables.append(_measure(exact, scope, labels, part, budget, meter))
        elif share < 1:
            groups, count = self._plan(layout, total, rows.l1, budget, 1 - share, choices)
            tables = self._measured(x, layout, margins, correlations, groups, count, select, budget, 1 - share, meter)
        numbers = layout.pack(margins, correlations, groups, tables)
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

    def _correlated(self, layout: GraphLayout, total: float, l1: Fraction, epsilon: Fraction) -> bool:
        """Whether the noise of Kendall's coefficients, for half of the choices' budget, is small beside 1."""
        attributes = len(layout.numeric)
        if attributes < 2 or total < 2:
            return False
        return float(l1 * (attributes * attributes // 2) / (epsilon / 2)) * 2 / total <= NOISE_OF_CORRELATION

    def _for_margins(self, layout: GraphLayout, total: float, l1: Fraction, budget: _Budget) -> Fraction:
        """The more of the budget, the larger a share of the rows the noise of margins for all of it would be."""
        if self.margin_share is not None:
            return self.margin_share
        parts = _parts(layout.shape, self.noise)
        noise = sum(size / budget.rate(l1, part) for size, part in zip(layout.shape, parts, strict=True)) / 2
        wanted = Fraction(round(1024 * min(MARGINS_BY_NOISE * noise / len(parts) / max(total, 1.0), 1.0)), 1024)
        return min(max(wanted, LEAST_FOR_MARGINS), MOST_FOR_MARGINS)

    def _plan(
        self, layout: GraphLayout, total: float, l1: Fraction, budget: _Budget, share: Fraction, choices: int
    ) -> tuple[int, int]:
        """Groups of an attribute and number of pairs, from the published number of rows, the budget and the shape.

        Groups are as fine as a tree's tables allow, and pairs as many as leave every table readable.
        """
        attributes = len(layout.shape)
        tree = min(attributes - 1, choices)
        side = math.sqrt(max(total, 1.0) * budget.rate(l1, share / tree) / ROWS_OF_CELL)
        groups = max(FEWEST_GROUPS, min(MOST_GROUPS, int(side)))
        cells = np.mean([math.prod(min(layout.shape[a], groups) for a in pair) for pair in _pairs(attributes)])
        count = min(layout.most_tables, choices)
        while count > tree and float(cells) / budget.rate(l1, share / count) > NOISE_OF_TABLE * total:
            count -= 1
        return groups, count

    def _measured(
        self,
        x: SealedTable,
        layout: GraphLayout,
        margins: Margins,
        correlations: Reals,
        groups: int,
        count: int,
        select: Fraction,
        budget: _Budget,
        share: Fraction,
        meter: Meter,
    ) -> list[Marginal]:
        graph = Graph.of(layout, margins, correlations, groups, [])
        pairs = _pairs(len(x.rows.shape))
        exact = marginal_counts(x.rows, graph.labels, pairs)
        noise = 1 / budget.rate(x.rows.l1, share / count)
        total = graph.margins.total

        def choose(candidates: list[int], predictions: Mapping[Pair, Reals]) -> int | None:
            scores = misfit_scores(
                [exact[at] for at in candidates],
                [total * predictions[pairs[at]].reshape(-1) for at in candidates],
                [PENALTY * noise * exact[at].size for at in candidates],
                none=True,
            )
            chosen = meter.select(scores, select / count, "pair")
            return candidates[chosen] if chosen < len(candidates) else None

        def measure(chosen: Sequence[int], part: Fraction) -> list[Marginal]:
            parts = _parts([exact[at].size for at in chosen], self.noise)
            return [
                _measure(exact[at], pairs[at], graph.labels, part * each, budget, meter)
                for at, each in zip(chosen, parts, strict=True)
            ]

        tree = _chosen_tree(pairs, graph, choose, count)
        further = count - min(count, len(x.rows.shape) - 1) if tree else 0
        planned = len(tree) + further
        tables = measure(tree, share * len(tree) / planned) if tree else []
        left = [at for at in range(len(pairs)) if at not in tree]
        while left and further:
            predicted = Graph.of(layout, margins, correlations, groups, tables).law.pairs()
            batch: list[int] = []
            for _ in range(min(BATCH, further, len(left))):
                at = choose([n for n in left if n not in batch], predicted)
                if at is None:
                    further = 0
                    break
                batch.append(at)
            if not batch:
                break
            tables += measure(batch, share * len(batch) / planned)
            left = [n for n in left if n not in batch]
            further = max(further - len(batch), 0)
        return tables


def _correlations(
    rows: SealedRows, layout: GraphLayout, margins: Margins, epsilon: Fraction, meter: Meter
) -> Reals:
    """Correlations of normal copulas of the ordered attributes; 0 where noise of their size is likely."""
    axes = layout.numeric
    known = Margins(tuple(margins.counts[axis] for axis in axes), margins.total, tuple(margins.std[axis] for axis in axes))
    return Kendall().correlations(rows.project(axes), known, epsilon, meter)


def _measure(
    exact: Sealed, scope: Scope, labels: Sequence[Integers], share: Fraction, budget: _Budget, meter: Meter
) -> Marginal:
    noisy = budget.measure(exact, share, "table of attributes", meter)
    shape = [1 + int(labels[axis].max()) for axis in scope]
    return Marginal(scope, np.asarray(noisy.numbers, dtype=np.float64).reshape(shape), float(np.max(noisy.std)))


def _pairs(attributes: int) -> list[Pair]:
    return list(itertools.combinations(range(attributes), 2))


def _chosen_tree(pairs: Sequence[Pair], graph: Graph, choose: Choose, most: int) -> list[int]:
    """The positions of pairs that join attributes, each chosen among those that join two parts, while it is worth it."""
    independent = graph.law.pairs()
    part = list(range(len(graph.sizes)))
    chosen: list[int] = []
    while len(set(part)) > 1 and len(chosen) < most:
        at = choose([n for n, (j, k) in enumerate(pairs) if part[j] != part[k]], independent)
        if at is None:
            break
        j, k = pairs[at]
        part = [part[j] if each == part[k] else each for each in part]
        chosen.append(at)
    return chosen
