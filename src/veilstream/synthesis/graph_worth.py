"""Whether attributes depend on one another so much that tables of several are worth what margins lose by them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.statistics.dependence import mean_dependence

SMALLEST: Final = 1e-9
SHARPNESS: Final = 3
"""The noise of the answer is to be this part of what margins are put off by, if that does not take too much."""
SHARPEST: Final = 0.005
"""Share of the rows below which the noise of the answer need not be."""
TYPICAL: Final = 0.08
"""Mean dependence of pairs in tables of people, as a share of the rows: what is assumed where nothing is asked."""
COMMON: Final = 0.06
"""Before an answer, the chance of a dependence D falls as 1/(1 + (D/COMMON)²), up to the strongest possible."""
STRONGEST: Final = 0.5
WORTH: Final = 1.4
"""Rows of error in single attributes that a row of dependence is worth: it is what rows are drawn for."""
SIGNIFICANT: Final = 2.5
"""Noises by which an answer must pass 0 to say that attributes depend at all."""
STEPS: Final = 2000
MARGINS_BY_DEPENDENCE: Final = 4.0
"""Share of the budget for margins, for every unit of what their noise would be with all of it, in dependences."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """How far pairs of attributes are from independence, in rows, as published: an estimate and its mean noise."""

    rows: float
    noise: float
    epsilon: Fraction
    """What it cost."""

    @classmethod
    def asked(cls, rows: SealedRows, total: float, of_margins: float, epsilon: Fraction, meter: Meter) -> Dependence:
        """Asked for at most ``epsilon``, and for less where that tells it from ``of_margins`` rows of a ``total``."""
        noise = max(of_margins / SHARPNESS, SHARPEST * total, SMALLEST)
        sharp = float(2 * rows.l1) / noise
        spent = epsilon * Fraction(math.ceil(1024 * min(sharp / float(epsilon), 1.0)), 1024)
        answer = meter.laplace(mean_dependence(rows), spent, "dependence of attributes")
        return cls(max(float(answer.numbers[0]), 0.0), float(2 * rows.l1 / spent), spent)

    def beats(self, of_margins: float) -> bool:
        """Whether it is surely beyond what the noise of margins puts a pair's table off by."""
        return self.rows > of_margins + self.noise

    def likely(self, total: float) -> float:
        """The mean of what the answer leaves possible, 0 if that may well be nothing.

        Strong dependence is rare, and the noise of the answer is Laplace.

        >>> [round(Dependence(rows, 50.0, Fraction(1)).likely(1000.0)) for rows in (300.0, 150.0, 100.0)]
        [252, 110, 0]
        """
        if self.rows <= SIGNIFICANT * self.noise:
            return 0.0
        shares = np.linspace(0.0, STRONGEST, STEPS)
        off = np.abs(shares * total - self.rows) / max(self.noise, SMALLEST)
        chances = np.exp(off.min() - off) / (1 + np.square(shares / COMMON))
        return float(chances @ shares / chances.sum()) * total

    def for_margins(self, of_margins: float) -> float:
        """The share of the budget with which the noise of margins is small beside the dependence."""
        return MARGINS_BY_DEPENDENCE * of_margins / max(self.rows, SMALLEST)


def pays(expected: float, alone: float, dependence: float) -> bool:
    """Whether tables with an expected error are better than margins ``alone``, if pairs depend by so many rows.

    >>> pays(30.0, alone=10.0, dependence=20.0), pays(30.0, alone=10.0, dependence=5.0)
    (True, False)
    """
    return expected < alone + WORTH * dependence
