"""A sampler that worker processes inherit or make, however they are started."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilstream.noise import SecureNoise

NOISE = SecureNoise()


def draw(count: int) -> NDArray[np.uint64]:
    return NOISE.uniform_words(count)
