"""The books of what one person can reach are exact: they agree with every set of timestamps, tried one by one."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import BudgetExceededError, InvalidBudgetError
from veilstream.privacy import presence_lifelong
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence import Rule
from veilstream.privacy.presence_timeline import presence_timeline
from veilstream.privacy.presence_windows import fullest

STEPS = 8
AMOUNTS = st.fractions(min_value=Fraction(1, 6), max_value=2, max_denominator=6)
GUARANTEES = st.sampled_from(
    [
        *(Guarantee(1, w=2 * c + more, presence=c) for c in (1, 2) for more in (1, 2)),
        *(Guarantee(1, w=None, presence=c) for c in (1, 2, 3)),
        *(Guarantee(1, per=length, presence=c) for length in (2, 3, 4) for c in (1, 2)),
    ]
)


def rule_of(guarantee: Guarantee) -> Rule:
    rule = guarantee.rule
    assert rule is not None
    return rule


@st.composite
def plans(draw: st.DrawFn) -> list[Charge]:
    """Charges in the order of time: of single steps, over several, and blocks that grow and grow dearer."""
    charges: list[Charge] = []
    blocks: dict[int, tuple[int, Fraction]] = {}
    for t in range(STEPS):
        for _ in range(draw(st.integers(0, 2))):
            kind, amount = draw(st.sampled_from(["step", "step", "back", "open", "grow"])), draw(AMOUNTS)
            if kind == "grow" and blocks:
                number = draw(st.sampled_from(sorted(blocks)))
                first, before = blocks[number]
                amount = before + draw(st.sampled_from([Fraction(0), Fraction(1, 3)]))
                blocks[number] = first, amount
                charges.append(Charge(amount, Span(first, t), "compare", block=number))
            elif kind == "open":
                blocks[len(blocks) + 1] = t, amount
                charges.append(Charge(amount, Span(t, t), "compare", block=len(blocks)))
            else:
                first = t if kind != "back" else draw(st.integers(0, t))
                charges.append(Charge(amount, Span(first, t), "publish"))
    return charges


@settings(deadline=None, max_examples=60, derandomize=True)
@given(GUARANTEES, plans())
def test_the_dearest_set_is_that_of_brute_force(guarantee: Guarantee, charges: list[Charge]) -> None:
    line = presence_timeline(rule_of(guarantee))
    seen: list[Charge] = []
    for charge in charges:
        line.advance(charge.span.last)
        before, _ = fullest(seen, guarantee)
        found = max(before, line.would_cost([(charge.epsilon, charge)]))
        line.add(charge.epsilon, charge)
        seen.append(charge)
        expected, _ = fullest(seen, guarantee)
        # What reaches further back than twice the longest set may be overstated, never understated.
        near = charge.span.last - charge.span.first <= 2 * rule_of(guarantee).width
        assert found == expected if near else found >= expected


@settings(deadline=None, max_examples=40, derandomize=True)
@given(GUARANTEES, plans())
def test_what_is_left_is_what_a_charge_of_the_present_can_still_cost(
    guarantee: Guarantee, charges: list[Charge]
) -> None:
    line = presence_timeline(rule_of(guarantee))
    for charge in charges:
        line.advance(charge.span.last)
        line.add(charge.epsilon, charge)
    line.advance(STEPS)
    large = Fraction(10**6)
    dearest, _ = fullest([*charges, Charge(large, Span(STEPS, STEPS), "last")], guarantee)
    assert line.current == dearest - large


@settings(deadline=None, max_examples=30, derandomize=True)
@given(GUARANTEES, plans())
def test_an_accountant_never_admits_what_some_person_pays_too_much_for(
    guarantee: Guarantee, charges: list[Charge]
) -> None:
    book = Accountant(guarantee, bins=1)
    admitted: list[Charge] = []
    for charge in charges:
        if charge.block is not None:
            continue
        book.advance(charge.span.last)
        try:
            book.admit([charge])
        except BudgetExceededError:
            continue
        admitted.append(charge)
    assert fullest(admitted, guarantee)[0] <= guarantee.pure


def test_a_set_whose_last_step_no_charge_touched_yet_is_remembered() -> None:
    """Steps 1 and 5 are one set (of the window 1..3 and the two after it), though nothing begins at 5 or at 3."""
    book = Accountant(Guarantee(1, w=3, presence=1), bins=1)
    for t, charges in ((1, [Charge(Fraction(1, 9), Span(0, 1), "two"), Charge(Fraction(8, 9), Span(1, 1), "one")]),):
        book.advance(t)
        book.admit(charges)
    book.advance(20)
    late = Charge(Fraction(1), Span(5, 20), "late")
    with pytest.raises(BudgetExceededError):
        book.admit([late])
    book.admit([Charge(Fraction(1), Span(6, 20), "later")])


def test_a_block_that_reaches_back_past_the_cut_is_paid_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 0 costs 3/4 and was summed up; a block that reads it later and grows dearer costs it as much again."""
    monkeypatch.setattr(presence_lifelong, "MAX_STRETCHES", 2)
    book = Accountant(Guarantee(1, w=None, presence=1), bins=1)
    for t, amount, block in ((0, "3/4", None), (1, "1/4", None), (2, "1/8", None), (2, "1/8", 1), (3, "1/8", None)):
        book.advance(t)
        book.admit([Charge(Fraction(amount), Span(t, t), "any", block=block)])
    book.advance(5)
    book.admit([Charge(Fraction(1, 4), Span(0, 5), "compare", block=1)])
    book.advance(6)
    with pytest.raises(BudgetExceededError) as caught:
        book.admit([Charge(Fraction(1, 2), Span(0, 6), "compare", block=1)])
    assert caught.value.limit == "1"


