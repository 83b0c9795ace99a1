"""A committed release: what anybody may read."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.arguments import is_a
from veilstream.errors import InvalidInputError
from veilstream.values.boxes import Boxes
from veilstream.values.tables import html_table
from veilstream.values.values import NoiseLaw, Numbers, Values, half_width

Payload: TypeAlias = Values | Boxes
"""What a release publishes: numbers by bin, or boxes of a domain too large to list."""

SHOWN_BINS = 20
"""Bins of a release that a notebook shows."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release:
    """One committed release. Only the ledger makes these, after the transaction that holds them.

    >>> values = Values(np.array([310, 275, 12]), 14.1, NoiseLaw.LAPLACE)
    >>> Release("visits", 1, 0, values, Fraction(1, 24), Fraction(23, 24))
    Release('visits', t=0, [310 275  12] ± 14.1 (std), fresh, spent 1/24, left 23/24)
    """

    stream: str
    seq: int
    t: int
    payload: Payload = field(repr=False)
    spent: Fraction
    left: Fraction

    def __post_init__(self) -> None:
        if not is_a(self.payload, Values, Boxes):
            raise InvalidInputError(name="payload", limit="a release holds Values or Boxes")

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

        Where ``covers`` says so they hold the true count of the step instead, as far as the model is right. Of a value
        that is not ``fresh`` they are those of the step that it repeats: what has changed since is not in them.
        """
        width = half_width(level, self.std, self.law, integer=self.values.dtype.kind == "i")
        exact = np.asarray(self.values, dtype=np.float64)
        return exact - width, exact + width

    def __repr__(self) -> str:
        numbers = np.array2string(np.asarray(self.values), threshold=8, edgeitems=3, precision=4)
        kind = "fresh" if self.fresh else "repeated"
        return (
            f"Release({self.stream!r}, t={self.t}, {numbers} ± {float(np.mean(self.std)):.3g} (std), {kind}, "
            f"spent {self.spent}, left {self.left})"
        )

    def _repr_html_(self) -> str:
        low, high = self.interval()
        columns = {"bin": range(len(self.values)), "value": self.values, "low": low, "high": high}
        kind = "fresh" if self.fresh else "repeated, intervals as of its last fresh step"
        held = f"intervals hold the {self.covers} at 95 %"
        caption = f"{self.stream}, step {self.t}: {kind}, spent {self.spent}, left {self.left}; {held}"
        return html_table(caption, columns, most=SHOWN_BINS)
