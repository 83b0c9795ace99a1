"""Forecasts of mechanisms whose fresh releases are all alike: one histogram for one epsilon."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction

from veilstream.mechanisms.protocols import HistogramMechanism, divided
from veilstream.mechanisms.streams.usefulness import Useful, mean_error, release_of_zeros, sum_bound
from veilstream.privacy.guarantee import Guarantee
from veilstream.values.values import Values


class PlainRelease(ABC):
    """What is known beforehand of every release that is made afresh.

    >>> from veilstream.mechanisms.streams import Sample, Uniform
    >>> [round(mechanism.expected_error(Guarantee(1, w=10), bins=4), 1) for mechanism in (Uniform(), Sample())]
    [10.0, 0.9]
    """

    __slots__ = ()
    histogram: HistogramMechanism

    @abstractmethod
    def epsilon_of_release(self, guarantee: Guarantee) -> Fraction:
        """What one fresh release costs."""

    def expected_error(self, guarantee: Guarantee, bins: int, max_contribution: int = 1) -> float:
        """Mean absolute noise per bin of a release."""
        return mean_error(self._release_of_zeros(guarantee, bins, max_contribution))

    def usefulness(
        self, guarantee: Guarantee, bins: int, sigma: float, query_bins: int = 1, max_contribution: int = 1
    ) -> Useful:
        """How far sums of bins may be off with probability at most ``sigma``."""
        values = self._release_of_zeros(guarantee, bins, max_contribution)
        return Useful(sigma, query_bins, sum_bound(values, query_bins, sigma))

    def _release_of_zeros(self, guarantee: Guarantee, bins: int, max_contribution: int) -> Values:
        used = divided(self, guarantee, bins)
        return release_of_zeros(self.histogram, used, self.epsilon_of_release(used), bins, max_contribution)
