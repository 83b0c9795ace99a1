"""Exact, fast, secure noise.

>>> SecureNoise().laplace(scale=10, size=3).shape
(3,)
"""

from veilstream.noise.sampler import ExactSampler, SecureNoise
from veilstream.noise.source import BitSource, SecureSource

__all__ = ["BitSource", "ExactSampler", "SecureNoise", "SecureSource"]
