"""A snapshot and the charges after it are the whole history: number by number, and by what is admitted next."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.kernels import Kernel
from veilstream.privacy.presence_windows import fullest
from veilstream.privacy.profile import Profile
from veilstream.privacy.snapshots import AccountantSnapshot
from veilstream.storage.codec import decode, encode

BINS = 3


@dataclass(frozen=True)
class Kind:
    """A stream, and which charges it takes."""

    guarantee: Guarantee
    per_timestamp: bool = False
    names: bool = False
    gaussian: bool = False


KINDS = {
    "event": Kind(Guarantee(4, w=1)),
    "event with names": Kind(Guarantee(4, w=1), names=True),
    "window": Kind(Guarantee(4, w=3)),
    "wide window": Kind(Guarantee(4, w=40)),
    "user": Kind(Guarantee(9, w=None)),
    "Gaussian": Kind(Guarantee(4, w=3, delta="1e-6"), gaussian=True),
    "Gaussian with names": Kind(Guarantee(4, w=1, delta="1e-6"), names=True, gaussian=True),
    "per timestamp": Kind(Guarantee(4, w=3), per_timestamp=True, names=True),
    "presence in windows": Kind(Guarantee(4, w=5, presence=2)),
    "presence in blocks": Kind(Guarantee(4, per=4, presence=2)),
    "presence for ever": Kind(Guarantee(9, w=None, presence=2)),
    "presence per timestamp": Kind(Guarantee(4, w=5, presence=2), per_timestamp=True, names=True),
}

amounts = st.fractions(min_value=Fraction(1, 12), max_value=Fraction(1, 2), max_denominator=12)
# A step: how far time moves (more than one: skipped steps), then what is charged at it: an amount, how far back it
# reaches, which block or bins it names, and whether it is Gaussian. A failed step's charges stay, like all others.
charged = st.tuples(amounts, st.integers(0, 6), st.integers(0, 5), st.booleans())
step = st.tuples(st.integers(1, 4), st.lists(charged, max_size=3))
program = st.lists(step, min_size=1, max_size=12)
short_program = st.lists(step, min_size=1, max_size=5)
Program = list[tuple[int, list[tuple[Fraction, int, int, bool]]]]


def accountant(kind: Kind) -> Accountant:
    return Accountant(kind.guarantee, BINS, per_timestamp=kind.per_timestamp)


def wanted(kind: Kind, t: int, amount: Fraction, reach: int, which: int, gaussian: bool) -> Charge:
    span = Span(t - reach, t)
    if gaussian and kind.gaussian:
        return Charge(Fraction(0), span, "random", mu_squared=kind.guarantee.mu_squared * amount / 4)
    if which in (1, 2):
        return Charge(amount, span, "random", block=which)
    if kind.names and which == 3:
        return Charge(amount, span, "random", bins=np.array([True, False, True]))
    if kind.names and which == 4:
        starts = np.array([t - reach, t], dtype=np.int64)
        return Charge(amount, span, "random", bins=np.array([0, 2]), starts=starts)
    return Charge(amount, span, "random")


def history(kind: Kind, steps: Program) -> list[tuple[int, Charge]]:
    """What an accountant admits of a program, with the step that asked for it."""
    book, admitted, t = accountant(kind), list[tuple[int, Charge]](), 0
    grown: dict[int | None, Fraction] = {}
    closed: set[int | None] = set()
    for gap, charges in steps:
        t += gap
        book.advance(t)
        for amount, reach, which, gaussian in charges:
            charge = wanted(kind, t, amount, reach, which, gaussian)
            if charge.block is not None:
                if charge.block in closed:
                    continue
                risen = max(grown.get(charge.block, Fraction(0)), charge.epsilon)
                closes = reach == 6 and charge.block in grown
                charge = Charge(Fraction(0) if closes else risen, charge.span, "random", block=charge.block)
            try:
                book.admit([charge])
            except BudgetExceededError:
                continue
            admitted.append((t, charge))
            if charge.block is not None:
                grown[charge.block] = charge.epsilon
                if charge.epsilon == 0:
                    closed.add(charge.block)
    return admitted


def replay(book: Accountant, charges: list[tuple[int, Charge]]) -> Accountant:
    for t, charge in charges:
        if book.now is None or t > book.now:
            book.advance(t)
        book.replay(charge)
    return book


def stored(snapshot: AccountantSnapshot) -> AccountantSnapshot:
    """A snapshot as it comes back from a ledger."""
    kept = encode(snapshot)
    return decode(kept.header, tuple(x.copy() for x in kept.arrays), AccountantSnapshot)


def plain(snapshot: AccountantSnapshot) -> tuple[bytes, list[bytes]]:
    kept = encode(snapshot)
    return kept.header, [x.tobytes() for x in kept.arrays]


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(steps=program, later=program, cut=st.integers(0, 60))
def test_a_snapshot_and_its_tail_are_the_whole_history(name: str, steps: Program, later: Program, cut: int) -> None:
    kind = KINDS[name]
    recorded = history(kind, steps)
    whole = replay(accountant(kind), recorded)
    resumed = replay(accountant(kind), recorded[:cut])
    other = accountant(kind)
    other.restore(stored(resumed.snapshot()))
    replay(other, recorded[cut:])
    assert plain(other.snapshot()) == plain(whole.snapshot())
    assert (other.now, other.left, other.gaussian_left, other.fullest) == (
        whole.now,
        whole.left,
        whole.gaussian_left,
        whole.fullest,
    )
    same_answers(kind, whole, other, later)


def same_answers(kind: Kind, first: Accountant, second: Accountant, later: Program) -> None:
    t = first.now or 0
    for gap, charges in later:
        t += gap
        for book in (first, second):
            book.advance(t)
        for amount, reach, which, gaussian in charges:
            charge = wanted(kind, t, amount, reach, which, gaussian)
            answers: list[str] = []
            for book in (first, second):
                try:
                    book.admit([charge])
                    answers.append("admitted")
                except BudgetExceededError as refused:
                    answers.append(str(refused))
            assert answers[0] == answers[1]
        assert first.left == second.left


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(steps=short_program, cut=st.integers(0, 60))
def test_what_a_resumed_accountant_knows_of_the_fullest_window_is_never_too_little(
    name: str, steps: Program, cut: int
) -> None:
    kind = KINDS[name]
    recorded = history(kind, steps)
    book = accountant(kind)
    book.restore(stored(replay(accountant(kind), recorded[:cut]).snapshot()))
    replay(book, recorded[cut:])
    charges = [charge for _, charge in recorded]
    pure, squared = fullest(charges, kind.guarantee, BINS, per_timestamp=book.per_timestamp)
    assert book.fullest[0] >= pure
    assert book.fullest[1] >= squared
    exact = not any(charge.block or charge.bins is not None for charge in charges) and not kind.per_timestamp
    if exact and kind.guarantee.rule is None:
        assert book.fullest == (pure, squared)


def test_numbers_of_any_size_survive() -> None:
    kind = KINDS["event with names"]
    book = accountant(kind)
    for t in range(4):
        book.advance(t)
        book.admit([Charge(Fraction(1, 3**50 + t), Span(t, t), "tiny", bins=np.array([t % BINS]))])
    other = accountant(kind)
    other.restore(stored(book.snapshot()))
    assert plain(other.snapshot()) == plain(book.snapshot())
    assert other.left == book.left


def test_a_snapshot_of_another_kind_of_stream_is_refused() -> None:
    window = accountant(KINDS["window"]).snapshot()
    for name in ("presence in windows", "presence for ever"):
        with pytest.raises(InvalidInputError) as caught:
            accountant(KINDS[name]).restore(window)
        assert caught.value.name == "snapshot"
    bins = Accountant(Guarantee(1, w=3), bins=5, per_timestamp=True).snapshot()
    with pytest.raises(InvalidInputError):
        accountant(KINDS["per timestamp"]).restore(bins)


@pytest.mark.parametrize("cut", [0, 1, 7, 19])
def test_running_sums_go_on_from_a_snapshot(cut: int) -> None:
    kind = Kind(Guarantee(4, w=1, delta="1e-6"))
    unit = kind.guarantee.mu_squared / 64
    recorded = [(t, Charge(Fraction(1, 50), Span(t, t), "look")) for t in range(20)]
    for t in range(20):
        row = Profile(Kernel(), start=t - t % 8, row=t % 8)
        recorded.append((t, Charge(Fraction(0), Span(t - t % 8, t), "total", unit, starts=row.encoded())))
    recorded.sort(key=lambda one: one[0])
    whole, other = replay(accountant(kind), recorded), accountant(kind)
    other.restore(stored(replay(accountant(kind), recorded[: 2 * cut]).snapshot()))
    replay(other, recorded[2 * cut :])
    assert plain(other.snapshot()) == plain(whole.snapshot())
    assert other.fullest == whole.fullest
    assert other.gaussian_left == whole.gaussian_left
