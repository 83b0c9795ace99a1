"""When the presence c is chosen anew, what that costs, and which c a published histogram asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.presence_choice import Promise, presence_curve
from veilstream.privacy.rationals import Exact, rational


@dataclass(frozen=True, slots=True)
class Renewal:
    """When c is chosen anew, and what that costs.

    ``block`` is the number of steps in which a person is one unit, ``blocks`` how many of them share one c, ``first``
    the c of the first of them, which is public knowledge, and ``budget`` the ε of each choice. ``most`` is the largest
    number of visits in a block that is told apart.
    """

    block: int
    blocks: int
    first: int
    budget: Fraction
    most: int

    def __init__(self, block: int, blocks: int, first: int, budget: Exact = "1/10", most: int = 12) -> None:
        for name, number in (("block", block), ("blocks", blocks), ("first", first), ("most", most)):
            if type(number) is not int or number < 1:
                raise InvalidInputError(name=name, of="Renewal", value=number, limit="a whole number from 1")
        exact = rational(budget, "budget")
        if exact <= 0:
            raise InvalidInputError(name="budget", of="Renewal", value=str(exact), limit="above 0")
        for name, value in zip(self.__slots__, (block, blocks, first, exact, most), strict=True):
            object.__setattr__(self, name, value)

    def promise(self, epsilon: Exact) -> str:
        """What is promised to one person in all, in words.

        >>> Renewal(block=7, blocks=4, first=2).promise(1)
        'epsilon 11/10 for what one person contributes in one block of 7 steps: 1 for the releases and 1/10 for choosing
        in how many steps of a block a person counts'
        """
        return (
            f"epsilon {rational(epsilon, 'epsilon') + self.budget} for what one person contributes in one block of "
            f"{self.block} steps: {epsilon} for the releases and {self.budget} for choosing in how many steps of a "
            "block a person counts"
        )

    def chosen(self, visits: Sequence[float] | NDArray[Any], epsilon: Exact) -> int:
        """The c that a histogram of visits asks for: how many people came in 1, 2, … steps of a block, over an epoch.

        >>> Renewal(block=7, blocks=2, first=2).chosen([4000, 300, 8, 0], epsilon=1)
        2
        """
        of_a_block = (np.asarray(visits, dtype=np.float64) / self.blocks).tolist()
        curve = presence_curve(of_a_block, epsilon, steps=self.block, promise=Promise.BLOCK)
        return curve.best or self.block
