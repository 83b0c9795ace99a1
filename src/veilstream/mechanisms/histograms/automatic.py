"""The method for a declared use, by public facts and a noisy number of records."""

from __future__ import annotations

import math
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
from veilstream.values.boxes import require_dense
from veilstream.values.values import Values

SHARE: Final = Fraction(1, 50)
"""Of the budget, for the number of records that the choice rests on."""
FEW_ON_LINE, FEW_IN_TABLE = 3000.0, 100_000.0
"""Records times ε below which ranges are better served by a grid that adapts than by a tree."""
FEW_PER_CELL: Final = 5.0
"""The same per cell of a small table, whose cells would soon be divided as far as they can be."""
FEWEST_IN_TABLE: Final = 300.0
"""The same below which boxes of a table are better served by a few boxes, smoothed."""
FEW_BOXES: Final = 64
LINE_GRID: Final = AdaptiveGrid(constant=10.0)
TABLE_GRID: Final = AdaptiveGrid(first=Fraction(1, 3), constant=2.5)
THIN_LINE: Final = 0.5
"""Records times ε per bin of a line below which blocks of bins are measured beside them."""
BLOCKS: Final = Fraction(1, 3)
"""Of the budget, for the blocks."""
THIN_TABLE: Final = 6.0
"""Records times ε, for every root of the number of cells, below which boxes stand for single cells of a table."""
PER_BOX: Final = 0.7
"""Records times ε in such a box."""
CROWDED_LINE, CROWDED_TABLE = 0.1, 60.0
"""Records times ε per bin above which earlier editions did not join single bins into boxes."""
EDITIONS: Final = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Auto:
    """Publishes with the method that suits what the release is for.

    ``use`` is "ranges" (sums over ranges of a line or boxes of a table, the default), "bins" (single ones), or
    "marginals" (of two attributes). For ranges and bins a fiftieth of ε pays for a noisy number of records N, which
    with the public ε and shape decides the rest: what a method gains depends above all on the records times ε.

    * ranges of a line: ``HB``, or ``AdaptiveGrid`` where N·ε is below 3,000;
    * boxes of a table: ``PSD``, or ``AdaptiveGrid`` where N·ε is below 100,000 and below 5 for every cell, or
      ``Haar`` on about 64 boxes where it is below 300;
    * bins of a line: ``Haar``, and with blocks of bins where N·ε is below 1/2 for every bin;
    * bins of a table: ``Haar`` along its axes, and on boxes of cells with N·ε of about 0.7 in each where N·ε is below
      6 for every root of the number of cells;
    * marginals: ``Marginals``, nothing to choose.

    ``Haar`` and ``AdaptiveGrid`` need N themselves and take it from here, so that it is paid for once.

    ``edition`` 1 and 2 choose as the first versions did: for sparse bins ``DPCube``, then ``FilterPriority`` on lines;
    for crowded ones ``Haar`` with a threshold, then without, and ``NoiseFirst`` in tables; for ranges of both
    ``AdaptiveGrid`` as it is where N·ε is below 3,000. Edition 3 takes ``Haar`` along a curve for bins of a
    table, and ``AdaptiveGrid`` for its boxes however few the records are.

    >>> Auto(use="marginals").use
    'marginals'

    The limits were set on the ten lines and eight planes of DPBench that docs/histograms.md has figures of, whole and
    with fewer records, those for bins of a table on more planes, so figures of these flatter the choice.
    """

    version: ClassVar[int] = 4
    former_defaults: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        1: {"edition": 1},
        2: {"edition": 2},
        3: {"edition": 3},
    }
    use: Literal["ranges", "bins", "marginals"] = "ranges"
    edition: int = 4

    def __post_init__(self) -> None:
        if self.edition not in EDITIONS:
            raise InvalidInputError(name="edition", of="Auto", value=self.edition, limit="1, 2, 3 or 4")
        if self.use not in ("ranges", "bins", "marginals"):
            raise InvalidInputError(name="use", value=self.use, limit="'ranges', 'bins' or 'marginals'")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        if self.use == "marginals":
            return Marginals().estimate(x, epsilon, meter)
        require_dense(x.shape)
        line = len(x.shape) == 1
        if self.use == "bins" and not line and self.edition == 3:
            return Haar(order="z").estimate(x, epsilon, meter)
        share = epsilon * SHARE
        counted = meter.laplace(x.total(), share, "number of records")
        rest = epsilon - share
        strength = np.asarray(counted.numbers[..., 0] * float(rest / x.l1), dtype=np.float64)
        if self.edition < 3:
            return self._chosen_before(x, strength, meter).estimate(x, rest, meter)
        if self.use == "bins" and not line:
            side = 1 << int(meter.branch(_doublings(strength, x.shape)))
            return Haar(side=side).with_total(x, counted, rest, meter)
        if self.use == "bins":
            thin = bool(meter.branch(strength < THIN_LINE * x.size))
            return (Haar(blocks=BLOCKS) if thin else Haar()).with_total(x, counted, rest, meter)
        if not line and self.edition > 3 and bool(meter.branch(strength < FEWEST_IN_TABLE)):
            side = max(1, round((x.size / FEW_BOXES) ** (1 / len(x.shape))))
            return Haar(side=side).with_total(x, counted, rest, meter)
        if bool(meter.branch(strength < (FEW_ON_LINE if line else min(FEW_IN_TABLE, FEW_PER_CELL * x.size)))):
            return (LINE_GRID if line else TABLE_GRID).with_total(x, counted, rest, meter)
        return (HB() if line else PSD()).estimate(x, rest, meter)

    def _chosen_before(self, x: Sealed, strength: NDArray[np.float64], meter: Meter) -> HistogramMechanism:
        """What editions 1 and 2 take."""
        line = len(x.shape) == 1
        if self.use == "bins":
            crowded = strength > (CROWDED_LINE if line else CROWDED_TABLE) * x.size
            if not bool(meter.branch(crowded)):
                return FilterPriority() if line and self.edition > 1 else DPCube()
            if not line:
                return NoiseFirst()
            return Haar() if self.edition > 1 else Haar("threshold")
        if bool(meter.branch(strength < FEW_ON_LINE)):
            return AdaptiveGrid()
        return HB() if line else PSD()


def _doublings(strength: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """How often the sides of a cell are doubled until a box holds ``PER_BOX``, 0 where records are not few.

    >>> _doublings(np.array([100.0, 1000.0, 5000.0]), (256, 256)).tolist()
    [4, 3, 0]
    """
    cells = math.prod(shape)
    boxes = np.maximum(strength, 1.0) / PER_BOX
    doubled = np.clip(np.rint(np.log2(cells / boxes) / len(shape)), 0, (max(shape) - 1).bit_length())
    return np.where(strength < THIN_TABLE * math.sqrt(cells), doubled, 0.0).astype(np.int64)
