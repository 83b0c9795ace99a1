"""The accounts of a roster on a durable ledger: every answer is charged and recorded in one commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from veilstream.personalised.accounts import PersonalAccounts
from veilstream.personalised.meter import PersonalMeter
from veilstream.personalised.roster import Roster
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.codec import decode, encode
from veilstream.storage.holder import LedgerHolder
from veilstream.storage.ledger import ChargeRow, Ledger, StreamSpec, Transaction
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
    ) -> None:
        self.roster = roster
        self.w = w
        self.stream = stream
        self._guarantee = Guarantee(roster.highest, w)
        self._forget()
        super().__init__(ledger)
        described = {"class": "LedgerAccounts", "people": roster.people, "roster": roster.fingerprint()}
        self.ledger.register(
            StreamSpec(
                name=stream,
                guarantee=self._guarantee.to_json(),
                mechanism=json.dumps(described, sort_keys=True),
                bins=roster.levels,
                domain=None,
                max_contribution=1,
            )
        )

    def _forget(self) -> None:
        """Drop what was derived from the ledger, to derive it anew."""
        self._accounts = PersonalAccounts(self.roster, self.w)
        self._seen = 0
        self._own: set[int] = set()

    def release(self, question: str, measure: Callable[[PersonalMeter], Values]) -> PersonalRelease:
        """The answer to ``question``: from the ledger if it was given before, else ``measure``d, charged and recorded.

        ``question`` is public and says which measurement of which data it is: two that differ need different texts.
        """
        with self.ledger.transaction(self.stream) as transaction:
            self._replay(transaction.charges(after=self._seen))
            stored = transaction.state()
            answered = Answered() if stored is None else decode(stored.header, stored.arrays, Answered)
            if question in answered.questions:
                release = transaction.release_at(answered.questions.index(question))
                assert release is not None
                return PersonalRelease(release, self._charged(transaction.charges(after=0), release.t))
            try:
                return self._measured(transaction, answered, question, measure)
            except BaseException:
                # What this process derived may now run ahead of the ledger.
                self._forget()
                raise

    def spent(self) -> list[Fraction]:
        """What a person of each level has spent, in the window that ends with the latest charge."""
        self._replay(self.ledger.charges(self.stream, after=self._seen))
        return self._accounts.spent()

    def left(self) -> list[Fraction]:
        """What a person of each level has left in that window."""
        return [own - paid for own, paid in zip(self.roster.budgets, self.spent(), strict=True)]

    def _measured(
        self, transaction: Transaction, answered: Answered, question: str, measure: Callable[[PersonalMeter], Values]
    ) -> PersonalRelease:
        meter = PersonalMeter(self._accounts)
        t = len(answered.questions)
        try:
            values = measure(meter)
            state = encode(Answered([*answered.questions, question]))
        except BaseException as error:
            # Charges stay: trying again until it works would choose by private data which attempt is shown.
            if meter.charges:
                transaction.commit_failure(t, meter.charges, type(error).__name__)
            raise
        charged = meter.charged()
        left = self._guarantee.epsilon - max(self._accounts.spent())
        release = transaction.commit_step(t, meter.charges, state, values, max(charged), left)
        self._own.add(t)
        return PersonalRelease(release, charged)

    def _replay(self, rows: Iterable[ChargeRow]) -> None:
        for row in rows:
            self._seen = row.id
            if row.t not in self._own or row.outcome == "failed":
                self._accounts.replay(row.charge)

    def _charged(self, rows: Iterable[ChargeRow], t: int) -> list[Fraction]:
        accounts = PersonalAccounts(self.roster)
        for row in rows:
            if row.t == t and row.outcome == "released":
                accounts.replay(row.charge)
        return accounts.spent()
