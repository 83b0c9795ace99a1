"""Numbers that change from step to step: what was known of them, brought up to date by a noisy measurement."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
MEMORY: Final = 0.8
"""Weight of what was known of a table's drift before, beside what the present step shows."""
JUMP: Final = 6.0
"""Standard deviations by which a change must stand out of noise to be followed at once; of squared Laplace noise."""
EVEN: Final = 0.1
"""Share of a drift that is spread evenly over all numbers: those that are expected to be 0 change too."""
SMALLEST: Final = 1e-18


def followed(
    last: Reals,
    variance: float,
    now: Reals,
    noise: float,
    drift: float,
    memory: float = MEMORY,
    expected: Reals | None = None,
) -> tuple[Reals, float, float]:
    """The estimate of changing numbers after a new measurement with ``noise`` (a variance), its variance, the drift.

    The squared differences between a measurement and the last estimate are the variance of that, the noise of the one
    and the drift between: the last of the three is what is left, averaged over steps. A jump, which stands out of what
    noise makes of so many numbers, is followed at once; so is whatever changed, if no drift is known yet (NaN).

    Large counts change by more rows than small ones: the drift is spread over the numbers in proportion to what is
    ``expected`` of each, so that large ones follow the measurement and small ones are averaged over many steps.

    >>> followed(np.array([10.0, 20.0]), 1.0, np.array([12.0, 20.0]), 1.0, drift=0.0)
    (array([11., 20.]), 0.5, 0.0)
    """
    shown = float(np.square(now - last).mean()) - variance - noise
    drift = shown if math.isnan(drift) else memory * drift + (1 - memory) * shown
    jump = shown > JUMP * (variance + noise) * math.sqrt(5 / now.size)
    moved = max(drift, shown if jump else 0.0, 0.0)
    prior = variance + moved * (np.ones_like(now) if expected is None else _spread(expected))
    gain = prior / np.maximum(prior + noise, SMALLEST)
    return last + gain * (now - last), max(float(gain.mean()) * noise, SMALLEST), drift


def _spread(expected: Reals) -> Reals:
    """In proportion to what is expected, but for a part that is even; 1 on average."""
    counts = np.maximum(expected, 0.0)
    mean = float(counts.mean())
    return np.ones_like(counts) if mean <= 0 else EVEN + (1 - EVEN) * counts / mean


def growth(before: float, now: float, noise: float) -> float:
    """By what factor a total has grown since the last step, as far as that stands out of ``noise`` (a variance).

    >>> growth(1000.0, 1010.0, noise=400.0), round(growth(1000.0, 500.0, noise=400.0), 3)
    (1.0, 0.501)
    """
    change = now - before
    if before < 1 or change == 0:
        return 1.0
    return max(1 + max(1 - noise / change**2, 0.0) * change / before, 0.0)
