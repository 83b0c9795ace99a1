"""People over long times through the real bounding: what neighbouring data move, and what that loses.

``python -m tests.privacy.far_people SEED`` shows again what failed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tests.privacy.far_books import STEPS, book_of
from veilstream.audit.exact.dice import Dice
from veilstream.data.bounding.presence import PresenceHistory
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import Cost, Population
from veilstream.privacy.population_time import TimeGrid
from veilstream.testing.simulation import SeededSource

PEOPLE = 120
Steps = NDArray[np.bool_]
"""[person, step]."""


def counted(present: Steps, guarantee: Guarantee) -> Steps:
    """In which steps these people count."""
    history, found = PresenceHistory(guarantee, bytes(16)), np.zeros_like(present)
    for step in range(present.shape[1]):
        people = np.flatnonzero(present[:, step])
        if people.size:
            names = people.astype(np.uint64)
            found[people, step] = history.people_counted(names, names, step)
    return found


def visits(dice: Dice, rhythm: int, few: int, begins: Sequence[int]) -> Steps:
    """Some come nearly always, some seldom, some at a rhythm of about a window, some about the ends of what goes."""
    words = SeededSource((dice.below(1 << 53),)).words(PEOPLE * STEPS).reshape(PEOPLE, STEPS)
    often = np.array([dice.choice([5, 20, 50, 90, 100]) for _ in range(PEOPLE)])
    present: Steps = (words >> np.uint64(11)) % np.uint64(100) < often[:, None].astype(np.uint64)
    for row in present[::3]:
        row[:] = False
        row[dice.below(STEPS) :: max(1, rhythm + dice.choice([-1, -1, 0, 1]))] = True
    for row, begin in zip(present[1::3], begins[1::3], strict=True):
        row[:] = False
        for first in (begin, begin + rhythm - few, begin + rhythm):
            moved_by = dice.choice([0, 0, 0, -1, 1])
            row[max(0, first + moved_by) : max(0, first + moved_by + few)] = True
    return present


@dataclass
class Batch:
    """People under a guarantee, whose neighbours lack the rows that are ``gone``, and what was charged."""

    guarantee: Guarantee
    present: Steps
    gone: Steps
    charges: Sequence[Charge] = ()
    moved: Steps = field(init=False)
    """The steps in which each person's neighbour counts otherwise."""

    def __post_init__(self) -> None:
        both = counted(np.concatenate([self.present, self.present & ~self.gone]), self.guarantee)
        self.moved = both[:PEOPLE] ^ both[PEOPLE:]

    @property
    def most(self) -> int:
        """How many steps the neighbour of one person moves."""
        return int(self.moved.sum(axis=1).max())

    @property
    def lost(self) -> list[Fraction]:
        """The pure epsilon that each person loses."""
        totals = [Fraction(0)] * PEOPLE
        for charge in self.charges:
            hit = self.moved[:, max(0, charge.span.first) : max(0, charge.span.last + 1)].any(axis=1)
            for person in np.flatnonzero(hit):
                totals[person] += charge.epsilon
        return totals

    def __str__(self) -> str:
        lost, steps = self.lost, self.moved.sum(axis=1)
        lines = [str(self.guarantee), *[f"  {charge.epsilon} of {charge.span}" for charge in self.charges]]
        for person in {int(steps.argmax()), lost.index(max(lost))}:
            lines.append(f"person {person} loses {lost[person]} and moves {steps[person]} steps")
            for name, row in (("present", self.present), ("gone", self.gone), ("moved", self.moved)):
                lines.append(f"  {name} in {np.flatnonzero(row[person]).tolist()}")
        return "\n".join(lines)


def units(seed: int) -> Batch:
    """Each person lacks all rows of one unit: a window, a block, or all of them."""
    dice = Dice(seed)
    while (book := book_of(dice.below(1 << 32))).guarantee.rule is None or book.per_timestamp:
        pass
    guarantee, steps = book.guarantee, np.arange(STEPS)
    begins = [dice.below(STEPS) for _ in range(PEOPLE)]
    begin = np.array(begins)[:, None]
    if guarantee.per is not None:
        numbers = np.array([guarantee.per.block_of(t) for t in range(STEPS)])
        gone = numbers == numbers[begin]
    else:
        gone = (steps >= begin) & (steps < begin + guarantee.w) if guarantee.w else np.ones((PEOPLE, STEPS), np.bool_)
    present = visits(dice, guarantee.w or 3, guarantee.presence or 1, begins)
    charges = [charge for charge in book.admitted() if charge.block is None and charge.epsilon]
    return Batch(guarantee, present, gone, charges)


def unit_losses(seed: int) -> tuple[Fraction, int]:
    """What one unit loses: of a book of charges, as a share of its epsilon, and in steps beyond those it may reach."""
    batch = units(seed)
    assert batch.guarantee.reach is not None
    return max(batch.lost) / batch.guarantee.pure, batch.most - batch.guarantee.reach


def in_windows(seed: int) -> tuple[Batch, Cost]:
    """Each person lacks all rows of one window of a population; what is reserved for such a window."""
    dice = Dice(seed)
    few, w = dice.between(1, 3), dice.between(7, 25)
    guarantee = dice.choice(
        [
            Guarantee(1, w=None, presence=few, delta="1/100"),
            Guarantee(1, per=w, presence=few, delta="1/100"),
            Guarantee(1, w=w, presence=few, delta="1/100"),
        ]
    )
    cell, step, offset = dice.between(1, 5), dice.between(1, 5), dice.between(-3, 3)
    population = Population("p", 1000, window=dice.between(1, 20), every=cell, delta="1/100")
    grid, calendar, cells = population.grid, TimeGrid(str(offset), str(step)), population.guarantee.w
    assert grid is not None
    assert cells is not None
    gone = np.zeros((PEOPLE, STEPS), dtype=np.bool_)
    begins: list[int] = []
    for row in gone:
        begin = dice.between(-2, STEPS * step // cell)
        first, last = calendar.cell_of(grid.border(begin)), calendar.cell_of(grid.border(begin + cells) - 1)
        row[max(0, first) : max(0, last + 1)] = True
        begins.append(first)
    batch = Batch(guarantee, visits(dice, w, few, begins), gone)
    return batch, population.reserved_cost(guarantee, calendar)


def population_losses(seed: int) -> tuple[Fraction, Fraction]:
    """What a window of a population loses of its reserved share, where nothing is left: pure, and μ².

    The stream publishes every step with 1/reach of its epsilon, or adds Gaussian noise to one sum over all steps.
    """
    batch, reserved = in_windows(seed)
    assert batch.guarantee.reach is not None
    share = Fraction(batch.most, batch.guarantee.reach)
    return batch.guarantee.pure * share / reserved.pure, batch.guarantee.mu_squared * share**2 / reserved.mu_squared


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        shown, reserved_share = in_windows(int(argument))
        print("units:", units(int(argument)), "windows:", shown, f"reserved: {reserved_share}", sep="\n")
