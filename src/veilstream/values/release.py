"""A committed release: what anybody may read."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.values.boxes import Boxes
from veilstream.values.values import NoiseLaw, Numbers, Values, half_width

Payload: TypeAlias = Values | Boxes
"""What a release publishes: numbers by bin, or boxes of a domain too large to list."""


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """One committed release. Only the ledger makes these, after the transaction that holds them."""

    stream: str
    seq: int
    t: int
    payload: Payload = field(repr=False)
    spent: Fraction
    left: Fraction

    @property
    def values(self) -> Numbers:
        """The published numbers: one for each bin, or one for each box."""
        return self.payload.numbers if isinstance(self.payload, Values) else self.payload.values

    @property
    def std(self) -> float | NDArray[np.float64]:
        """The standard deviation of the noise: one for all numbers, or one for each."""
        return self.payload.std

    @property
    def law(self) -> NoiseLaw:
        """The law of the noise."""
        return self.payload.law if isinstance(self.payload, Values) else NoiseLaw.MIXED

    @property
    def fresh(self) -> bool:
        """Whether it was made of this step's data, and not repeated from an earlier step."""
        return self.payload.fresh if isinstance(self.payload, Values) else True

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
