"""Budgets for successive steps, exact, with no window above its limit."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from veilstream.errors import InvalidInputError
from veilstream.privacy.rationals import GRID, Exact, rational


@dataclass(frozen=True, slots=True)
class Schedule:
    """``budgets`` of successive steps (repeated for ever if ``cyclic``), each a multiple of 2⁻³⁰.

    ``cost`` is Σ weight · error at these budgets (over one period), ``lower`` a proved lower bound on what any
    schedule can reach: ``gap`` is therefore at least the true relative distance from the optimum.
    """

    budgets: tuple[Fraction, ...]
    epsilon: Fraction
    window: int
    cyclic: bool
    cost: float
    lower: float

    @property
    def gap(self) -> float:
        return self.cost / self.lower - 1

    def at(self, step: int) -> Fraction:
        """The budget of a step, counted from 0."""
        return self.budgets[step % len(self.budgets) if self.cyclic else step]

    @property
    def fullest(self) -> Fraction:
        """What the fullest window costs, exactly."""
        return largest_window_sum(self.budgets, self.window, cyclic=self.cyclic)


def largest_window_sum(budgets: Sequence[Fraction], window: int, *, cyclic: bool = False) -> Fraction:
    """The largest sum of ``window`` successive budgets, exactly.

    >>> largest_window_sum([Fraction(1), Fraction(2), Fraction(3)], 2)
    Fraction(5, 1)
    >>> largest_window_sum([Fraction(1)], 5, cyclic=True)
    Fraction(5, 1)
    """
    whole, rest = divmod(window, len(budgets)) if cyclic else (0, window)
    # A window that crosses the seam of a cycle sees its beginning again.
    line = [*budgets, *budgets[: rest - 1]] if cyclic and rest else list(budgets) if rest else []
    most, running = Fraction(0), Fraction(0)
    for end, budget in enumerate(line):
        running += budget
        if end >= rest:
            running -= line[end - rest]
        most = max(most, running)
    return whole * sum(budgets, Fraction(0)) + most


def clip(units: Iterable[int], limit: int, window: int) -> list[int]:
    """``units``, lowered where needed so that no ``window`` successive ones pass ``limit``.

    Every window is looked at when its last step is placed, in whole numbers: what floating point proposed cannot break
    it.

    >>> clip([3, 3, 3, 3], limit=5, window=2)
    [3, 2, 3, 2]
    """
    clipped: list[int] = []
    recent: deque[int] = deque()
    running = 0
    for wanted in units:
        if len(recent) == window:
            running -= recent.popleft()
        unit = max(0, min(wanted, limit - running))
        running += unit
        recent.append(unit)
        clipped.append(unit)
    return clipped


def clip_cycle(units: Sequence[int], limit: int, window: int) -> list[int]:
    """One period whose endless repetition has no ``window`` successive units above ``limit``.

    All are scaled down by the same whole-number division until the fullest window fits.
    """
    clipped = list(units)
    while (most := largest_window_sum([Fraction(unit) for unit in clipped], window, cyclic=True)) > limit:
        clipped = [math.floor(unit * limit / most) for unit in clipped]
    return clipped


def exact_weights(weights: Sequence[Exact], name: str = "weights") -> tuple[Fraction, ...]:
    """Public weights as exact numbers; 0 says that nothing is published at that step."""
    exact = tuple(rational(weight, name) for weight in weights)
    if not any(exact):
        raise InvalidInputError(f"{name}: {len(exact)} of them and none above 0")
    for step, weight in enumerate(exact):
        if weight < 0:
            raise InvalidInputError(f"{name}[{step}] {weight}: at least 0 is needed")
    return exact


def whole_window(window: int) -> int:
    if type(window) is not int or window < 1:
        raise InvalidInputError(name="window", value=window, limit="a whole number of at least 1 is needed")
    return window


def in_units(epsilon: Fraction) -> int:
    """Whole multiples of 2⁻³⁰ within ``epsilon``."""
    return math.floor(epsilon * GRID)
