"""Model-based release: all that noisy looks tell about counts, and a schedule of looks that follows from it."""

from veilstream.mechanisms.streams.model.mechanism import ModelBased
from veilstream.mechanisms.streams.model.periods import calendar_periods

__all__ = ["ModelBased", "calendar_periods"]
