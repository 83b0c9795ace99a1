"""In how many steps neighbouring data differ under each rule of presence, by enumeration of all patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product

import pytest

from veilstream.privacy.presence import Anywhere, InBlock, Rule, Sliding
from veilstream.privacy.presence_blocks import Blocks

STEPS = 9
Pattern = tuple[bool, ...]
Counted = Callable[[Pattern], set[int]]


def patterns(steps: int = STEPS) -> Iterator[Pattern]:
    return product((False, True), repeat=steps)


def sliding(c: int, w: int) -> Counted:
    """Counts at a step before which there were fewer than c presences in the last w−1."""
    return lambda present: {t for t, here in enumerate(present) if here and sum(present[max(0, t - w + 1) : t]) < c}


def first_of_block(c: int, length: int) -> Counted:
    return lambda present: {t for t, here in enumerate(present) if here and sum(present[t - t % length : t]) < c}


def counted_before(c: int, w: int) -> Counted:
    """The tempting rule that is wrong: fewer than c *counted* steps among the last w−1."""

    def rule(present: Pattern) -> set[int]:
        found: set[int] = set()
        for t, here in enumerate(present):
            if here and sum(t - w < s for s in found) < c:
                found.add(t)
        return found

    return rule


def without(present: Pattern, first: int, last: int) -> Pattern:
    return tuple(here and not first <= t <= last for t, here in enumerate(present))


def differences(rule: Counted, w: int, steps: int = STEPS) -> set[frozenset[int]]:
    """The steps that differ when all that a person does in at most w successive steps goes."""
    found: set[frozenset[int]] = set()
    for present in patterns(steps):
        counted = rule(present)
        for first in range(steps):
            for last in range(first, min(first + w, steps)):
                found.add(frozenset(counted ^ rule(without(present, first, last))))
    return found


def covered(rule: Rule, times: frozenset[int], steps: int = STEPS) -> bool:
    """Whether the accountant's sets include these timestamps."""
    for now in range(steps):
        for zones in rule.placements(0, now):
            inside = [sum(first <= t <= last for t in times) for first, last, _ in zones]
            if sum(inside) == len(times) and all(n <= zone[2] for n, zone in zip(inside, zones, strict=True)):
                return True
    return False


@pytest.mark.parametrize(("c", "w"), [(1, 3), (1, 4), (2, 5), (3, 7)])
def test_a_sliding_window_reaches_twice_the_presence_and_no_more(c: int, w: int) -> None:
    steps = max(STEPS, 2 * c + 2)
    found = differences(sliding(c, w), w, steps)
    assert max(map(len, found)) == Sliding(c, w).reach == 2 * c
    assert all(covered(Sliding(c, w), times, steps) for times in found)


def test_a_burst_reaches_all_of_it_so_that_no_rule_of_this_kind_reaches_less() -> None:
    # Whoever counts the first c of a burst counts them anew when those are gone.
    assert frozenset(range(4)) in differences(sliding(2, 5), 5)


def test_rows_that_go_here_and_there_in_a_window_reach_three_times_the_presence() -> None:
    c, w, most = 1, 4, 0
    rule = sliding(c, w)
    for present in patterns():
        for first in range(STEPS - w + 1):
            inside = [t for t in range(first, first + w) if present[t]]
            for count in range(1, len(inside) + 1):
                for gone in combinations(inside, count):
                    left = tuple(here and t not in gone for t, here in enumerate(present))
                    most = max(most, len(rule(present) ^ rule(left)))
    assert most == 3 * c


@pytest.mark.parametrize(("c", "length"), [(1, 3), (2, 3), (2, 4)])
def test_a_block_reaches_its_presence_and_a_window_across_blocks_three_times_as_much(c: int, length: int) -> None:
    rule = first_of_block(c, length)
    most = 0
    for present in patterns(2 * length):
        for first in (0, length):
            gone = frozenset(rule(present) ^ rule(without(present, first, first + length - 1)))
            assert covered(InBlock(c, Blocks(length)), gone, 2 * length)
            most = max(most, len(gone))
    assert most == c
    across = max(map(len, differences(rule, length, 3 * length)))
    assert c < across <= 3 * c


def test_for_ever_reaches_the_presence() -> None:
    rule = first_of_block(2, STEPS)
    gone = {frozenset(rule(present)) for present in patterns()}
    assert max(map(len, gone)) == Anywhere(2).reach == 2
    assert all(covered(Anywhere(2), times) for times in gone)


@pytest.mark.parametrize("steps", [6, 9, 12])
def test_looking_back_at_what_was_counted_cascades_without_end(steps: int) -> None:
    """One step that goes moves every later one: the longer the stream, the more steps differ."""
    always = tuple([True] * steps)
    rule = counted_before(1, w=2)
    assert len(rule(always) ^ rule(without(always, 0, 0))) == steps
