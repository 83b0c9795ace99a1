"""The method for a declared use, by public facts and a noisy number of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms.dpcube import DPCube
from veilstream.mechanisms.histograms.filter_priority import FilterPriority
from veilstream.mechanisms.histograms.grids import AdaptiveGrid
from veilstream.mechanisms.histograms.haar import Haar
from veilstream.mechanisms.histograms.hb import HB
from veilstream.mechanisms.histograms.marginals import Marginals
from veilstream.mechanisms.histograms.noise_first import NoiseFirst
from veilstream.mechanisms.histograms.psd import PSD
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values

SHARE: Final = Fraction(1, 50)
"""Of the budget, for the number of records that the choice rests on."""
FEW_RECORDS: Final = 3000.0
"""Records times ε below which ranges are better served by a grid that adapts than by a tree."""
CROWDED_LINE, CROWDED_TABLE = 0.1, 60.0
"""Records times ε per bin above which single bins have too much structure to be joined into boxes."""


@dataclass(frozen=True, slots=True)
class Auto:
    """Publishes with the method that suits what the release is for.

    ``use`` is "ranges" (sums over ranges of a line or boxes of a table, the default), "bins" (single ones), or
    "marginals" (of two attributes). For ranges and bins a fiftieth of ε pays for a noisy number of records N, which
    with the public ε and shape decides the rest: what a method gains depends above all on the records times ε.

    * ranges: ``HB`` on a line and ``PSD`` in a table, or ``AdaptiveGrid`` where N·ε is below 3,000;
    * bins of a line: ``Haar``, or ``FilterPriority`` where N·ε is below 1/10 for every bin;
    * bins of a table: ``NoiseFirst``, or ``DPCube`` where N·ε is below 60 for every bin;
    * marginals: ``Marginals``, nothing to choose.

    ``edition=1`` takes what the first version took for bins of a line: ``DPCube`` and ``Haar`` with a threshold.

    >>> Auto(use="marginals").use
    'marginals'

    The limits were set on the ten lines and eight planes of DPBench that docs/histograms.md has figures of, so those
    figures flatter the choice.
    """

    version: ClassVar[int] = 2
    former_defaults: ClassVar[Mapping[int, Mapping[str, Any]]] = {1: {"edition": 1}}
    use: Literal["ranges", "bins", "marginals"] = "ranges"
    edition: int = 2

    def __post_init__(self) -> None:
        if self.edition not in (1, 2):
            raise InvalidInputError(name="edition", of="Auto", value=self.edition, limit="1 or 2")
        if self.use not in ("ranges", "bins", "marginals"):
            raise InvalidInputError(name="use", value=self.use, limit="'ranges', 'bins' or 'marginals'")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        if self.use == "marginals":
            return Marginals().estimate(x, epsilon, meter)
        share = epsilon * SHARE
        noisy = meter.laplace(x.total(), share, "number of records")
        rest = epsilon - share
        strength = np.asarray(noisy.numbers[..., 0] * float(rest / x.l1), dtype=np.float64)
        return self._chosen(x, strength, meter).estimate(x, rest, meter)

    def _chosen(self, x: Sealed, strength: NDArray[np.float64], meter: Meter) -> HistogramMechanism:
        if self.use == "bins":
            line = len(x.shape) == 1
            crowded = strength > (CROWDED_LINE if line else CROWDED_TABLE) * x.size
            if not bool(meter.branch(crowded)):
                return FilterPriority() if line and self.edition > 1 else DPCube()
            if not line:
                return NoiseFirst()
            return Haar() if self.edition > 1 else Haar("threshold")
        if bool(meter.branch(strength < FEW_RECORDS)):
            return AdaptiveGrid()
        return HB() if len(x.shape) == 1 else PSD()
