"""Whether attributes depend on one another so much that tables of several are worth what margins lose by them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.statistics.dependence import mean_dependence

SMALLEST: Final = 1e-9
SHARPNESS: Final = 2
"""The noise of the answer is to be this part of what margins are put off by, if that does not take too much."""
DEPENDENCE_OF_VIEWS: Final = 0.45
"""Every pair is measured where attributes depend by this share of the noise that their tables would have, or more."""
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
    def asked(cls, rows: SealedRows, of_margins: float, epsilon: Fraction, meter: Meter) -> Dependence:
        """Asked for at most ``epsilon``, and for less where that tells it from ``of_margins`` rows."""
        sharp = SHARPNESS * float(2 * rows.l1) / max(of_margins, SMALLEST)
        spent = epsilon * Fraction(math.ceil(1024 * min(sharp / float(epsilon), 1.0)), 1024)
        answer = meter.laplace(mean_dependence(rows), spent, "dependence of attributes")
        return cls(max(float(answer.numbers[0]), 0.0), float(2 * rows.l1 / spent), spent)

    def beats(self, of_margins: float) -> bool:
        """Whether it is surely beyond what the noise of margins puts a pair's table off by."""
        return self.rows > of_margins + self.noise

    def fills(self, of_views: float) -> bool:
        """Whether it is surely so large that tables of all pairs with so much noise still tell it."""
        return self.rows > DEPENDENCE_OF_VIEWS * of_views + self.noise

    def for_margins(self, of_margins: float) -> float:
        """The share of the budget with which the noise of margins is small beside the dependence."""
        return MARGINS_BY_DEPENDENCE * of_margins / max(self.rows, SMALLEST)
