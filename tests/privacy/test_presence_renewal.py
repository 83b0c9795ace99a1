"""What a change of c costs one unit, by enumeration of all patterns of presence: PROOF_presence.md, "Renewing c"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import pytest

STEPS = 9
Pattern = tuple[bool, ...]


def counted(present: Pattern, presences: Sequence[int], since: Sequence[int]) -> set[int]:
    """Steps with fewer than c_t presences since the step that the rule looks back at."""
    return {t for t, here in enumerate(present) if here and sum(present[since[t] : t]) < presences[t]}


def neighbours(spans: Sequence[range]) -> Iterator[tuple[Pattern, Pattern]]:
    """All patterns, and the same without all that is in one of the spans."""
    for present in product((False, True), repeat=STEPS):
        for span in spans:
            yield present, tuple(here and t not in span for t, here in enumerate(present))


def dearest(
    presences: Sequence[int], since: Sequence[int], spans: Sequence[range], prices: Sequence[Fraction]
) -> Fraction:
    """The most that the steps in which neighbours differ cost."""
    return max(
        sum((prices[t] for t in counted(one, presences, since) ^ counted(two, presences, since)), Fraction(0))
        for one, two in neighbours(spans)
    )


def windows(w: int) -> tuple[list[int], list[range]]:
    spans = [range(first, last + 1) for first in range(STEPS) for last in range(first, min(STEPS, first + w))]
    return [max(0, t - w + 1) for t in range(STEPS)], spans


@pytest.mark.parametrize(("before", "after"), [(1, 3), (2, 1), (3, 2)])
def test_blocks_cost_the_same_whatever_is_chosen_for_the_next_ones(before: int, after: int) -> None:
    presences = [before] * 3 + [after] * 6
    blocks = [range(first, first + 3) for first in range(0, STEPS, 3)]
    cost = dearest(presences, [t - t % 3 for t in range(STEPS)], blocks, [Fraction(1, c) for c in presences])
    assert cost == 1


@pytest.mark.parametrize(("before", "after", "change"), [(2, 1, 3), (2, 1, 5), (3, 1, 4)])
@pytest.mark.parametrize("w", [3, 5])
def test_in_windows_c_may_fall_at_any_step(before: int, after: int, change: int, w: int) -> None:
    presences = [before] * change + [after] * (STEPS - change)
    assert dearest(presences, *windows(w), [Fraction(1, 2 * c) for c in presences]) <= 1


def test_in_windows_a_c_that_rises_costs_more_unless_the_steps_before_pay_for_it() -> None:
    w, change, before, after = 3, 5, 1, 2
    presences = [before] * change + [after] * (STEPS - change)
    at_once = [Fraction(1, 2 * c) for c in presences]
    assert dearest(presences, *windows(w), at_once) == (3 - Fraction(before, after)) / 2
    announced = [Fraction(1, 2 * (after if t > change - 2 * w + 1 else before)) for t in range(STEPS)]
    assert dearest(presences, *windows(w), announced) <= 1


def test_for_ever_c_may_fall_and_not_rise() -> None:
    since, everything = [0] * STEPS, [range(STEPS)]
    falls, rises = [3] * 4 + [2] * 5, [2] * 4 + [3] * 5
    assert dearest(falls, since, everything, [Fraction(1, c) for c in falls]) == 1
    assert dearest(rises, since, everything, [Fraction(1, c) for c in rises]) > 1
