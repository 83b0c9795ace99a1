"""A public hash of numbers: it spreads them evenly, and anybody can compute it."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

GOLDEN_GAMMA: Final = 0x9E3779B97F4A7C15
"""The increment of splitmix64: 2⁶⁴ divided by the golden ratio, made odd."""


def splitmix64(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of splitmix64 (Steele, Lea and Flood, OOPSLA 2014), a bijection of 64-bit words.

    >>> [hex(word) for word in splitmix64(np.array([0, GOLDEN_GAMMA], dtype=np.uint64)).tolist()]
    ['0x0', '0xe220a8397b1dcdaf']
    """
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
