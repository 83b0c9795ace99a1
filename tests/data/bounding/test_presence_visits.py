"""How far one person moves the histogram of visits: every pattern of presence, every change that a unit allows."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from veilstream.data import Calendar, read_events
from veilstream.data.bounding.presence_visits import ever_moves, stretches_of, visit_histogram
from veilstream.trusted.opening import open_counts

L = 2


def histogram(pattern: tuple[int, ...], most: int) -> list[int]:
    steps = [step for step, here in enumerate(pattern) if here]
    rows = {"id": [0, *[1] * len(steps)], "t": [0, *steps]}
    events = read_events(rows, user="id", time="t", by=[])
    visits = visit_histogram(events, Calendar(0, len(pattern), 1), steps=L, most=most, ever=True)
    assert visits.l1 == ever_moves(stretches_of(Calendar(0, len(pattern), 1), L))
    return [int(count) for count in open_counts(visits)]


@pytest.mark.parametrize("length", [2, 3, 4, 5])
@pytest.mark.parametrize("most", [1, 2])
def test_nobody_moves_the_histogram_further_than_it_is_sealed_for(length: int, most: int) -> None:
    patterns = list(product((0, 1), repeat=length))
    found = {pattern: np.array(histogram(pattern, most)) for pattern in patterns}
    limit = ever_moves(stretches_of(Calendar(0, length, 1), L))
    ever = max(int(np.abs(counts - found[(0,) * length]).sum()) for counts in found.values())
    window = 0
    for first in range(length):
        inside = slice(first, first + L)
        for one, other in product(patterns, repeat=2):
            if one[:first] == other[:first] and one[inside.stop :] == other[inside.stop :]:
                window = max(window, int(np.abs(found[one] - found[other]).sum()))
    assert max(ever, window) <= limit
    # Where all stretches are whole and tell one visit from two, the bound is reached.
    assert most == 1 or length % L or max(ever, window) == limit
