"""The inputs by number."""

from __future__ import annotations

from random import Random
from typing import Final

from fuzz.calls import any_call
from fuzz.case import Case
from fuzz.commands import any_command
from fuzz.damage import any_damage

SHARES: Final = ((0.93, any_call), (0.99, any_command), (1.0, any_damage))
"""Most inputs are calls, which take least time."""


def case_of(seed: int, number: int) -> Case:
    """The input of a number; the same for the same seed, on every machine.

    >>> case_of(1, 2) == case_of(1, 2)
    True
    """
    rng = Random(f"{seed}:{number}")
    drawn = rng.random()
    return next(make for share, make in SHARES if drawn <= share)(rng)
