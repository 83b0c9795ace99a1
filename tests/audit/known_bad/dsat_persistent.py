"""DSAT under w-event privacy with one secret threshold for ever (CIKM 2015, algorithm 3).

The secret ρ is drawn at the start and each of the endless windows is said to cost ε₁. But comparisons before
the window of interest tell ρ: a long history of which the public knows the distances shows how often they were
positive. Once ρ is known the threshold is public, and every one of the w comparisons of a window costs up to its own
ε₁/(2C); with negatives alone the loss should have been at most that of the secret, ε₁/(2C) too.

Pair. A history at a constant distance that is the same for both, and a pause without releases; then w steps in which
the person is farther from the release by Δ. Event: many positive comparisons in the history, and none in the window.

The printed constants Lap(2CΔ/ε₁) are kept for both noises, and the threshold has neither clamp nor controller, to show
this mistake alone. Releases are a fixed public histogram as in ``dsft_thesis``: all of ε is ε₁.
"""

from __future__ import annotations

import numpy as np

from .example import Floats, Generator, KnownBad, chance_above

EPSILON, RELEASES, WINDOW = 2.0, 1, 8
HISTORY = 400


def outputs(present: bool, trials: int, generator: Generator) -> Floats:
    """Releases in the history where none came in the window after it, else −1."""
    scale = 2 * RELEASES / EPSILON
    # Distances and the public threshold are equal in the history: a comparison is positive if ν ≥ ρ.
    secret = generator.laplace(scale=scale, size=trials)
    past, now = (chance_above(secret - moved, scale).astype(np.float32) for moved in (0.0, float(present)))
    recent = np.zeros((WINDOW - 1, trials), dtype=np.bool_)
    counted = np.zeros(trials, dtype=np.int8)
    releases = np.zeros((2, trials))
    for step in range(HISTORY + WINDOW):
        inside = step >= HISTORY
        if step == HISTORY:
            # A pause of w − 1 steps far under the threshold: what was released before no longer counts.
            recent[:], counted[:] = False, 0
        positive = (counted < RELEASES) & (generator.random(trials, dtype=np.float32) < (now if inside else past))
        counted += positive
        counted -= recent[step % (WINDOW - 1)]
        recent[step % (WINDOW - 1)] = positive
        releases[int(inside)] += positive
    return np.where(releases[1] == 0, releases[0], -1.0)[:, None]


DSAT_PERSISTENT = KnownBad(
    name="w-event DSAT, one secret for ever",
    mistake="earlier windows tell the secret; then every comparison costs",
    pair=f"after {HISTORY} equal steps and a pause, Δ farther from the release at {WINDOW} steps",
    claimed=EPSILON,
    loss=WINDOW * EPSILON / (2 * RELEASES),
    trials=150_000,
    deep=1_000_000,
    outputs=outputs,
)
