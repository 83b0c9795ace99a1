"""Stand-ins for the source of noise, for tests that ask what a mechanism does apart from its noise."""

from veilstream.mechanisms.no_noise import NoNoise

__all__ = ["NoNoise"]
