"""The accounts of a roster on a durable ledger: every answer is charged and recorded in one commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from veilstream.personalised.accounts import PersonalAccounts
from veilstream.personalised.meter import PersonalMeter
from veilstream.personalised.roster import Roster
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.release.transacting import Book
from veilstream.storage.codec import decode
from veilstream.storage.holder import LedgerHolder
from veilstream.storage.ledger import ChargeRow, Ledger, StreamSpec
from veilstream.values.release import Release
from veilstream.values.values import Values


@dataclass(slots=True)
class Answered:
    """The questions that were answered, in the order of the steps that hold the answers."""

    questions: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, eq=False)
class PersonalRelease:
    """A committed answer, and what a person of each level was charged for it."""

    release: Release
    charged: list[Fraction]

    @property
    def values(self) -> Values:
        one = self.release
        return Values(one.values, one.std, one.law)


class LedgerAccounts(LedgerHolder):
    """Everybody's account on a ledger: whatever is asked, nobody's costs pass their own epsilon, also after a crash.

    ``release`` is one transaction: the answer and what it cost people of each level are committed together, and the
    answer is shown only afterwards. A crash before the commit has revealed nothing and costs nothing; the same question
    again is answered from the ledger and costs nothing; if a measurement raises after it was charged, the charges
    stay. All questions under one ``stream`` add up, T rounds and different mechanisms alike.

    On the ledger the accounts are a stream whose *bins are the levels* of the roster: a charge names the levels that
    pay it, so that what names a level adds up to the cost of a person there. A step is an answer, its number has
    nothing to do with time; the steps that a charge reads say when the data are from. Noise is from the secure source.

    >>> import numpy as np
    >>> from veilstream.personalised import ExponentialMedian, Stretching, count_levels
    >>> roster = Roster.of_budgets(["1/8"] * 50 + ["1"] * 950)
    >>> x = count_levels(roster, np.repeat([0, 1], [50, 950]), np.arange(1000) % 2, bins=2)
    >>> accounts = LedgerAccounts(roster)
    >>> answer = accounts.release("counts", lambda meter: Stretching().estimate(x, meter))
    >>> again = accounts.release("counts", lambda meter: Stretching().estimate(x, meter))
    >>> answer.release.seq == again.release.seq, [str(paid) for paid in again.charged]
    (True, ['1/8', '1'])
    >>> accounts.release("median", lambda meter: ExponentialMedian().estimate(x, meter))
    Traceback (most recent call last):
    ...
    veilstream.errors.BudgetExceededError: charge 1/8 for 'median' at t=0: people of budget 1/8 would have spent 1/4 in
    all that is recorded; nothing was released
    """

    def __init__(
        self,
        roster: Roster,
        ledger: str | Path | Ledger | None = None,
        *,
        stream: str = "personal",
        w: int | None = None,
        population: str | None = None,
    ) -> None:
        self.roster = roster
        self.w = w
        self.stream = stream
        guarantee = Guarantee(roster.highest, w)
        super().__init__(ledger)
        people = {"people": roster.people, "roster": roster.fingerprint()}
        former = json.dumps({"class": "LedgerAccounts", **people}, sort_keys=True)
        with self._closing_on_error():
            self.ledger.register(
                StreamSpec(
                    name=stream,
                    guarantee=guarantee.to_json(),
                    mechanism=json.dumps({"name": "personal-accounts", "version": 1, "set": people}, sort_keys=True),
                    bins=roster.levels,
                    domain=None,
                    max_contribution=1,
                    membership=self.ledger.populations.membership(population, "reserved"),
                ),
                former.__eq__,
            )
        self._book: Book[_Asking] = Book(self.ledger, stream, lambda: _Asking(PersonalAccounts(roster, w)))

    def release(
        self,
        question: str,
        measure: Callable[[PersonalMeter], Values],
        recognises: Callable[[str], bool] | None = None,
    ) -> PersonalRelease:
        """The answer to ``question``: from the ledger if it was given before, else ``measure``d, charged and recorded.

        ``question`` is public and says which measurement of which data it is: two that differ need different texts.
        ``recognises`` tells whether another text, as an earlier version wrote it, is the same question.
        """
        same = recognises or question.__eq__
        with self._book.transaction() as transaction:
            stored = transaction.state()
            asked = [] if stored is None else decode(stored.header, stored.arrays, Answered).questions
            before = next((t for t, one in enumerate(asked) if one == question or same(one)), None)
            if before is not None:
                release = transaction.release_at(before)
                assert release is not None
                return PersonalRelease(release, self._charged(transaction.charges(after=0), release.t))
            self._book.catch_up(transaction)

            def measured() -> tuple[Values, Answered]:
                return measure(self._book.session.meter()), Answered([*asked, question])

            release = self._book.transact(transaction, len(asked), measured)
            return PersonalRelease(release, self._book.session.charged())

    def spent(self) -> list[Fraction]:
        """What a person of each level has spent, in the window that ends with the latest charge."""
        return self._book.refresh().accounts.spent()

    def left(self) -> list[Fraction]:
        """What a person of each level has left in that window."""
        return [own - paid for own, paid in zip(self.roster.budgets, self.spent(), strict=True)]

    def _charged(self, rows: Iterable[ChargeRow], t: int) -> list[Fraction]:
        accounts = PersonalAccounts(self.roster)
        for row in rows:
            if row.t == t and row.outcome == "released":
                accounts.replay(row.charge)
        return accounts.spent()


class _Asking:
    """The accounts of a roster, and the meter of the present question."""

    def __init__(self, accounts: PersonalAccounts) -> None:
        self.accounts = accounts
        self._meter: PersonalMeter | None = None

    def meter(self) -> PersonalMeter:
        self._meter = PersonalMeter(self.accounts)
        return self._meter

    def charged(self) -> list[Fraction]:
        """What a person of each level pays for the present question."""
        return [Fraction(0)] * self.accounts.roster.levels if self._meter is None else self._meter.charged()

    @property
    def charges(self) -> Sequence[Charge]:
        return () if self._meter is None else self._meter.charges

    @property
    def opened(self) -> Sequence[int]:
        """Nothing is compared with a secret threshold here."""
        return ()

    @property
    def spent(self) -> Fraction:
        return max(self.charged())

    @property
    def left(self) -> Fraction:
        return self.accounts.roster.highest - max(self.accounts.spent())

    def replay(self, t: int, charge: Charge) -> None:
        """Count a charge; ``t`` is the number of an answer and has nothing to do with time."""
        self.accounts.replay(charge)
