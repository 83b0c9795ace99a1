"""Scores of candidates, sealed like the data they come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.types import Span


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A whole-number score per candidate, of which one unit moves none by more than ``sensitivity`` per timestamp.

    ``one_sided``: one unit moves all scores the same way (all up or all down), so that half the noise is enough.
    """

    span: Span
    sensitivity: Fraction
    one_sided: bool = False
    bins: NDArray[np.int64] | None = None
    _exact: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)

    @property
    def size(self) -> int:
        return self._exact.size
