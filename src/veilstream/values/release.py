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

    @property
    def covers(self) -> str:
        """What intervals hold: "value before noise", or "count" where a model publishes its own."""
        return self.law.covers

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Low and high ends that hold, with probability at least ``level``, the value before noise of each bin.

        Where ``covers`` says so they hold the true count of the step instead, as far as the model is right.
        """
        width = half_width(level, self.std, self.law, integer=self.values.dtype.kind == "i")
        exact = np.asarray(self.values, dtype=np.float64)
        return exact - width, exact + width
