"""What margins and tables of a graph are measured with, and how it is divided among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError
from veilstream.mechanisms.histograms._strategies import Law
from veilstream.mechanisms.histograms.grids import AdaptiveGrid
from veilstream.mechanisms.histograms.haar import smoothed
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.synthesis.graph_layout import Marginal
from veilstream.synthesis.junction import Scope
from veilstream.synthesis.margins import Margins
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.statistics.marginal_counts import marginal_counts
from veilstream.values.projection import onto_simplex
from veilstream.values.values import Values

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
SMALLEST: Final = 1e-18
FEWEST_SMOOTHED: Final = 12
"""Values of an attribute from which on its margin is smoothed."""
THIN: Final = 0.4
"""Rows times ε for each value of an ordered attribute below which its margin is measured in cells of several values."""
FEWEST_IN_CELLS: Final = 50
"""Values of an attribute from which on it may be."""
GRID: Final = AdaptiveGrid(constant=10.0)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMargins:
    """Histograms of all attributes as they were measured, and the precision of each: one over the noise's variance."""

    counts: tuple[Reals, ...]
    precisions: tuple[float, ...]
    smooth: tuple[bool, ...]
    """Which of them have plain noise, to be smoothed."""

    @classmethod
    def none(cls, shape: Sequence[int]) -> NoisyMargins:
        """No measurement yet: nothing is known."""
        return cls(tuple(np.zeros(size) for size in shape), (SMALLEST,) * len(shape), (True,) * len(shape))

    def with_another(self, other: NoisyMargins) -> NoisyMargins:
        """The means of two measurements by their precisions.

        >>> one, other = (NoisyMargins((np.array([n]),), (p,), (True,)) for n, p in ((4.0, 1.0), (8.0, 3.0)))
        >>> one.with_another(other).counts[0].tolist()
        [7.0]
        """
        weighed = zip(self.counts, self.precisions, other.counts, other.precisions, strict=True)
        counts = tuple((p * mine + q * theirs) / (p + q) for mine, p, theirs, q in weighed)
        precisions = tuple(p + q for p, q in zip(self.precisions, other.precisions, strict=True))
        return NoisyMargins(counts, precisions, other.smooth)

    def told_by(self, tables: Sequence[Marginal], axes: Sequence[int]) -> NoisyMargins:
        """With the margins of some attributes as tables tell them, whose groups are single values of these."""
        counts, precisions = list(self.counts), list(self.precisions)
        for axis in axes:
            weights, sums = SMALLEST, np.zeros(counts[axis].size)
            for table in tables:
                if axis in table.scope:
                    others = tuple(at for at, other in enumerate(table.scope) if other != axis)
                    weight = counts[axis].size / (max(table.std**2, SMALLEST) * table.counts.size)
                    sums, weights = sums + weight * np.asarray(table.counts.sum(axis=others)), weights + weight
            counts[axis], precisions[axis] = sums / weights, weights
        return NoisyMargins(tuple(counts), tuple(precisions), self.smooth)

    def margins(self, total: float) -> Margins:
        """Smoothed, and projected on counts ≥ 0 with the published ``total``."""
        deviations = tuple(1 / math.sqrt(precision) for precision in self.precisions)
        counts = tuple(
            onto_simplex(smoothed(noisy, std, "median") if smooth and noisy.size >= FEWEST_SMOOTHED else noisy, total)
            for noisy, std, smooth in zip(self.counts, deviations, self.smooth, strict=True)
        )
        return Margins(counts, total, deviations)


