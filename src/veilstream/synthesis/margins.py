"""Private margins: one histogram per attribute, made consistent with one another."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows
from veilstream.values.projection import onto_simplex


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """Published, hence public, histograms that all sum to ``total``, and the noise of each."""

    counts: tuple[NDArray[np.float64], ...]
    total: float
    std: tuple[float, ...]

    def probabilities(self) -> tuple[NDArray[np.float64], ...]:
        """Each margin as probabilities; evenly spread where nothing is known."""
        return tuple(shares(counts) for counts in self.counts)


def private_margins(
    rows: SealedRows, total: float, histogram: HistogramMechanism, epsilon: Fraction, meter: Meter
) -> Margins:
    """The margin of every attribute for ``epsilon`` in all, projected on counts ≥ 0 with the published ``total``."""
    share = epsilon / len(rows.shape)
    noisy = [histogram.estimate(rows.margin(axis), share, meter) for axis in range(len(rows.shape))]
    deviations = tuple(float(np.sqrt(np.mean(np.square(values.std)))) for values in noisy)
    counts = tuple(onto_simplex(np.asarray(values.numbers, dtype=np.float64), total) for values in noisy)
    return Margins(counts, total, deviations)


def shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Counts as probabilities; evenly spread where there are none.

    >>> shares(np.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    total = counts.sum()
    return counts / total if total > 0 else np.full(counts.size, 1 / counts.size)
