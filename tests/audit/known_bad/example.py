"""What a known-bad example is: a mechanism as somebody printed it, a pair of neighbours, and what was claimed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.attack import Claim
from veilstream.audit.runs import Seed

Generator: TypeAlias = np.random.Generator  # noqa: TID251 (known-bad mechanisms draw in floating point, as printed)
Floats: TypeAlias = NDArray[np.float64]
Outputs: TypeAlias = Callable[[bool, int, Generator], Floats]


@dataclass(frozen=True, slots=True)
class KnownBad:
    """``outputs(present, trials, generator)`` gives trials × features of what is published with or without a person.

    ``loss`` is the largest privacy loss on this pair by calculation (infinite where an output rules a neighbour out),
    ``trials`` a number per side with which the auditor sees more than ``claimed``, and ``deep`` one for long runs.
    """

    name: str
    mistake: str
    pair: str
    claimed: float
    loss: float
    trials: int
    deep: int
    outputs: Outputs = field(repr=False)

    def claim(self) -> Claim:
        """What its authors promise of it, for the auditor to refute."""

        def draw(present: bool, trials: int, seed: Seed) -> Floats:
            return self.outputs(present, trials, generator(*np.atleast_1d(seed).tolist(), present))

        return Claim(f"{self.name}: {self.pair}", Fraction(self.claimed), draw)


def generator(*seed: int) -> Generator:
    """A seeded source for examples alone."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))  # noqa: TID251 (as above)


def laplace_ratio(noisy: Floats, exact: Floats | float, scale: float) -> Floats:
    """ln(density at ``noisy`` around ``exact`` + 1 / around ``exact``) of Laplace noise: what one sample tells."""
    found: Floats = (2 * np.clip(noisy - exact, 0, 1) - 1) / scale
    return found


def chance_above(gap: Floats | float, scale: float) -> Floats:
    """P(noise > gap) of Laplace noise."""
    tail = 0.5 * np.exp(-np.abs(gap) / scale)
    return np.where(np.asarray(gap) >= 0, tail, 1 - tail)
