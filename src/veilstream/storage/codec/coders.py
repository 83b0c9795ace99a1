"""The types beside dataclasses and plain values that a state may hold, and how each is taken apart."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, NamedTuple

from veilstream.trusted.block_noise import NoiseBlock
from veilstream.trusted.correlated import CorrelatedNoise
from veilstream.trusted.counts import Sealed
from veilstream.trusted.encoding import (
    correlated_from_plain,
    correlated_to_plain,
    noise_block_from_plain,
    noise_block_to_plain,
    running_from_plain,
    running_to_plain,
    sealed_from_plain,
    sealed_to_plain,
    threshold_from_plain,
    threshold_to_plain,
)
from veilstream.trusted.running import SealedRunning
from veilstream.trusted.threshold import SealedThreshold


class Coder(NamedTuple):
    """How a type becomes plain values (numbers, text, tuples, lists, dicts, arrays) and returns."""

    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]


def _from_fraction(x: Fraction) -> tuple[int, int]:
    return x.numerator, x.denominator


def _to_fraction(plain: tuple[int, int]) -> Fraction:
    return Fraction(*plain)


CODERS: Final[dict[type[Any], Coder]] = {
    Fraction: Coder(_from_fraction, _to_fraction),
    Sealed: Coder(sealed_to_plain, sealed_from_plain),
    SealedThreshold: Coder(threshold_to_plain, threshold_from_plain),
    NoiseBlock: Coder(noise_block_to_plain, noise_block_from_plain),
    SealedRunning: Coder(running_to_plain, running_from_plain),
    CorrelatedNoise: Coder(correlated_to_plain, correlated_from_plain),
}