@dataclass(frozen=True, slots=True)
class Budget:
    """ε for Laplace noise, or μ² for Gaussian noise, on rows of which one unit has at most ``max_contribution``."""

    noise: Law
    amount: Fraction
    max_contribution: Fraction

    @classmethod
    def of(cls, noise: Law, epsilon: Fraction, max_contribution: Fraction, meter: Meter) -> Budget:
        """The budget for ``epsilon``, or for what goes with that share of the pure part under Gaussian noise."""
        if noise == "laplace":
            return cls(noise, epsilon, max_contribution)
        guarantee = meter.guarantee
        if guarantee.mu_squared == 0 or guarantee.pure == 0:
            raise InvalidBudgetError(f"Gaussian noise under {guarantee}: delta and pure_share must both be above 0")
        return cls(noise, guarantee.mu_squared * epsilon / guarantee.pure, max_contribution)

    def spared(self, share: Fraction, epsilon: Fraction) -> list[Budget]:
        """A share of this budget and an ε that choices did not need, as budgets for further measurements.

        >>> Budget("laplace", Fraction(1), Fraction(1)).spared(Fraction(1, 2), Fraction(1, 4))[0].amount
        Fraction(3, 4)
        """
        left = self.amount * share
        amounts: list[tuple[Law, Fraction]] = [(self.noise, left), ("laplace", epsilon)]
        if self.noise == "laplace":
            amounts = [("laplace", left + epsilon)]
        return [Budget(noise, amount, self.max_contribution) for noise, amount in amounts if amount > 0]

    def noise_of(self, share: Fraction) -> float:
        """The mean absolute noise of a count for a share of the budget."""
        if self.noise == "laplace":
            return float(self.max_contribution / (self.amount * share))
        return float(self.max_contribution) / math.sqrt(float(self.amount * share) * math.pi / 2)

    def growth(self, share: Fraction) -> float:
        """How much larger noise is with a share of the budget than with all of it."""
        return self.noise_of(share) / self.noise_of(Fraction(1))

    def divided(self, first: float, second: float) -> Fraction:
        """The share of the budget for the first of two errors under which their sum is least.

        Both are those with all of the budget.

        >>> Budget("laplace", Fraction(1), Fraction(1)).divided(4.0, 1.0)
        Fraction(2, 3)
        """
        power = 1 / 2 if self.noise == "laplace" else 2 / 3
        weights = first**power, second**power
        return Fraction(round(3072 * weights[0] / max(sum(weights), SMALLEST)), 3072)

    def parts(self, sizes: Sequence[int]) -> list[Fraction]:
        """Parts of a budget for histograms of these sizes under which the sum of all their noises is least.

        >>> Budget("laplace", Fraction(1), Fraction(1)).parts([1, 4])
        [Fraction(1, 3), Fraction(2, 3)]
        """
        power = 1 / 2 if self.noise == "laplace" else 2 / 3
        weights = [Fraction(round(1024 * size**power)) for size in sizes]
        return [weight / sum(weights) for weight in weights]

    def thin(
        self,
        shape: Sequence[int],
        ordered: Sequence[bool],
        rows: float,
        share: Fraction,
        *,
        told: Sequence[int] = (),
    ) -> list[int]:
        """Ordered attributes with so many values, for a published number of rows, that a single one says little.

        >>> Budget("laplace", Fraction(1), Fraction(1)).thin([10, 1000], [True, True], 500.0, Fraction(1, 2))
        [1]
        """
        measured = [axis for axis in range(len(shape)) if axis not in told]
        if self.noise != "laplace":
            return []
        wide = zip(measured, self.parts([shape[axis] for axis in measured]), strict=True)
        return [
            axis
            for axis, part in wide
            if ordered[axis]
            and shape[axis] >= FEWEST_IN_CELLS
            and rows < THIN * shape[axis] * self.noise_of(share * part)
        ]

    def margins(
        self,
        rows: SealedRows,
        histogram: HistogramMechanism | None,
        share: Fraction,
        meter: Meter,
        *,
        told: Sequence[int] = (),
        thin: Sequence[int] = (),
        counted: Values | None = None,
    ) -> NoisyMargins:
        """Every margin for a share of the budget in all, but those that are ``told`` by tables.

        Those of attributes that are ``thin`` are measured in cells as wide as the published number of rows asks for.
        """
        smooth = histogram is None or self.noise != "laplace"
        measured = [axis for axis in range(len(rows.shape)) if axis not in told]
        counts: list[Reals] = [np.zeros(size) for size in rows.shape]
        precisions = [SMALLEST] * len(rows.shape)
        for axis, part in zip(measured, self.parts([rows.shape[axis] for axis in measured]), strict=True):
            exact, epsilon = rows.margin(axis), self.amount * share * part
            if counted is not None and smooth and axis in thin:
                values = GRID.with_total(exact, counted, epsilon, meter)
                # Values of one cell have the same noise: a sum over them has as much as their number times one of them.
                cell = math.sqrt(2) * float(self.max_contribution / (epsilon * (1 - GRID.first)))
                variance = float(np.mean(values.std)) * cell
            else:
                values = (
                    self._measure(exact, share * part, "margin", meter)
                    if histogram is None or smooth
                    else histogram.estimate(exact, epsilon, meter)
                )
                variance = float(np.mean(np.square(values.std)))
            counts[axis] = np.asarray(values.numbers, dtype=np.float64)
            known = math.isfinite(variance)
            precisions[axis] = 1 / max(variance, SMALLEST) if known else float(share * part) ** 2
        plain = tuple(smooth and not (counted is not None and axis in thin) for axis in range(len(rows.shape)))
        return NoisyMargins(tuple(counts), tuple(precisions), plain)

    def tables(
        self, rows: SealedRows, labels: Sequence[Integers], scopes: Sequence[Scope], share: Fraction, meter: Meter
    ) -> list[Marginal]:
        """The tables of some sets of attributes, larger ones for more of the share."""
        shapes = [tuple(1 + int(labels[axis].max()) for axis in scope) for scope in scopes]
        parts = self.parts([math.prod(shape) for shape in shapes])
        found: list[Marginal] = []
        exact = marginal_counts(rows, labels, scopes)
        for scope, shape, part, counts in zip(scopes, shapes, parts, exact, strict=True):
            noisy = self._measure(counts, share * part, "table of attributes", meter)
            numbers = np.asarray(noisy.numbers, dtype=np.float64).reshape(shape)
            found.append(Marginal(scope, numbers, float(np.max(noisy.std))))
        return found

    def _measure(self, x: Sealed, share: Fraction, purpose: str, meter: Meter) -> Values:
        if self.noise == "laplace":
            return meter.laplace(x, self.amount * share, purpose)
        return meter.gaussian(x, self.amount * share, purpose)
