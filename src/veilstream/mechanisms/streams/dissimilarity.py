"""What BudgetDistribution and BudgetAbsorption share: parameters, and noisy mean distances to the last release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms.geometric import Geometric
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.mechanisms.streams import horizons
from veilstream.mechanisms.streams.usefulness import Useful, mean_error, release_of_zeros, sum_bound
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw, Values


@dataclass(frozen=True, slots=True)
class ByDissimilarity(ABC):
    """Parameters of a stream that pays for a noisy distance at every step (see ``BudgetDistribution``)."""

    histogram: HistogramMechanism = field(default_factory=Geometric)
    horizon: int | None = None
    columns: int = 1
    batchable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        horizons.whole(self.horizon, "horizon", self)
        horizons.whole(self.columns, "columns", self)

    @abstractmethod
    def best_release(self, guarantee: Guarantee) -> Fraction:
        """The most that one release can cost."""

    def check(self, guarantee: Guarantee, bins: int) -> None:
        """Refuse a guarantee without an end to its horizon, and more parts than bins."""
        horizons.share(guarantee, self.horizon, 1, self)
        if self.columns > bins:
            raise InvalidInputError(
                f"columns {self.columns} of {type(self).__name__}: the stream has {bins} bins, and every part needs one"
            )

    def expected_error(self, guarantee: Guarantee, bins: int, max_contribution: int = 1) -> float:
        """Mean absolute noise per bin of a release at its best."""
        return mean_error(self._rehearsed(guarantee, bins, max_contribution))

    def usefulness(
        self, guarantee: Guarantee, bins: int, sigma: float, query_bins: int = 1, max_contribution: int = 1
    ) -> Useful:
        """How far sums of bins of such a release may be off with probability at most ``sigma``."""
        return Useful(
            sigma, query_bins, sum_bound(self._rehearsed(guarantee, bins, max_contribution), query_bins, sigma)
        )

    def _rehearsed(self, guarantee: Guarantee, bins: int, max_contribution: int) -> Values:
        return release_of_zeros(self.histogram, guarantee, self.best_release(guarantee), bins, max_contribution)


def changed_columns(
    now: Sealed, last: Values, columns: int, epsilon: Fraction, error: float, meter: Meter
) -> NDArray[np.bool_]:
    """Bins of the parts whose noisy mean distance to the last release is above ``error``.

    All distances together move by at most l1 when one unit does, so one charge pays for all of them.
    """
    if last.numbers.dtype.kind == "f":
        # Distances to whole numbers have noise on a coarser grid: runs with such a release part from the others.
        meter.branch(np.asarray((last.numbers == np.rint(last.numbers)).all(axis=-1)))
    starts = np.arange(columns, dtype=np.int64) * now.size // columns
    distances = now.distance(last.numbers) if columns == 1 else now.distances(last.numbers, starts)
    sizes = np.diff(starts, append=now.size)
    noisy = meter.laplace(distances, epsilon, "dissimilarity").numbers
    return np.repeat(meter.branch(noisy > error * sizes), sizes)


def publish_columns(
    histogram: HistogramMechanism,
    now: Sealed,
    last: Values | None,
    bins: NDArray[np.bool_],
    epsilon: Fraction,
    meter: Meter,
) -> Values:
    """The chosen ``bins`` anew, the others as they were; one charge, for they are read at one timestamp together."""
    if last is None or bins.all():
        return histogram.estimate(now, epsilon, meter)
    part = histogram.estimate(now.select(np.flatnonzero(bins)), epsilon, meter)
    numbers = last.numbers.astype(np.result_type(last.numbers, part.numbers))
    numbers[..., bins] = part.numbers
    std = np.array(np.broadcast_to(last.std, numbers.shape), dtype=np.float64)
    std[..., bins] = part.std
    return replace(part, numbers=numbers, std=std, law=part.law if part.law is last.law else NoiseLaw.MIXED)