def test_gaussian_charges_add_by_their_squares() -> None:
    guarantee = Guarantee(1, w=None, delta="1e-6", presence=2)
    book = Accountant(guarantee, bins=1)
    for t in range(50):
        book.advance(t)
        book.admit([Charge(Fraction(0), Span(t, t), "publish", mu_squared=guarantee.mu_squared / 2)])
    assert book.gaussian_left == 0
    with pytest.raises(BudgetExceededError):
        book.admit([Charge(Fraction(0), Span(49, 49), "publish", mu_squared=guarantee.mu_squared / 100)])


def test_a_person_who_counts_seldom_for_ever_needs_no_horizon() -> None:
    book = Accountant(Guarantee(1, w=None, presence=4), bins=3)
    for t in range(3000):
        book.advance(t)
        book.admit([Charge(Fraction(1, 4), Span(t, t), "publish")])
    assert book.left == 0


def test_long_streams_of_comparisons_are_paid_from_one_fold_to_the_next() -> None:
    """Blocks for ever: far back only the dearest timestamps are remembered, and nothing is refused that fits."""
    book = Accountant(Guarantee(1, w=None, presence=2), bins=1)
    for t in range(0, 900, 3):
        number = book.new_block()
        for step in range(t, t + 3):
            book.advance(step)
            book.admit([Charge(Fraction(1, 4), Span(t, step), "compare", block=number)])
        book.admit([Charge(Fraction(1, 4), Span(t + 2, t + 2), "publish")])
        book.admit([Charge(Fraction(0), Span(t, t + 2), "compare", block=number)])
    assert book.left == 0


@pytest.mark.parametrize(
    "options",
    [
        {"w": 10, "presence": 5},
        {"w": 10, "presence": 0},
        {"w": None, "presence": True},
        {"per": "1w"},
        {"per": "soon", "presence": 2},
        {"per": 0, "presence": 2},
        {"per": 7, "w": 7, "presence": 2},
        {},
    ],
)
def test_a_guarantee_that_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises((InvalidBudgetError, ValueError)):
        Guarantee(1, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "guarantee",
    [
        Guarantee(1, w=24),
        Guarantee("1/3", w=24, presence=5, delta="1e-6"),
        Guarantee(1, w=None, presence=2),
        Guarantee(1, per=7, presence=2),
        Guarantee(1, per="1mo", presence=2),
        Guarantee(1, per="1w", presence=2).placed("2026-01-01", "6h", "Europe/Berlin"),
    ],
)
def test_a_guarantee_survives_a_ledger(guarantee: Guarantee) -> None:
    assert Guarantee.from_json(guarantee.to_json()) == guarantee


def test_old_records_still_read() -> None:
    old = '{"epsilon": "1/2", "w": 24, "delta": "0", "pure_share": "1"}'
    assert Guarantee.from_json(old) == Guarantee("1/2", w=24)
    assert Guarantee("1/2", w=24).to_json() == old


@pytest.mark.parametrize(
    ("per", "every", "zone", "changes"),
    [
        ("1mo", "1d", "UTC", [31, 59, 90]),
        ("1w", "1d", "UTC", [4, 11, 18]),
        ("1d", "6h", "UTC", [4, 8, 12]),
        ("1q", "1mo", "UTC", [3, 6, 9]),
        # On 29 March 2026 the clocks go forward: that day has 23 hours.
        ("1d", "1h", "Europe/Berlin", [24, 48, 72]),
    ],
)
def test_blocks_follow_the_calendar(per: str, every: str, zone: str, changes: list[int]) -> None:
    blocks = Guarantee(1, per=per, presence=1).placed("2026-01-01", every, zone).per
    assert blocks is not None
    assert blocks.longest is not None
    found = [t for t in range(1, changes[-1] + 1) if blocks.block_of(t) != blocks.block_of(t - 1)]
    assert found == changes
    assert all(blocks.first_of(t) == t for t in changes)
    assert all(b - a <= blocks.longest for a, b in pairwise(changes))


def test_a_day_on_which_clocks_change_is_one_block() -> None:
    blocks = Guarantee(1, per="1d", presence=1).placed("2026-03-29", "1h", "Europe/Berlin").per
    assert blocks is not None
    assert [t for t in range(1, 50) if blocks.block_of(t) != blocks.block_of(t - 1)] == [23, 47]
