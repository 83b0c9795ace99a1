"""Which copula: normal, Student's t, or empirical, chosen by what it is expected to get wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.synthesis.bivariate import gathered, masses, pair_probabilities
from veilstream.synthesis.margins import Margins
from veilstream.synthesis.tree import spanning_tree
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.statistics.pair_tables import pair_tables, prediction_scores

NORMAL: Final = 0.0
EMPIRICAL: Final = -1.0
"""What a release says in place of degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Chooses among the normal copula, t copulas and the empirical copula on a tree by the exponential mechanism.

    All elliptical copulas share the correlations that Kendall's τ gives; ``degrees`` lists the t copulas to try. The
    tree joins the attributes by their strongest published correlations, so it is public. On its m − 1 pairs, gathered
    into ``groups`` × ``groups`` tables, an elliptical candidate scores minus the L1 distance from the exact tables to
    those that it predicts. The empirical one scores minus the mean noise that publishing the tables would add and minus
    Σ√(2np/π), how far a table is from even the right model by chance. As in EFPA, the choice weighs what a model gets
    wrong against what measuring would cost. One person moves a score by at most m − 1.

    Of the budget for dependence, ``choose`` pays for the choice and ``measure`` for the tables if they are chosen;
    if not, that part is left unspent.

    >>> Choice(groups=1)
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: groups 1 of Choice: a whole number from 2 to 64; nothing was released

    Other families and their choice are future work of the thesis (chapter 6); the score is new here.
    """

    degrees: tuple[int, ...] = (3, 6, 12)
    groups: int = 8
    choose: Fraction = Fraction(1, 8)
    measure: Fraction = Fraction(3, 8)

    def __post_init__(self) -> None:
        if type(self.groups) is not int or not 2 <= self.groups <= 64:
            raise InvalidInputError(name="groups", of="Choice", value=self.groups, limit="a whole number from 2 to 64")
        if any(type(nu) is not int or nu < 1 for nu in self.degrees):
            raise InvalidInputError(name="degrees", of="Choice", value=self.degrees, limit="whole numbers from 1")
        if not (self.choose > 0 and self.measure > 0 and self.choose + self.measure < 1):
            raise InvalidInputError(f"shares {self.choose} and {self.measure} of Choice: above 0 and below 1 together")

    def pick(
        self, rows: SealedRows, margins: Margins, matrix: NDArray[np.float64], epsilon: Fraction, meter: Meter
    ) -> tuple[float, NDArray[np.float64]]:
        """What was chosen, and noisy tables of the tree's pairs (zeros unless they were measured)."""
        edges = spanning_tree(matrix)
        probabilities = margins.probabilities()
        labels = [gathered(p, self.groups) for p in probabilities]
        coarse = [masses(label, p, self.groups) for label, p in zip(labels, probabilities, strict=True)]
        tables = pair_tables(rows, labels, self.groups, edges)
        families: list[float | None] = [None, *map(float, self.degrees)]
        predictions = [
            margins.total
            * np.concatenate([_predicted(coarse[j], coarse[k], float(matrix[j, k]), nu) for j, k in edges])
            for nu in families
        ]
        noise = tables.l1 * tables.size / (epsilon * self.measure)
        chance = Fraction(math.sqrt(2 / math.pi) * float(np.sqrt(predictions[0]).sum()))
        penalties = [*[Fraction(0)] * len(families), noise + chance]
        scores = prediction_scores(tables, [*predictions, None], penalties)
        chosen = meter.select(scores, epsilon * self.choose, "copula")
        if chosen == len(families):
            noisy = meter.laplace(tables, epsilon * self.measure, "pair tables")
            return EMPIRICAL, np.asarray(noisy.numbers, dtype=np.float64)
        return families[chosen] or NORMAL, np.zeros(tables.size)


def _predicted(p: NDArray[np.float64], q: NDArray[np.float64], rho: float, nu: float | None) -> NDArray[np.float64]:
    """The table of two gathered margins, groups that nothing falls in included."""
    table = np.zeros((p.size, q.size))
    rows, columns = np.flatnonzero(p > 0), np.flatnonzero(q > 0)
    table[np.ix_(rows, columns)] = pair_probabilities(p[rows], q[columns], rho, nu)
    return table.reshape(-1)
