"""Filters of noisy series: public numbers in, public numbers out, so nothing here is charged."""

from veilstream.mechanisms.streams.filters.belief import Belief
from veilstream.mechanisms.streams.filters.kalman import KalmanBank
from veilstream.mechanisms.streams.filters.particle import ParticleCloud

__all__ = ["Belief", "KalmanBank", "ParticleCloud"]
