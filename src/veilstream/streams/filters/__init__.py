"""Filters of noisy series: public numbers in, public numbers out, so nothing here is charged."""

from veilstream.streams.filters.belief import Belief
from veilstream.streams.filters.kalman import KalmanBank
from veilstream.streams.filters.particle import ParticleCloud

__all__ = ["Belief", "KalmanBank", "ParticleCloud"]
