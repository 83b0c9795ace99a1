"""Whatever is asked for, no window passes its budget and a look at every later step can be paid for."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.mechanisms.streams.model.periods import Period
from veilstream.mechanisms.streams.model.reserve import Book

Demand = tuple[bool, float, int]
demands = st.lists(st.tuples(st.booleans(), st.floats(0, 1), st.integers(1, 6)), min_size=1, max_size=80)


@settings(max_examples=200, deadline=None)
@given(demands, st.integers(2, 24), st.booleans())
def test_windows_stay_within_the_budget_and_the_reserve_holds(
    wanted: list[Demand], window: int, one_stretch: bool
) -> None:
    """Random looks and blocks, each for any part of its room, up to all of it."""
    period = Period(window, window - 1) if one_stretch else Period(window)
    book, step, spans = Book.empty(), 0, list[tuple[int, int, int]]()
    for looks, part, length in wanted:
        if period.last is not None and step > period.last:
            break
        kept = 3 * period.even // 4
        room = book.room(step, period, kept)
        assert room >= kept
        steps = length if period.last is None else min(length, period.last - step + 1)
        amount = int(Fraction(part) * book.room(step, period, kept, steps))
        if looks and amount > 0:
            book = book.charged(step + steps - 1, amount, step, period)
            spans.append((step, step + steps - 1, amount))
            step += steps
        else:
            step += 1
    for end in range(step + window):
        touched = [amount for first, last, amount in spans if first <= end and last > end - window]
        assert sum(touched) <= period.units


def test_looks_at_every_step_get_uniforms_share() -> None:
    period, book = Period(12), Book.empty()
    for step in range(50):
        assert book.room(step, period, 3 * period.even // 4) >= period.even
        book = book.charged(step, period.even, step, period)
    assert book.ends.size <= 13
