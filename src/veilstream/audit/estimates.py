"""Many runs of one estimate: together as long as they decide alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.forks import FEWEST, Asked, answers
from veilstream.audit.pool import PooledNoise
from veilstream.audit.runs import Seed
from veilstream.trusted.meter import NoiseSource

Estimate: TypeAlias = Callable[[NoiseSource, int], NDArray[Any]]
"""Numbers of so many runs, drawn from a source by a ForkingMeter; one row for all where they are the same."""


def estimates(estimate: Estimate, trials: int, seed: Seed) -> NDArray[np.float64]:
    """One row a trial; runs that the Meter's choices part are asked again, each part with the draws that it had."""

    def ask(asked: Asked) -> NDArray[Any]:
        numbers = np.atleast_2d(estimate(asked.tape, asked.rows.size))
        return np.broadcast_to(numbers, (asked.rows.size, numbers.shape[-1]))

    parts = list(answers(ask, max(trials, FEWEST), trials, FEWEST, PooledNoise(seed)))
    outputs = np.empty((trials, parts[0][1].shape[-1]))
    for asked, numbers in parts:
        outputs[asked.rows[: asked.real]] = numbers[: asked.real]
    return outputs
