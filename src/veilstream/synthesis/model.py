"""A published model of a table, from which rows are drawn at no further cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence  # noqa: TID251 (what is drawn here reads a public model alone)
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.synthesis.bivariate import gathered, masses, thresholds
from veilstream.synthesis.choice import EMPIRICAL, NORMAL
from veilstream.synthesis.correlation import matrix_of
from veilstream.synthesis.domain import TableDomain
from veilstream.synthesis.layout import Layout, Part
from veilstream.synthesis.margins import shares
from veilstream.synthesis.tables import as_table, checked_rows
from veilstream.synthesis.tree import consistent, spanning_tree, walk_down

Reals = NDArray[np.float64]
AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class CopulaModel:
    """Published margins and copula of a table. Everything in it is public under the guarantee that paid for it.

    ``sample`` is post-processing: it may be seeded, repeated and kept without any cost.
    """

    domain: TableDomain
    layout: Layout
    numbers: Reals = field(repr=False)
    spent: Fraction

    @property
    def rows(self) -> int:
        """The noisy number of rows of the table."""
        return round(float(self.layout.unpack(self.numbers)[0].sum()))

    @property
    def correlation(self) -> Reals:
        """The correlation matrix of the modelled attributes; with several parts their mean by size."""
        sizes, parts = self.layout.unpack(self.numbers)
        weights = shares(sizes)
        upper = sum((w * part.correlations for w, part in zip(weights, parts, strict=True)), np.zeros(1))
        return matrix_of(upper if len(self.layout.modelled) > 1 else np.zeros(0), len(self.layout.modelled))

    @property
    def copulas(self) -> tuple[str, ...]:
        """The kind of every part's copula: 'normal', 't3', ... or 'empirical'."""
        return tuple(_name(part.kind) for part in self.layout.unpack(self.numbers)[1])

    def margin(self, name: str) -> Reals:
        """The published counts of one attribute's values."""
        sizes, parts = self.layout.unpack(self.numbers)
        axis = self._axis(name)
        if axis in self.layout.modelled:
            at = self.layout.modelled.index(axis)
            each = [size * shares(part.margins[at]) for size, part in zip(sizes, parts, strict=True)]
            return np.asarray(np.sum(each, axis=0), dtype=np.float64)
        table = sizes.reshape([self.layout.shape[split] for split in self.layout.split])
        others = tuple(at for at, split in enumerate(self.layout.split) if split != axis)
        return np.asarray(table.sum(axis=others))

    def sample_codes(self, rows: int | None = None, seed: int | None = None) -> list[NDArray[np.int64]]:
        """Drawn rows as codes, one column per attribute."""
        count = checked_rows(self.rows, rows)
        generator = Generator(PCG64(SeedSequence(seed)))
        sizes, parts = self.layout.unpack(self.numbers)
        wanted = generator.multinomial(count, shares(sizes)) if len(parts) > 1 else np.array([count])
        columns = [np.empty(count, dtype=np.int64) for _ in self.layout.shape]
        at = 0
        for number, (part, size) in enumerate(zip(parts, wanted.tolist(), strict=True)):
            for first in range(0, size, AT_ONCE):
                piece = slice(at, at + min(AT_ONCE, size - first))
                self._fill([column[piece] for column in columns], number, part, generator)
                at = piece.stop
        if len(parts) > 1:
            order = generator.permutation(count)
            columns = [column[order] for column in columns]
        return columns

    def sample(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        kind: Literal["polars", "pandas", "arrow"] = "polars",
    ) -> Any:
        """Drawn rows as a Polars (or pandas, or Arrow) table; as many as the table has, by its noisy total, by default.

        Numbers lie at random inside their bins, whole ones where all edges of the attribute are whole. Types of columns
        come from the domain: those of the table may depend on its rows.
        """
        return as_table(self.sample_codes(rows, seed), self.domain, seed, kind)

    def _axis(self, name: str) -> int:
        if name not in self.domain.names:
            raise InvalidInputError(f"attribute '{name}': the attributes are {', '.join(self.domain.names)}")
        return self.domain.names.index(name)

    def _fill(self, columns: list[NDArray[np.int64]], number: int, part: Part, generator: Generator) -> None:
        for axis, code in zip(self.layout.split, self._codes_of_part(number), strict=True):
            columns[axis][:] = code
        targets = [columns[axis] for axis in self.layout.modelled]
        if not targets:
            return
        margins = [shares(margin) for margin in part.margins]
        if part.kind == EMPIRICAL:
            self._fill_by_tree(targets, margins, part, generator)
            return
        nu = None if part.kind == NORMAL else part.kind
        count = targets[0].size
        factor = np.linalg.cholesky(matrix_of(part.correlations, len(targets)))
        latent = factor @ generator.standard_normal((len(targets), count))
        scale = None if nu is None else np.sqrt(nu / generator.chisquare(nu, count))
        for target, margin, values in zip(targets, margins, latent, strict=True):
            limits = thresholds(np.cumsum(margin)[:-1], nu)
            target[:] = np.searchsorted(limits, values if scale is None else values * scale, side="left")
            _only_possible(target, margin)

    def _fill_by_tree(
        self, targets: list[NDArray[np.int64]], margins: list[Reals], part: Part, generator: Generator
    ) -> None:
        groups, count = self.layout.groups, targets[0].size
        labels = [gathered(margin, groups) for margin in margins]
        coarse = [masses(label, margin, groups) for label, margin in zip(labels, margins, strict=True)]
        edges = spanning_tree(matrix_of(part.correlations, len(targets)))
        noisy = part.tables.reshape(len(edges), groups, groups)
        tables = [consistent(noise, coarse[j], coarse[k]) for noise, (j, k) in zip(noisy, edges, strict=True)]
        chosen = walk_down(tables, edges, coarse[0], [generator.random(count) for _ in targets])
        for target, margin, mass, group in zip(targets, margins, coarse, chosen, strict=True):
            start = np.cumsum(mass) - mass
            position = start[group] + mass[group] * generator.random(count)
            target[:] = np.searchsorted(np.cumsum(margin)[:-1], position, side="right")
            _only_possible(target, margin)

    def _codes_of_part(self, number: int) -> tuple[int, ...]:
        shape = tuple(self.layout.shape[axis] for axis in self.layout.split)
        return tuple(int(code) for code in np.unravel_index(number, shape)) if shape else ()


def _only_possible(codes: NDArray[np.int64], margin: Reals) -> None:
    """Rounding of running sums may end in a value of probability 0: take the possible one before it, or the first."""
    possible = margin > 0
    if possible.all():
        return
    nearest = np.maximum.accumulate(np.where(possible, np.arange(margin.size), -1))
    nearest[nearest < 0] = int(possible.argmax())
    codes[:] = nearest[codes]


def _name(kind: float) -> str:
    return "normal" if kind == NORMAL else "empirical" if kind == EMPIRICAL else f"t{kind:g}"
