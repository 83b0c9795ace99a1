"""A public number of points, however many people there are: whether one person is there changes one point."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError

MAX_PEOPLE: Final = 10**7


@dataclass(frozen=True, slots=True)
class Filling:
    """Makes ``people`` points of any number: places are filled at two opposite corners, or the last points left out.

    Of those filled in, ``lower`` is the part at the lower corner, the others are at the upper one, in an order that is
    public. With the part q the q-quantile stays where it is, whatever number is missing. Whoever is left out or put in
    changes one point at most (PROOF.md, "Points").

    >>> Filling(5).filled(np.array([[7], [8], [9]]), (10,)).ravel().tolist()
    [7, 8, 9, 10, 0]
    >>> Filling(2).filled(np.array([[7], [8], [9]]), (10,)).ravel().tolist()
    [7, 8]
    """

    people: int
    lower: Fraction = Fraction(1, 2)

    def __post_init__(self) -> None:
        if type(self.people) is not int or not 1 <= self.people <= MAX_PEOPLE:
            raise InvalidInputError(
                name="people", value=self.people, limit=f"a public whole number from 1 to {MAX_PEOPLE}"
            )

    def filled(self, exact: NDArray[np.int64], sides: tuple[int, ...]) -> NDArray[np.int64]:
        """The points that count, in whole coordinates from 0 to ``sides``."""
        missing = self.people - len(exact)
        if missing <= 0:
            return exact[: self.people]
        # Of the first i places ⌊i·lower⌋ are at the lower corner: where the next one is depends on its number alone.
        lower = np.diff(np.floor(np.arange(missing + 1) * float(self.lower))) > 0
        corners: NDArray[np.int64] = np.where(lower[:, None], 0, np.array(sides, dtype=np.int64))
        return np.concatenate([exact, corners])
