"""The accountant equals the brute-force maximum over all windows, and refuses exactly what passes it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.errors import BudgetExceededError, ChargeError, InvalidBudgetError, InvalidInputError, OutOfOrderError
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.window_timeline import WindowTimeline
from veilstream.privacy.windows import fullest_window as by_definition

amounts = st.fractions(min_value=0, max_value=1, max_denominator=12)
# One step: how far time moves, then charges as (amount, reach back, block or None).
steps = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.lists(st.tuples(amounts, st.integers(0, 9), st.sampled_from([None, None, 1, 2])), max_size=3),
    ),
    max_size=14,
)


def fullest_window(charges: list[Charge], w: int | None) -> Fraction:
    """By definition: the largest sum, over all windows, of the charges whose span touches the window."""
    latest: dict[int, Charge] = {c.block: c for c in charges if c.block is not None}
    counted = [c for c in charges if c.block is None] + list(latest.values())
    if w is None:
        return sum((c.epsilon for c in counted), Fraction(0))
    ends = range(min((c.span.first for c in counted), default=0), max((c.span.last for c in counted), default=0) + w)
    return max(
        (sum((c.epsilon for c in counted if c.span.touches(Span(e - w + 1, e))), Fraction(0)) for e in ends),
        default=Fraction(0),
    )


@settings(max_examples=200, deadline=None)
@given(history=steps, w=st.sampled_from([1, 2, 3, 5, 40, None]), budget=st.integers(1, 4))
def test_equals_brute_force_on_random_histories(
    history: list[tuple[int, list[tuple[Fraction, int, int | None]]]], w: int | None, budget: int
) -> None:
    book = Accountant(Guarantee(budget, w=w), bins=1)
    admitted: list[Charge] = []
    opened: dict[int, Charge] = {}
    t = 0
    for gap, charges in history:
        t += gap
        book.advance(t)
        for amount, reach, block in charges:
            if block is not None and block in opened:
                charge = Charge(opened[block].epsilon, Span(opened[block].span.first, t), "grow", block=block)
            else:
                charge = Charge(amount, Span(t - reach, t), "random", block=block)
            cost = fullest_window([*admitted, charge], w)
            assert by_definition([*admitted, charge], w)[0] == cost
            fits = cost <= budget
            if fits or charge.epsilon == 0:
                book.admit([charge])
                admitted.append(charge)
                if block is not None and charge.epsilon:
                    opened[block] = charge
            else:
                with pytest.raises(BudgetExceededError, match="nothing was released"):
                    book.admit([charge])


@settings(max_examples=300, deadline=None)
@given(
    history=st.lists(
        st.tuples(
            st.integers(1, 4),
            st.lists(st.tuples(amounts, st.integers(0, 9), st.sampled_from([None, 1, 2])), max_size=3),
        ),
        max_size=12,
    ),
    w=st.sampled_from([1, 2, 3, 5, None]),
    named=st.booleans(),
    closing=st.integers(0, 12),
)
def test_blocks_that_rise_reach_back_and_pause_are_never_charged_too_little(
    history: list[tuple[int, list[tuple[Fraction, int, int | None]]]], w: int | None, named: bool, closing: int
) -> None:
    """Every charge of a block may cost more than the last and read older data; what is admitted fits by definition."""
    budget = 3
    book = Accountant(Guarantee(budget, w=w), bins=2)
    admitted: list[Charge] = []
    risen: dict[int, Fraction] = {}
    closed: set[int | None] = set()
    t = 0
    for step, (gap, charges) in enumerate(history):
        t += gap
        book.advance(t)
        for amount, reach, block in charges:
            if block in closed:
                continue
            if block is not None and (step == closing or amount == 0):
                book.admit([Charge(Fraction(0), Span(t, t), "close", block=block)])
                closed.add(block)
                continue
            total = amount if block is None else risen.get(block, Fraction(0)) + amount
            bins = np.array([reach % 2]) if named and w == 1 and block is None else None
            charge = Charge(total, Span(t - reach, t), "random", block=block, bins=bins)
            fits = by_definition([*admitted, charge], w, bins=2)[0] <= budget
            try:
                book.admit([charge])
            except BudgetExceededError:
                # Too early is allowed where old data, pauses and bins are known by their largest cost alone.
                assert not fits or any(c.block is not None or c.bins is not None for c in [*admitted, charge])
                continue
            assert fits
            admitted.append(charge)
            if block is not None:
                risen[block] = total


@settings(max_examples=100, deadline=None)
@given(
    history=st.lists(st.lists(st.tuples(st.booleans(), amounts.filter(bool)), min_size=3, max_size=3), max_size=12),
    start=st.sampled_from([0, (1 << 31) - 6, 1 << 40, -(1 << 40), -(1 << 31) - 5]),
    names=st.sampled_from([np.arange(3), np.ones(3, dtype=np.bool_), np.array([True, False, True])]),
)
def test_groups_of_timestamps_per_bin_equal_brute_force(
    history: list[list[tuple[bool, Fraction]]], start: int, names: NDArray[Any]
) -> None:
    """Every timestamp is watched in some bins; bins publish their pending timestamps at times of their own."""
    book = Accountant(Guarantee(1, w=1), bins=3)
    cost: dict[tuple[int, int], Fraction] = {}
    since = np.full(3, start)
    watch = Fraction(1, 7)
    for t, bins in enumerate(history, start):
        book.advance(t)
        book.admit([Charge(watch, Span(t, t), "watch", bins=names)])
        cost |= {(b, t): watch if b in np.arange(3)[names] else Fraction(0) for b in range(3)}
        for b, (publish, amount) in enumerate(bins):
            if not publish:
                continue
            first = int(since[b])
            charge = Charge(
                amount, Span(first, t), "publish", bins=np.array([b]), starts=np.array([first], dtype=np.int64)
            )
            spent = max(cost[b, s] for s in range(first, t + 1))
            if spent + amount <= 1:
                book.admit([charge])
                for s in range(first, t + 1):
                    cost[b, s] += amount
                since[b] = t + 1
            else:
                with pytest.raises(BudgetExceededError):
                    book.admit([charge])
        assert book.left == 1 - max(cost[b, t] for b in range(3))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_truth_values_must_be_there_for_every_bin(size: int) -> None:
    """One value would stand for all bins, and a false one for no charge at all."""
    book = Accountant(Guarantee(1, w=1), bins=3)
    book.advance(0)
    with pytest.raises(InvalidInputError, match=f"truth values for {size} bins, where there are 3"):
        book.admit([Charge(Fraction(1), Span(0, 0), "watch", bins=np.zeros(size, dtype=np.bool_))])
    assert book.left == 1


@pytest.mark.parametrize("bins", [None, np.ones(2, dtype=np.bool_), np.array([1])])
def test_starts_need_the_positions_of_their_bins(bins: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"2 starts|profile"):
        Charge(Fraction(1), Span(0, 1), "group", bins=bins, starts=np.array([0, 1]))


@settings(max_examples=100, deadline=None)
@given(
    history=st.lists(
        st.lists(st.sampled_from(["wait", "publish", "publish before"]), min_size=3, max_size=3), max_size=12
    ),
    amount=st.sampled_from([Fraction(6, 7), Fraction(6, 7) + Fraction(1, 1000)]),
)
def test_a_group_may_be_published_without_the_present_timestamp(history: list[list[str]], amount: Fraction) -> None:
    """Pending timestamps before this one are spent alone, this one may be spent too, in one charge for all bins."""
    watch, since = Fraction(1, 7), np.zeros(3, dtype=np.int64)
    book = Accountant(Guarantee(1, w=1), bins=3)
    for t, choices in enumerate(history):
        book.advance(t)
        book.admit([Charge(watch, Span(t, t), "watch")])
        before = np.array([b for b, choice in enumerate(choices) if choice == "publish before" and since[b] < t], int)
        charges: list[Charge] = []
        if before.size:
            first = since[before]
            charges.append(Charge(amount, Span(int(first.min()), t - 1), "group", bins=before, starts=first))
            since[before] = t
        every = np.array([b for b, choice in enumerate(choices) if choice != "wait"], int)
        if every.size:
            first = since[every]
            charges.append(Charge(amount, Span(int(first.min()), t), "group", bins=every, starts=first))
            since[every] = t + 1
        for charge in charges:
            if amount + watch <= 1:
                book.admit([charge])
            else:
                with pytest.raises(BudgetExceededError, match="nothing was released"):
                    book.admit([charge])
        if charges and amount + watch <= 1:
            with pytest.raises(BudgetExceededError, match="nothing was released"):
                book.admit([charges[0]])


def test_a_tentative_charge_must_be_affordable_but_is_not_made() -> None:
    book = Accountant(Guarantee(1, w=3), bins=1)
    book.advance(0)
    half, whole = (Charge(Fraction(n, 2), Span(0, 0), "x") for n in (1, 2))
    book.admit([half], tentative=[half])
    assert book.left == Fraction(1, 2)
    with pytest.raises(BudgetExceededError, match=r"would cost 2, budget is 1"):
        book.admit([half], tentative=[whole])
    assert book.left == Fraction(1, 2)


def test_bins_may_not_be_named_beyond_event_level() -> None:
    book = Accountant(Guarantee(1, w=2), bins=2)
    book.advance(0)
    with pytest.raises(ChargeError, match="names bins"):
        book.admit([Charge(Fraction(1, 2), Span(0, 0), "x", bins=np.array([0]))])


def test_per_timestamp_every_bin_and_timestamp_has_its_share_of_the_window() -> None:
    book = Accountant(Guarantee(1, w=4), bins=3, per_timestamp=True)
    for t in range(6):
        book.advance(t)
        book.admit([Charge(Fraction(1, 8), Span(t, t), "watch", bins=np.arange(3))])
    assert book.left == Fraction(1, 2)
    since = np.array([2, 5], dtype=np.int64)
    book.admit([Charge(Fraction(1, 8), Span(2, 5), "group", bins=np.array([0, 2]), starts=since)])
    assert book.left == 0
    book.admit([Charge(Fraction(1, 8), Span(5, 5), "unit", bins=np.array([1]))])
    with pytest.raises(BudgetExceededError, match="one timestamp would cost 3/8, budget is 1/4"):
        book.admit([Charge(Fraction(1, 8), Span(5, 5), "unit", bins=np.array([1]))])
    with pytest.raises(BudgetExceededError, match="one timestamp"):
        book.admit([Charge(Fraction(1, 1000), Span(5, 5), "all")])
    for bins in (None, np.array([1])):
        with pytest.raises(ChargeError, match="Gaussian"):
            book.admit([Charge(Fraction(0), Span(5, 5), "x", mu_squared=Fraction(1), bins=bins)])


def test_per_timestamp_needs_a_window_and_changes_nothing_at_event_level() -> None:
    with pytest.raises(InvalidBudgetError):
        Accountant(Guarantee(1, w=None), bins=3, per_timestamp=True)
    plain, flagged = (Accountant(Guarantee(1, w=1), bins=3, per_timestamp=flag) for flag in (False, True))
    for book in (plain, flagged):
        book.advance(0)
        book.admit([Charge(Fraction(1), Span(0, 0), "left", bins=np.array([0]))])
        book.admit([Charge(Fraction(1), Span(0, 0), "right", bins=np.array([1, 2]))])
        assert book.left == 0
        assert book.answer_guarantee == Guarantee(1, w=1)


def test_a_ledger_whose_first_charge_names_all_bins_replays_to_the_same_state() -> None:
    """Earlier versions wrote the names of all bins into the first charge of such a stream."""
    old, new = (Accountant(Guarantee(1, w=4), bins=3, per_timestamp=True) for _ in range(2))
    for book, names in ((old, np.arange(3)), (new, None)):
        book.advance(0)
        book.replay(Charge(Fraction(1, 8), Span(0, 0), "watch", bins=names))
        book.replay(Charge(Fraction(1, 8), Span(0, 0), "unit", bins=np.array([1])))
        book.advance(1)
        book.replay(Charge(Fraction(1, 8), Span(1, 1), "watch"))
    assert old.left == new.left == Fraction(1, 2)
    for amount, first in ((Fraction(1, 8), 0), (Fraction(1, 8) + Fraction(1, 1000), 1)):
        charge = Charge(amount, Span(first, 1), "group", bins=np.array([1]), starts=np.array([first]))
        for book in (old, new):
            with pytest.raises(BudgetExceededError):
                book.admit([charge])


@pytest.mark.parametrize("w", [1, 4])
def test_the_accountant_is_a_function_of_the_charges_alone(w: int) -> None:
    """Steps without charges may be told to it or not: pending timestamps stay payable either way."""
    share = Fraction(1, w)
    live, replayed = (Accountant(Guarantee(1, w=w), bins=2, per_timestamp=True) for _ in range(2))
    first = Charge(share, Span(0, 0), "unit", bins=np.arange(2), starts=np.zeros(2, dtype=np.int64))
    for book, steps in ((live, (1, 2, 3)), (replayed, (3,))):
        book.advance(0)
        book.admit([first]) if book is live else book.replay(first)
        for t in steps:
            book.advance(t)
        book.admit([Charge(share, Span(1, 3), "group", bins=np.array([0]), starts=np.array([1]))])
        with pytest.raises(BudgetExceededError):
            book.admit([Charge(share, Span(0, 3), "group", bins=np.array([1]), starts=np.array([0]))])


def test_a_refused_charge_leaves_no_trace() -> None:
    """At event level costs are kept by bin from the first charge with names on that was admitted."""
    book, other = (Accountant(Guarantee(1, w=1), bins=2) for _ in range(2))
    for t in range(3):
        for one in (book, other):
            one.advance(t)
            one.admit([Charge(Fraction(1, 1 + t), Span(t, t), "publish")])
    with pytest.raises(BudgetExceededError):
        book.admit([Charge(Fraction(1), Span(2, 2), "too much", bins=np.array([0]))])
    for one in (book, other):
        one.admit([Charge(Fraction(1, 2), Span(1, 2), "reaches back")])


@pytest.mark.parametrize(
    "charge",
    [
        Charge(Fraction(-1, 2), Span(0, 0), "negative"),
        Charge(Fraction(0), Span(0, 0), "negative", mu_squared=Fraction(-1)),
        Charge(Fraction(1, 4), Span(0, 0), "bins", bins=np.array([0])),
    ],
    ids=["negative epsilon", "negative mu", "bins under a window"],
)
def test_misuse_is_no_matter_of_budget(charge: Charge) -> None:
    book = Accountant(Guarantee(1, w=3, delta="1e-6"), bins=2)
    book.advance(0)
    with pytest.raises(ChargeError):
        book.admit([charge])
    with pytest.raises(ChargeError):
        book.admit([], tentative=[charge])
    with pytest.raises(ChargeError):
        book.replay(charge)
    assert book.nominal_left == 1


def test_bins_run_in_parallel_at_event_level_even_with_awkward_denominators() -> None:
    book = Accountant(Guarantee(1, w=1), bins=4)
    book.advance(0)
    primes = [999_999_937, 999_999_929, 999_999_893, 999_999_883]
    for b, prime in enumerate(primes):
        book.admit([Charge(1 - Fraction(1, prime), Span(0, 0), "x", bins=np.array([b]))])
    assert book.left == Fraction(1, max(primes))


def test_time_does_not_run_backwards() -> None:
    book = Accountant(Guarantee(1, w=2), bins=1)
    book.advance(5)
    with pytest.raises(OutOfOrderError, match="step 4: the stream is at 5"):
        book.advance(4)


def since(first: int, last: int) -> Charge:
    return Charge(Fraction(1), Span(first, last), "any")


def test_memory_does_not_grow_with_the_number_of_steps() -> None:
    line = WindowTimeline(w=1_000)
    sizes: list[int] = []
    for t in range(30_000):
        line.advance(t)
        line.add(Fraction(1 + t % 7, 1 << 13), since(t, t))
        line.add(Fraction(1, 1 << 20), since(max(0, t - t % 13), t))
        if t % 10_000 == 9_999:
            sizes.append(len(line._recent) + len(line._past.ends))
    assert max(sizes) <= 2 * 1_000 + 4_096
    assert sizes[-1] <= sizes[0] + 1_000


def test_a_long_falling_history_merges_on_the_safe_side() -> None:
    line = WindowTimeline(w=1)
    for t in range(5_000):
        line.advance(t)
        line.add(Fraction(1, t + 1), since(t, t))
    line.advance(5_000)
    assert line.peak(first=4_999) == Fraction(1, 5_000)
    assert line.peak(first=100) >= Fraction(1, 101)
    assert line.peak(first=0) == 1
