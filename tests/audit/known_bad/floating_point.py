"""Laplace noise from floating point: −b·sign·ln(u) added to the count in double precision (Mironov, CCS 2012).

ln(u) has 53 significant bits however small it is, so a noise below 1/2 has bits beyond 2⁻⁵³. A count of 0 leaves them:
the sum *is* the noise. A count of 1 pushes them out: 1 + noise is rounded to a multiple of 2⁻⁵³. An output that is
no such multiple cannot have come from 1.

Pair. A count of 0 and of 1. Event: the output has bits beyond 2⁻⁵³.
"""

from __future__ import annotations

import math

import numpy as np

from .example import Floats, Generator, KnownBad

EPSILON = 1.0


def outputs(present: bool, trials: int, generator: Generator) -> Floats:
    """The published number, and whether it is a multiple of 2⁻⁵³."""
    uniform = 1 - generator.random(trials)
    sign = np.where(generator.random(trials) < 0.5, -1.0, 1.0)
    published = present + sign * np.log(uniform) / EPSILON
    scaled = np.ldexp(published, 53)
    return np.column_stack([published, scaled == np.rint(scaled)])


FLOATING_POINT = KnownBad(
    name="Laplace in floating point",
    mistake="the least significant bits tell the count",
    pair="one count in one bin",
    claimed=EPSILON,
    loss=math.inf,
    trials=20_000,
    deep=1_000_000,
    outputs=outputs,
)
