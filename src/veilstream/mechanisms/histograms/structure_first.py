"""Boundaries of buckets chosen privately first, then noise on each bucket."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.histograms.p_hp import publish_means
from veilstream.privacy.rationals import round_down
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.statistics import boundaries
from veilstream.values.values import Values

EDGES = 256
MOST_BUCKETS = 128


@dataclass(frozen=True, slots=True)
class StructureFirst:
    """Chooses the k − 1 boundaries of k buckets with ε₁, then publishes every bucket's mean with ε − ε₁.

    Dynamic programming gives the least cost of every beginning of the bins in 1..k buckets. Boundaries are
    then chosen from the last to the first, each by the exponential mechanism with ε₁/(k − 1) on −(least cost of the
    buckets before + cost of the bucket that it begins). The cost of a bucket is Σ|v − median|, so that one unit moves
    every score by at most l1. The sum of each bucket gets Lap(l1/ε₂) and is spread evenly.

    The paper's programme takes O(n²k). Here boundaries lie on at most 257 evenly spaced edges, all of them up to
    256 bins: O(n log n + 256²·k), and no bucket is narrower than n/256 bins. Use ``PHP`` or ``NoiseFirst`` for
    finer structure. ``buckets`` is k, 16 by default.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.histograms import Geometric
    >>> from veilstream.mechanisms.streams import Sample
    >>> steps = np.repeat([0, 900, 0, 300], 250)[None]
    >>> g = Guarantee("1/10", w=1)
    >>> error = {h: abs(simulate(Sample(h), g, steps, seed=1) - steps).mean() for h in (StructureFirst(), Geometric())}
    >>> bool(error[StructureFirst()] < error[Geometric()] / 2)
    True

    Xu, Zhang, Xiao, Yang, Yu, Winslett: Differentially private histogram publication, ICDE 2012, algorithm 3
    (StructureFirst). Corrected: the paper's Σ(v − mean)² moves by 2F + 1, where F is the largest count, a private
    number; Σ|v − median|, its own variant for absolute error, needs no such bound.
    """

    buckets: int | None = None
    structure: Fraction = Fraction(1, 2)
    batchable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.buckets is not None and (type(self.buckets) is not int or not 1 <= self.buckets <= MOST_BUCKETS):
            raise InvalidInputError(
                name="buckets", value=self.buckets, limit=f"a whole number from 1 to {MOST_BUCKETS}"
            )
        if not 0 < self.structure < 1:
            raise InvalidInputError(name="structure", value=self.structure, limit="a Fraction between 0 and 1")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        pieces = min(x.size, EDGES)
        buckets = min(16 if self.buckets is None else self.buckets, pieces)
        if buckets in (1, x.size):
            starts = np.arange(0, x.size, x.size // buckets, dtype=np.int64)
            return publish_means(x, starts, epsilon, meter)
        share = round_down(epsilon * self.structure / (buckets - 1))
        if share == 0:
            raise InvalidBudgetError(
                f"epsilon {epsilon} for {buckets} buckets of StructureFirst: a share is below 2^-30"
            )
        edges = np.arange(pieces + 1, dtype=np.int64) * x.size // pieces
        borders = boundaries(x, edges, buckets)
        chosen, end = [0], pieces
        for remaining in range(buckets, 1, -1):
            end = remaining - 1 + meter.select(borders.scores(remaining, end), share, "boundary")
            chosen.append(int(edges[end]))
        return publish_means(x, np.array(sorted(chosen), dtype=np.int64), epsilon - share * (buckets - 1), meter)
