"""DPCopula: margins and dependence published apart, rows drawn from both."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.histograms.noise_first import NoiseFirst
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.privacy.rationals import rational
from veilstream.synthesis.choice import NORMAL, Choice
from veilstream.synthesis.correlation import matrix_of, repaired, upper_of
from veilstream.synthesis.kendall import Kendall
from veilstream.synthesis.layout import Layout, Part
from veilstream.synthesis.margins import Margins, private_margins
from veilstream.synthesis.sizes import private_sizes, questions_of_sizes
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows, SealedTable
from veilstream.values.values import Values


class Dependence(Protocol):
    """How correlations of all pairs of attributes are estimated: ``Kendall`` or ``BlockMLE``."""

    def correlations(
        self, rows: SealedRows, margins: Margins, epsilon: Fraction, meter: Meter
    ) -> NDArray[np.float64]: ...


@dataclass(frozen=True, slots=True)
class DPCopula:
    """Publishes a model of a table: a private histogram per attribute and a private copula that joins them.

    By Sklar's theorem a joint law is its margins F_j and a copula C: H(x) = C(F_1(x_1), ..., F_m(x_m)). Noise on m
    margins and m(m−1)/2 correlations hurts far less than on the cells of a domain that is larger than the table.
    ``size_share`` of ε counts the rows (and as much again for each further question about sizes, see
    ``private_sizes``); of the rest ``ratio``/(ratio+1) goes to the margins, in equal shares, and
    what is left to the dependence: ε in all.

    Margins come from any histogram mechanism, by default ``NoiseFirst``. The thesis takes EFPA, whose range error is
    several times as large on margins that were kept for this choice (docs/benchmarks/synthesis.md). ``copula``, a
    ``Choice``, chooses the family of the copula privately; without it the copula is normal.

    It is a histogram mechanism for tables, so that any stream mechanism can release with it. ``fit`` uses it once. Its
    values are the numbers of ``Layout``: counts of margins, then correlations.

    >>> import numpy as np
    >>> from veilstream.data import Grid
    >>> from veilstream.synthesis import TableDomain, fit
    >>> x = np.arange(5000) % 100
    >>> domain = TableDomain({name: Grid(0, 100, 100) for name in "xy"})
    >>> model = fit({"x": x, "y": (x + np.arange(5000) % 7) % 100}, domain, 1)
    >>> model.sample(3).columns, bool(model.correlation[0, 1] > 0.5)
    (['x', 'y'], True)

    ``split_below`` is the hybrid of the thesis: every combination of values of the attributes with fewer values than
    that (as many of them, smallest first, as give at most ``most_parts``) is a part with a model of its own, because
    the order of a few categories means little. A row lies in one part, so that all parts together cost what one does.
    That composition holds within one timestamp (w = 1) only.

    Li, Xiong, Jiang: Differentially private synthesization of multi-dimensional data using copula functions, EDBT
    2014; thesis chapter 3, algorithms 1, 3, 4 and 6. Corrected: the total is ε₁ + ε₂ (theorem 3.2.2 says otherwise);
    margins are projected on counts ≥ 0 of one total, never clipped; rows are counted by noisy totals. Changed: the
    default margins. See ``Kendall``, ``BlockMLE``.
    """

    dependence: Dependence = field(default_factory=Kendall)
    margins: HistogramMechanism = field(default_factory=NoiseFirst)
    ratio: Fraction = Fraction(8)
    copula: Choice | None = None
    split_below: int = 0
    most_parts: int = 64
    size_share: Fraction = Fraction(1, 20)
    schema: str | None = None
    """Fingerprint of the table's domain, for ledgers."""

    def __post_init__(self) -> None:
        for name in ("ratio", "size_share"):
            object.__setattr__(self, name, rational(getattr(self, name), name))
        if not self.ratio > 0 or not 0 < self.size_share < 1:
            raise InvalidInputError(
                f"ratio {self.ratio} and size_share {self.size_share} of DPCopula: above 0, and the share below 1"
            )
        for name in ("split_below", "most_parts"):
            value = getattr(self, name)
            if type(value) is not int or value < (1 if name == "most_parts" else 0):
                raise InvalidInputError(name=name, of="DPCopula", value=value, limit="a whole number")

    def layout(self, shape: tuple[int, ...]) -> Layout:
        """Where the numbers of a release lie, for a table of this shape."""
        split: list[int] = []
        parts = 1
        for axis in sorted(range(len(shape)), key=lambda axis: (shape[axis], axis)):
            if shape[axis] < self.split_below and parts * shape[axis] <= self.most_parts:
                split.append(axis)
                parts *= shape[axis]
        return Layout(shape, tuple(sorted(split)), self.copula.groups if self.copula else 0)

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        """The model of a table for ``epsilon``."""
        if not isinstance(x, SealedTable):
            raise InvalidInputError("DPCopula: it publishes tables, not histograms; seal rows with its layout")
        layout = self.layout(x.rows.shape)
        if layout.split and meter.guarantee.w != 1:
            raise InvalidBudgetError(
                f"DPCopula with split_below={self.split_below} under {meter.guarantee}: parts are paid for "
                "together at w=1 only; set split_below=0"
            )
        share = epsilon
        if layout.modelled:
            share = epsilon * min(self.size_share * questions_of_sizes(layout.split), Fraction(1, 2))
        sizes, noise = private_sizes(x.rows, layout.split, share, meter)
        cells = x.rows.parts(layout.split) if layout.split else [x.rows]
        parts: list[Part] = []
        deviations: list[tuple[float, ...]] = []
        for rows, size in zip(cells, sizes.tolist(), strict=True) if layout.modelled else ():
            part, std = self._part(rows.project(layout.modelled), size, epsilon - share, meter)
            parts.append(part)
            deviations.append(std)
        if not layout.modelled:
            parts = [Part((), np.zeros(0), NORMAL, np.zeros(0))] * layout.parts
        return self._values(layout, sizes, parts, deviations, noise)

    def _part(self, rows: SealedRows, total: float, epsilon: Fraction, meter: Meter) -> tuple[Part, tuple[float, ...]]:
        attributes = len(rows.shape)
        if attributes == 1:
            margins = private_margins(rows, total, self.margins, epsilon, meter)
            return Part(margins.counts, np.zeros(0), NORMAL, np.zeros(0)), margins.std
        second = epsilon / (self.ratio + 1)
        margins = private_margins(rows, total, self.margins, epsilon - second, meter)
        if self.copula is None:
            matrix = repaired(matrix_of(self.dependence.correlations(rows, margins, second, meter), attributes))
            return Part(margins.counts, upper_of(matrix), NORMAL, np.zeros(0)), margins.std
        spared = second * (1 - self.copula.choose - self.copula.measure)
        matrix = repaired(matrix_of(self.dependence.correlations(rows, margins, spared, meter), attributes))
        kind, tables = self.copula.pick(rows, margins, matrix, second, meter)
        return Part(margins.counts, upper_of(matrix), kind, tables), margins.std

    def _values(
        self,
        layout: Layout,
        sizes: NDArray[np.float64],
        parts: list[Part],
        deviations: list[tuple[float, ...]],
        std: float,
    ) -> Values:
        pieces = [np.full(sizes.size, std)]
        for each in deviations:
            pieces += [np.full(layout.shape[axis], noise) for axis, noise in zip(layout.modelled, each, strict=True)]
        pieces.append(np.zeros(layout.spare))
        return Values(layout.pack(sizes, parts), np.concatenate(pieces))
