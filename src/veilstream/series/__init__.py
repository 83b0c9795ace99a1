"""Whole series at once, and sums and averages of clipped values."""

from veilstream.series.clipped import ClippedValues, Totals
from veilstream.series.fourier import FourierSeries, from_coordinates

__all__ = ["ClippedValues", "FourierSeries", "Totals", "from_coordinates"]
