"""Isolation of rows: what rows of one person do to everybody else's, through every door by which rows come in.

A door turns rows into counts. A case is three inputs of one door: everybody else's rows, the same rows with those of
one hostile person among them, and the hostile rows alone. The check asks with noise out of the way that

* everybody else's counts are the same to the number: what the person adds is never negative, and where a format lets
  the person's rows mean the same alone, it is what they give alone;
* the person moves no step by more than its seal says;
* all else that the outside sees is the same to the byte.

To add a door, write a ``Door`` and put it into a list that a test runs ``check`` over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.errors import VeilstreamError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seen:
    """What came out: exact counts (steps × numbers), how far a seal says that one person moves a step, and all else
    that the outside sees, without the numbers."""

    counts: NDArray[np.int64]
    movement: Fraction
    public: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Case(Generic[T]):
    """``others`` alone, the same with one person's hostile rows among them, and these alone (None: not compared).

    ``whole`` says that the format lets these rows spoil the whole input, which must then be refused or isolated.
    """

    others: T
    both: T
    alone: T | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Door(Generic[T]):
    """How inputs are drawn and how they become counts; ``examples`` of each are tried in a short run."""

    name: str
    cases: st.SearchStrategy[Case[T]]
    run: Callable[[T, Path], Seen]
    examples: int = 40


def check(door: Door[Any], case: Case[Any], folder: Path) -> None:
    """Assert that the hostile rows of the case reach nobody else."""
    others = door.run(case.others, folder)
    try:
        both = door.run(case.both, folder)
    except VeilstreamError:
        # Refused before anything was counted; the documentation lists why.
        assert case.whole, f"{door.name}: rows of one person refuse everybody's"
        return
    gained = both.counts - others.counts
    assert (gained >= 0).all(), f"{door.name}: somebody else's counts are lost"
    moved = Fraction(int(np.abs(gained).sum(axis=1).max(initial=0)))
    assert moved <= both.movement, f"{door.name}: one person moves a step by {moved}, sealed is {both.movement}"
    assert both.movement == others.movement, f"{door.name}: the seal tells that somebody was there"
    assert both.public == others.public, f"{door.name}: the outside sees that somebody was there"
    if case.alone is not None and not case.whole:
        alone = door.run(case.alone, folder)
        assert (alone.counts == gained).all(), f"{door.name}: somebody else's rows decide about one person's"
