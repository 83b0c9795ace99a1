"""Scores of candidates, sealed like the data they come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.charge import Names, Span


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A whole-number score per candidate, of which one unit moves none by more than ``sensitivity`` per timestamp.

    ``one_sided``: one unit moves all scores the same way (all up or all down), so that half the noise is enough.
    """

    span: Span
    sensitivity: Fraction
    one_sided: bool = False
    bins: Names | None = None
    _exact: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)

    @property
    def size(self) -> int:
        return self._exact.size


@dataclass(frozen=True, slots=True, eq=False)
class JointScores:
    """Scores of several questions, of which one answer each is chosen, all at once.

    ``sensitivity`` bounds the sum over questions: if one unit moves the scores of question j by at most s_j, then
    Σ s_j ≤ sensitivity per timestamp, as happens when the questions ask about disjoint bins. Choosing each
    answer with probability ∝ exp(ε·score/(2·sensitivity)) is then one exponential mechanism over the tuples of
    answers, whose score is the sum, and costs ε once under any guarantee.
    """

    span: Span
    sensitivity: Fraction
    sizes: NDArray[np.int64]
    """How many candidates each question has; their scores follow one another."""
    bins: Names | None = None
    _exact: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    _lengths: NDArray[np.int64] | None = field(default=None, repr=False)
    """How many successive candidates, all of one question, each score stands for; private, by default 1."""

    def __post_init__(self) -> None:
        candidates = self._exact.size if self._lengths is None else int(self._lengths.sum())
        if self.sizes.size == 0 or int(self.sizes.min()) < 1 or int(self.sizes.sum()) != candidates:
            raise InvalidInputError(
                f"scores for {self.sizes.size} questions of {self.sizes.sum()} candidates: each question must "
                "have at least 1, and each candidate a score"
            )

    @property
    def _entries(self) -> NDArray[np.int64]:
        """How many scores each question has: private where they stand for runs."""
        if self._lengths is None:
            return self.sizes
        return np.diff(np.searchsorted(np.cumsum(self._lengths), np.cumsum(self.sizes)) + 1, prepend=0)
