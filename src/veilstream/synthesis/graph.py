"""Marginals chosen privately: a tree of pairs first, then what the tree predicts worst."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms.noise_first import NoiseFirst
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.privacy.rationals import rational
from veilstream.synthesis.graph_draw import Graph, coarse_rows, pair_prediction
from veilstream.synthesis.graph_layout import MOST_GROUPS, GraphLayout, Pair, PairTable
from veilstream.synthesis.margins import private_margins
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedTable
from veilstream.trusted.statistics.pair_counts import misfit_scores, pair_counts
from veilstream.values.values import Values

Reals = NDArray[np.float64]
Choose = Callable[[list[int], dict[int, Reals]], int]
FEWEST_GROUPS: Final = 4
ROWS_OF_CELL: Final = 4.0
"""Groups are so wide that a cell of a pair's table has this many noises' worth of rows on average."""
NOISE_OF_TABLE: Final = 0.08
"""Pairs are measured as long as the noise of a table stays below this share of the rows."""
MOST_FOR_MARGINS: Final = Fraction(3, 4)
PREDICTED_ROWS: Final = 50_000


@dataclass(frozen=True, slots=True)
class MarginalGraph:
    """Publishes a histogram per attribute and tables of those pairs that depend on one another, chosen privately.

    ``size_share`` of ε counts the rows and ``margin_share`` goes to the margins, in equal parts: half of ε by default,
    three quarters where there are few rows for the noise, which the noisy number of rows tells. Attributes are then
    gathered into groups, fewer the less there are rows for the budget: neighbours of an ordered attribute, rare values
    of categories. ``select_share`` chooses pairs, each by the exponential mechanism on the L1 distance of its table
    from what the model so far predicts, less the noise that measuring it would add:

    * first a tree: of all pairs that join two parts not yet joined, against independence (MST);
    * then, as far as rows and budget allow, pairs that the tree predicts worst (the expected improvement of AIM).

    The rest of ε measures the chosen tables in equal parts. A table is drawn towards independence as far as it deviates
    from that no more than its noise does (James and Stein), so a pair that was chosen for nothing does no harm. Rows
    come from the tree exactly, and are weighted until all other tables fit too (``Graph``); values inside a group
    follow the margin, so attributes may have many values.

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
        if min(shares) <= 0 or sum(shares) >= 1:
            raise InvalidInputError(f"shares {', '.join(map(str, shares))} of MarginalGraph: above 0, below 1 together")

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
        attributes = len(rows.shape)
        single = attributes == 1
        size = epsilon * self.size_share
        counted = meter.laplace(rows.counts(()), size, "total")
        total = max(float(counted.numbers[0]), 0.0)
        for_margins = epsilon - size if single else epsilon * self._for_margins(layout, total, float(epsilon / rows.l1))
        margins = private_margins(rows, total, self.margins, for_margins, meter)
        select = epsilon * self.select_share
        rest = epsilon - size - for_margins - select
        groups, count = (FEWEST_GROUPS, 0) if single else self._plan(layout, total, float(rest / rows.l1))
        graph = Graph.of(layout, total, list(margins.counts), groups, [])
        tables: list[PairTable] = []
        if not single:
            tables = self._measured(x, graph, count, select, rest, meter)
        numbers = layout.pack(total, margins.counts, groups, tables)
        std = np.zeros(layout.size)
        std[0] = float(np.max(counted.std))
        std[1 : 1 + sum(layout.shape)] = np.repeat(margins.std, layout.shape)
        return Values(numbers, std)

    def _for_margins(self, layout: GraphLayout, total: float, rate: float) -> Fraction:
        """Half of the budget, or three quarters where the noise of all margins would outweigh the rows."""
        if self.margin_share is not None:
            return self.margin_share
        noise = sum(layout.shape) * len(layout.shape)
        return MOST_FOR_MARGINS if total * rate < noise else Fraction(1, 2)

    def _plan(self, layout: GraphLayout, total: float, rate: float) -> tuple[int, int]:
        """Groups of an attribute and number of pairs, from the published number of rows, the budget and the shape.

        With K tables a cell has noise K/rate on average: with g² cells a table g²·K/rate.
        """
        attributes = len(layout.shape)
        tree = attributes - 1
        side = math.sqrt(max(total, 1.0) * rate / (tree * ROWS_OF_CELL))
        groups = max(FEWEST_GROUPS, min(MOST_GROUPS, int(side)))
        cells = np.mean([math.prod(min(layout.shape[a], groups) for a in pair) for pair in _pairs(attributes)])
        allowed = int(NOISE_OF_TABLE * total * rate / float(cells))
        return groups, max(tree, min(layout.most_pairs, allowed))

    def _measured(
        self, x: SealedTable, graph: Graph, count: int, select: Fraction, rest: Fraction, meter: Meter
    ) -> list[PairTable]:
        pairs = _pairs(len(x.rows.shape))
        exact = pair_counts(x.rows, graph.labels, pairs)
        each, share = select / count, rest / count
        noise = float(x.rows.l1 / share)

        def choose(candidates: list[int], predictions: dict[int, Reals]) -> int:
            scores = misfit_scores(
                [exact[at] for at in candidates],
                [predictions[at] for at in candidates],
                [noise * exact[at].size for at in candidates],
            )
            return candidates[meter.select(scores, each, "pair")]

        def measure(at: int) -> PairTable:
            noisy = meter.laplace(exact[at], share, "table of a pair")
            shape = tuple(graph.sizes[axis] for axis in pairs[at])
            counts = np.asarray(noisy.numbers, dtype=np.float64).reshape(shape)
            return PairTable(pairs[at], counts, float(np.max(noisy.std)))

        tree = _chosen_tree(pairs, graph, choose)
        tables = [measure(at) for at in tree]
        if count > len(tree):
            fitted = Graph.of(graph.layout, graph.total, graph.margins, graph.groups, tables)
            drawn = coarse_rows(fitted, PREDICTED_ROWS, seed=0)
            left = [at for at in range(len(pairs)) if at not in tree]
            predicted = {at: pair_prediction(drawn, fitted, pairs[at]).reshape(-1) for at in left}
            while left and len(tables) < count:
                at = choose(left, predicted)
                left.remove(at)
                tables.append(measure(at))
        return tables


def _pairs(attributes: int) -> list[Pair]:
    return list(itertools.combinations(range(attributes), 2))


def _chosen_tree(pairs: Sequence[Pair], graph: Graph, choose: Choose) -> list[int]:
    """The positions of pairs that join all attributes, each chosen among those that join two parts."""
    independent = {
        at: graph.total * np.outer(graph.coarse[j], graph.coarse[k]).reshape(-1) for at, (j, k) in enumerate(pairs)
    }
    part = list(range(len(graph.coarse)))
    chosen: list[int] = []
    while len(set(part)) > 1:
        at = choose([n for n, (j, k) in enumerate(pairs) if part[j] != part[k]], independent)
        j, k = pairs[at]
        part = [part[j] if each == part[k] else each for each in part]
        chosen.append(at)
    return chosen
