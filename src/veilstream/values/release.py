"""A committed release: what anybody may read."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.values.values import NoiseLaw, Numbers, half_width


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """One committed release. Only the ledger makes these, after the transaction that holds them."""

    stream: str
    seq: int
    t: int
    values: Numbers = field(repr=False)
    std: float | NDArray[np.float64] = field(repr=False)
    law: NoiseLaw
    fresh: bool
    spent: Fraction
    left: Fraction

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Low and high ends that hold the value before noise with probability at least ``level``, bin by bin."""
        width = half_width(level, self.std, self.law, integer=self.values.dtype.kind == "i")
        exact = np.asarray(self.values, dtype=np.float64)
        return exact - width, exact + width
