"""A published graph of marginals, from which rows are drawn at no further cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.synthesis.domain import TableDomain
from veilstream.synthesis.graph_fit import Graph
from veilstream.synthesis.graph_layout import GraphLayout
from veilstream.synthesis.margins import shares
from veilstream.synthesis.tables import as_table, checked_rows

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class GraphModel:
    """Published margins and tables of pairs. Everything in it is public under the guarantee that paid for it.

    ``sample`` is post-processing: it may be seeded, repeated and kept without any cost.
    """

    domain: TableDomain
    layout: GraphLayout
    numbers: Reals = field(repr=False)
    spent: Fraction

    @property
    def rows(self) -> int:
        """The noisy number of rows of the table."""
        return round(float(self.numbers[0]))

    @property
    def measured(self) -> tuple[tuple[str, ...], ...]:
        """The attributes whose tables were measured, in the order in which they were chosen."""
        names = self.domain.names
        return tuple(tuple(names[axis] for axis in t.scope) for t in self.layout.unpack(self.numbers).tables)

    @property
    def copulas(self) -> tuple[str, ...]:
        """What joins the attributes."""
        return ("marginals",)

    @property
    def correlation(self) -> Reals:
        """Correlations of the ranks of attributes in drawn rows."""
        columns = np.stack(self.sample_codes(min(max(self.rows, 2), 50_000), seed=0), axis=1).astype(np.float64)
        matrix = np.eye(columns.shape[1])
        varied = columns.std(axis=0) > 0
        if varied.sum() > 1:
            ranks = np.argsort(np.argsort(columns[:, varied], axis=0), axis=0)
            matrix[np.ix_(varied, varied)] = np.corrcoef(ranks, rowvar=False)
        return matrix

    def graph(self) -> Graph:
        """The law that the published tables give."""
        return Graph.of(self.layout, self.layout.unpack(self.numbers))

    def margin(self, name: str) -> Reals:
        """The published counts of one attribute's values."""
        if name not in self.domain.names:
            raise InvalidInputError(f"attribute '{name}': the attributes are {', '.join(self.domain.names)}")
        margins = self.layout.unpack(self.numbers).margins
        return margins.total * shares(margins.counts[self.domain.names.index(name)])

    def sample_codes(self, rows: int | None = None, seed: int | None = None) -> list[NDArray[np.int64]]:
        """Drawn rows as codes, one column per attribute."""
        count = checked_rows(self.rows, rows)
        return self.graph().rows(count, None if seed is None else (seed, 2))

    def sample(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        kind: Literal["polars", "pandas", "arrow"] = "polars",
    ) -> Any:
        """Drawn rows as a Polars (or pandas, or Arrow) table; as many as the table has, by its noisy total, by default.

        Numbers lie at random inside their bins, as in ``CopulaModel.sample``.
        """
        return as_table(self.sample_codes(rows, seed), self.domain, seed, kind)
