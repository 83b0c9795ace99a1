"""Scores of candidates, sealed like the data they come from."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.charge import Names, Span
from veilstream.trusted.opening import opened
from veilstream.trusted.sealed import Opaque

Integers: TypeAlias = NDArray[np.int64]


class Scores(Opaque[Integers]):
    """A whole-number score per candidate, of which one unit moves none by more than ``sensitivity`` per timestamp.

    ``one_sided``: one unit moves all scores the same way (all up or all down), so that half the noise is enough.
    """

    __slots__ = ("bins", "one_sided", "sensitivity", "span")
    contents: ClassVar[str] = "scores"

    def __init__(
        self,
        exact: Integers,
        span: Span,
        sensitivity: Fraction,
        *,
        one_sided: bool = False,
        bins: Names | None = None,
    ) -> None:
        super().__init__(exact)
        self.span = span
        self.sensitivity = sensitivity
        self.one_sided = one_sided
        self.bins = bins

    @property
    def size(self) -> int:
        return opened(self).size

    def __repr__(self) -> str:
        return f"Scores(size={self.size}, span={self.span}, sensitivity={self.sensitivity})"


class JointScores(Opaque[tuple[Integers, Integers | None]]):
    """Scores of several questions, of which one answer each is chosen, all at once.

    ``sizes`` says how many candidates each question has; their scores follow one another. ``lengths`` says how many
    successive candidates, all of one question, each score stands for; it is private, and by default 1.

    ``sensitivity`` bounds the sum over questions: if one unit moves the scores of question j by at most s_j, then
    Σ s_j ≤ sensitivity per timestamp, as happens when the questions ask about disjoint bins. Choosing each
    answer with probability ∝ exp(ε·score/(2·sensitivity)) is then one exponential mechanism over the tuples of
    answers, whose score is the sum, and costs ε once under any guarantee.
    """

    __slots__ = ("bins", "sensitivity", "sizes", "span")
    contents: ClassVar[str] = "scores"

    def __init__(
        self,
        exact: Integers,
        span: Span,
        sensitivity: Fraction,
        sizes: Integers,
        *,
        bins: Names | None = None,
        lengths: Integers | None = None,
    ) -> None:
        candidates = exact.size if lengths is None else int(lengths.sum())
        if sizes.size == 0 or int(sizes.min()) < 1 or int(sizes.sum()) != candidates:
            raise InvalidInputError(
                name="scores for",
                value=f"{sizes.size} questions",
                limit="each question must have at least 1 candidate, and each candidate a score",
            )
        super().__init__((exact, lengths))
        self.span = span
        self.sensitivity = sensitivity
        self.sizes = sizes
        self.bins = bins

    def __repr__(self) -> str:
        return f"JointScores(questions={self.sizes.size}, span={self.span}, sensitivity={self.sensitivity})"


def entries_of(scores: JointScores) -> Integers:
    """How many scores each question has: private where they stand for runs of candidates."""
    _, lengths = opened(scores)
    if lengths is None:
        return scores.sizes
    return np.diff(np.searchsorted(np.cumsum(lengths), np.cumsum(scores.sizes)) + 1, prepend=0)
