"""Exact accounting: a charge is admitted only if no window passes the guarantee.

PROOF.md in this folder states what is promised, theorem by theorem, and why.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from veilstream.errors import BudgetExceededError, ChargeError, InvalidInputError, OutOfOrderError
from veilstream.privacy.bin_timeline import BinTimeline
from veilstream.privacy.blocks import Block
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.past_windows import ZERO
from veilstream.privacy.population_limit import ChargeLimit
from veilstream.privacy.presence_timeline import presence_timeline
from veilstream.privacy.profile_timeline import ProfileTimeline, with_profiles
from veilstream.privacy.snapshots import (
    AccountantSnapshot,
    BinSnapshot,
    LineSnapshot,
    PresenceSnapshot,
    ProfileSnapshot,
    WindowSnapshot,
)
from veilstream.privacy.timeline import Timeline
from veilstream.privacy.window_timeline import WindowTimeline


class Accountant:
    """Admits a charge only if no window passes the guarantee; refuses it before anything is drawn.

    With ``per_timestamp`` every bin and timestamp is counted by itself, up to its share ε/w, so that any w timestamps
    cost ε at most. It is a property of the stream's mechanism, fixed here for the whole stream. What an accountant
    answers is a function of the guarantee, of this choice and of the charges that a ledger recorded.

    >>> from veilstream.privacy.charge import Span
    >>> book = Accountant(Guarantee(1, w=2), bins=10)
    >>> for t in range(3):
    ...     book.advance(t)
    ...     book.admit([Charge(Fraction(1, 2), Span(t, t), "publish")])
    >>> book.left
    Fraction(0, 1)
    >>> book.admit([Charge(Fraction(1, 4), Span(2, 2), "publish")])
    Traceback (most recent call last):
    ...
    veilstream.errors.BudgetExceededError: charge 1/4 for 'publish' at t=2: window of 2 would cost 5/4, budget is 1;
    nothing was released
    """

    def __init__(self, guarantee: Guarantee, bins: int, *, per_timestamp: bool = False) -> None:
        self.guarantee = guarantee
        self.bins = bins
        self.per_timestamp = per_timestamp and guarantee.w != 1
        self.answer_guarantee = guarantee.per_timestamp() if self.per_timestamp else guarantee
        """What one answer is measured by: the guarantee, or the share of one timestamp."""
        self.now: int | None = None
        self._pure: Timeline = BinTimeline(bins) if self.per_timestamp else _timeline(guarantee)
        self._gaussian: Timeline = _timeline(guarantee)
        self._next_block = 0
        self._last_block = 0
        self._limit: ChargeLimit | None = None

    @property
    def left(self) -> Fraction:
        """Pure epsilon left in the fullest window that includes now."""
        left = self.answer_left
        return left * (self.guarantee.reach or 1) if self.per_timestamp else left

    @property
    def answer_left(self) -> Fraction:
        """Pure epsilon left for one more answer about the present: of the window, or of the timestamp's share."""
        return self.answer_guarantee.pure - self._pure.current

    @property
    def gaussian_left(self) -> Fraction:
        """μ² left in the fullest window that includes now."""
        return self.guarantee.mu_squared - self._gaussian.current

    @property
    def fullest(self) -> tuple[Fraction, Fraction]:
        """Pure epsilon and μ² of the fullest window so far; what is not known by itself is taken for its largest.

        >>> from veilstream.privacy.charge import Span
        >>> book = Accountant(Guarantee(1, w=2), bins=1)
        >>> for t in (0, 5):
        ...     book.advance(t)
        ...     book.admit([Charge(Fraction(1, 2 + t), Span(t, t), "publish")])
        >>> book.fullest
        (Fraction(1, 2), Fraction(0, 1))
        """
        pure = self._pure.fullest
        return pure * (self.guarantee.reach or 1) if self.per_timestamp else pure, self._gaussian.fullest

    @property
    def nominal_left(self) -> Fraction:
        """Epsilon left, Gaussian charges counted by their share of μ²."""
        left = self.left
        if self.guarantee.mu_squared:
            reserve = self.guarantee.epsilon - self.guarantee.pure
            left += reserve * (self.gaussian_left / self.guarantee.mu_squared)
        return left

    def new_block(self) -> int:
        """A number for a charge that will grow."""
        self._next_block += 1
        return self._next_block

    def open_block(self, number: int) -> Block | None:
        """A block that was opened and not closed: what every window that it reads pays, by the charges so far."""
        return self._pure.open_blocks().get(number)

    @property
    def open_blocks(self) -> list[int]:
        """The numbers of the blocks that were opened and not closed."""
        return sorted(self._pure.open_blocks())

    def advance(self, t: int) -> None:
        """Let time pass up to ``t``."""
        if self.now is not None and t < self.now:
            raise OutOfOrderError(name="step", value=t, limit=f"the stream is at {self.now} already")
        self.now = t
        self._pure.advance(t)
        self._gaussian.advance(t)

    def admit(self, charges: Iterable[Charge], tentative: Iterable[Charge] = ()) -> None:
        """Charge all of ``charges``; refuse all if they, together with ``tentative`` ones, would pass the guarantee.

        ``tentative`` charges are those that the outcome of a comparison may bring: they must be affordable
        before the comparison is made.
        """
        certain = list(charges)
        wanted = [*certain, *tentative]
        self._accept(wanted)
        pure = [(c.epsilon, c) for c in wanted if c.epsilon]
        gaussian = [(c.mu_squared, c) for c in wanted if c.mu_squared]
        if pure:
            self._check(self._pure, pure, self.answer_guarantee.pure, "budget")
        if gaussian:
            self._check(self._gaussian, gaussian, self.guarantee.mu_squared, "Gaussian budget")
        if self._limit is not None:
            self._limit.check(wanted)
            self._limit.count(certain)
        for charge in certain:
            self._count(charge)

    def limit(self, other: ChargeLimit | None) -> None:
        """Let something else refuse charges too, such as the pool that a stream shares with others."""
        self._limit = other

    def replay(self, charge: Charge) -> None:
        """Count a charge that was admitted before, as the ledger recorded it."""
        self._accept([charge])
        self._count(charge)

    def snapshot(self) -> AccountantSnapshot:
        """All that it knows, exactly, as plain data: see :meth:`restore`."""
        return AccountantSnapshot(self.now, self._last_block, self._pure.snapshot(), self._gaussian.snapshot())

    def restore(self, known: AccountantSnapshot) -> None:
        """Know what an accountant of the same guarantee knew when it gave its snapshot, and nothing else.

        >>> from veilstream.privacy.charge import Span
        >>> book, other = Accountant(Guarantee(1, w=2), bins=1), Accountant(Guarantee(1, w=2), bins=1)
        >>> book.advance(0)
        >>> book.admit([Charge(Fraction(1, 4), Span(0, 0), "publish")])
        >>> other.restore(book.snapshot())
        >>> other.left
        Fraction(3, 4)
        """
        self.now = known.now
        self._next_block = self._last_block = known.last_block
        self._pure, self._gaussian = self._restored(known.pure), self._restored(known.gaussian)

    def _restored(self, known: LineSnapshot) -> Timeline:
        rule = self.guarantee.rule
        match known:
            case BinSnapshot():
                if known.edges.size == self.bins and (self.per_timestamp or rule is None):
                    return BinTimeline.restored(self.bins, known)
            case WindowSnapshot():
                if rule is None:
                    return WindowTimeline.restored(self.guarantee.w, known)
            case ProfileSnapshot():
                return ProfileTimeline.restored(self._restored(known.ordinary), known)
            case PresenceSnapshot():
                if rule is not None:
                    line = presence_timeline(rule)
                    line.restore(known)
                    return line
        raise InvalidInputError(
            name="snapshot", value=type(known).__name__, limit=f"it is not of an accountant under {self.guarantee}"
        )

    def replay_at(self, t: int, charge: Charge) -> None:
        """Let time pass up to step ``t`` where it has not, and count what was charged then."""
        if self.now is None or t > self.now:
            self.advance(t)
        self.replay(charge)

    def _accept(self, charges: list[Charge]) -> None:
        """Refuse charges of a kind that the stream does not take."""
        for charge in charges:
            if charge.epsilon.numerator < 0 or charge.mu_squared.numerator < 0:
                amount = min(charge.epsilon, charge.mu_squared)
                raise ChargeError(name=f"charge for {charge.purpose!r}", value=amount, limit="it is negative")
            if self.per_timestamp and charge.mu_squared:
                # A unit in k timestamps of a sum costs k times their pure charge, but k² times their μ².
                raise ChargeError(
                    name=f"charge for {charge.purpose!r}",
                    value=charge.mu_squared,
                    limit=f"it is Gaussian in a stream that pays per timestamp under {self.guarantee}, where only "
                    "pure charges add up",
                )
            if charge.bins is not None:
                self._accept_bins(charge)
            if charge.profile is not None and (charge.epsilon or charge.profile.last != self.now):
                raise ChargeError(
                    name=f"charge for {charge.purpose!r}",
                    value=charge.profile.last,
                    limit=f"a row of a running sum is Gaussian and of the present, {self.now}",
                )

    def _accept_bins(self, charge: Charge) -> None:
        assert charge.bins is not None
        if self.guarantee.w != 1 and not self.per_timestamp:
            raise ChargeError(
                name=f"charge for {charge.purpose!r}",
                value=charge.epsilon or charge.mu_squared,
                limit=f"it names bins under {self.guarantee}: only at w=1 is one unit in one bin, unless the stream "
                "pays per timestamp",
            )
        if charge.bins.dtype == np.bool_ and charge.bins.shape != (self.bins,):
            raise InvalidInputError(
                name="charge for",
                value=charge.purpose,
                limit=f"truth values for {charge.bins.size} bins, where there are {self.bins}",
            )

    def _check(self, line: Timeline, wanted: list[tuple[Fraction, Charge]], budget: Fraction, name: str) -> None:
        if any(charge.bins is not None for _, charge in wanted):
            line = line.by_bin(self.bins, self.now)
        if any(charge.profile is not None for _, charge in wanted):
            line = with_profiles(line)
        cost = line.would_cost(wanted)
        if cost > budget:
            amount, purpose = sum((amount for amount, _ in wanted), ZERO), wanted[0][1].purpose
            raise BudgetExceededError(
                f"charge {amount} for {purpose!r} at t={self.now}: {line.unit} would cost {cost}, {name} is {budget}",
                name=purpose,
                value=cost,
                limit=str(budget),
            )

    def _count(self, charge: Charge) -> None:
        if charge.block is not None:
            self._last_block = max(self._last_block, charge.block)
            self._next_block = max(self._next_block, charge.block)
            if charge.epsilon == 0:
                self._pure.close(charge.block)
        # From the first admitted charge with names on, costs are those of bins: refused ones leave no trace.
        if charge.epsilon:
            if charge.bins is not None:
                self._pure = self._pure.by_bin(self.bins, self.now)
            self._pure.add(charge.epsilon, charge)
        if charge.mu_squared:
            if charge.bins is not None:
                self._gaussian = self._gaussian.by_bin(self.bins, self.now)
            if charge.profile is not None:
                self._gaussian = with_profiles(self._gaussian)
            self._gaussian.add(charge.mu_squared, charge)


def _timeline(guarantee: Guarantee) -> Timeline:
    rule = guarantee.rule
    return WindowTimeline(guarantee.w) if rule is None else presence_timeline(rule)
