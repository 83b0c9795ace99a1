"""What the tests of adaptive streams share: hard streams, and a walk that keeps every charge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.protocols import accountant_for
from veilstream.noise import ExactSampler
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.windows import fullest_window
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values

BINS = 6


def hard_streams(steps: int) -> dict[str, NDArray[np.int64]]:
    """Constant, alternating, bursts, zeros, and steps that grow."""
    t, b = np.mgrid[0:steps, 0:BINS]
    return {
        "zeros": np.zeros((steps, BINS), dtype=np.int64),
        "constant": np.full((steps, BINS), 300, dtype=np.int64),
        "alternating": np.where(t % 2 == 0, 10**7, 0).astype(np.int64),
        "bursts": np.where((t % 17 < 4) & (b < 3), 10**6 * (1 + t), 5).astype(np.int64),
        "growing": (10**5 * t * t + b).astype(np.int64),
    }


@dataclass
class Walk:
    values: list[Values] = field(default_factory=list[Values])
    charges: list[list[Charge]] = field(default_factory=list[list[Charge]])
    states: list[Any] = field(default_factory=list[Any])

    @property
    def fresh(self) -> list[int]:
        return [t for t, values in enumerate(self.values) if values.fresh]

    def fullest(self, w: int | None) -> Any:
        return fullest_window([charge for step in self.charges for charge in step], w, BINS)[0]


def walk(mechanism: Any, guarantee: Guarantee, stream: NDArray[np.int64], seed: int = 5, first: int = 0) -> Walk:
    accountant = accountant_for(mechanism, guarantee, stream.shape[1])
    noise = ExactSampler(SeededSource(seed))
    state = mechanism.start(guarantee, stream.shape[1])
    result = Walk()
    for t, counts in enumerate(stream, start=first):
        meter = Meter(accountant, noise, t)
        state, values = mechanism.step(state, seal(counts, t), meter)
        result.values.append(values)
        result.charges.append(meter.charges)
        result.states.append(state)
    return result
