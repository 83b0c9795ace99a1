"""The loop that feeds snapshots through a mechanism and commits every step whole or not at all."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilstream.arguments import checks_arguments
from veilstream.data import Calendar, Domain
from veilstream.data.bounding.distinct import check_people
from veilstream.data.bounding.keyed import Key
from veilstream.data.measures import ValueMeasures
from veilstream.data.values import GRID
from veilstream.errors import InvalidInputError, LedgerMismatchError, OutOfOrderError
from veilstream.mechanisms.identity import describe, recognises
from veilstream.mechanisms.protocols import Explains, Revises, StreamMechanism, revises
from veilstream.mechanisms.session import StreamSession
from veilstream.noise import SecureNoise
from veilstream.privacy.draws import Draw
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import Membership, Population
from veilstream.release.transacting import Book
from veilstream.storage.codec import Encoded, decode
from veilstream.storage.holder import LedgerHolder
from veilstream.storage.keys import key_id
from veilstream.storage.ledger import Ledger, StreamSpec
from veilstream.storage.ledger.anchor import Anchor, StepDates
from veilstream.storage.ledger.spec import VALUES, domain_text, recording_silence
from veilstream.trusted.counts import Sealed, UndatedCounts
from veilstream.trusted.frames import hide_frames
from veilstream.values.origin import Origin, StepTime
from veilstream.values.release import Release
from veilstream.values.revision import Revision
from veilstream.values.values import Values

S = TypeVar("S")

MAX_BINS = 10**7
MAX_COUNT = 1 << 40


class Publisher(LedgerHolder, Generic[S]):
    """Publishes a stream of histograms within one guarantee, on a ledger that survives crashes.

    Each ``feed`` is one transaction: charges, the mechanism's next state and the release are committed together, and
    a Release exists only afterwards. A crash before the commit has revealed nothing; a step fed again returns what was
    released the first time; if a mechanism raises after it was charged, the charges stay.

    ``max_contribution`` is the holder's promise: one person adds at most that much to the counts of one step in total.
    With ``measures`` a bin has several numbers, into which rows with values are divided (docs/measures.md), and
    ``most`` bounds what one person adds to a sum. ``distinct`` says that people of that many last steps are counted: a
    visit shows in as many, so that a window of w steps protects visits within w − distinct + 1. ``allow_empty`` is
    recorded with the stream where it is given: whether steps after the last row are released. There is no seed: see
    :func:`veilstream.simulate` for repeatable runs.

    With ``population`` the stream also keeps the promise about a population, together with all others that draw on
    it: ``draw="shared"`` from its pool, as far as it reaches, ``"reserved"`` a share fixed now. ``unit`` says what
    ``max_contribution`` bounds (docs/population.md).

    >>> import numpy as np, veilstream as vs
    >>> p = vs.Publisher(bins=3, guarantee=vs.Guarantee("1", w=24), mechanism=vs.STREAMS["uniform"]())
    >>> r = p.feed(np.array([120, 80, 4]))
    >>> r.t, r.fresh, r.spent, r.left, r.values.shape
    (0, True, Fraction(1, 24), Fraction(23, 24), (3,))
    """

    @checks_arguments
    def __init__(
        self,
        bins: int | Domain,
        guarantee: Guarantee,
        mechanism: StreamMechanism[S],
        ledger: str | Path | Ledger | None = None,
        *,
        stream: str = "default",
        max_contribution: int = 1,
        calendar: Calendar | None = None,
        key: bytes | Key | None = None,
        allow_empty: bool | None = None,
        population: str | Population | Membership | None = None,
        draw: Draw = "shared",
        unit: str = "people",
        measures: ValueMeasures | None = None,
        most: Fraction | None = None,
        distinct: int | None = None,
    ) -> None:
        self.domain = bins if isinstance(bins, Domain) else None
        check_people(distinct, measures, limited=(guarantee.presence, guarantee.per) != (None, None))
        self.measures, self.most, self.distinct = measures, most, distinct
        _require_room(distinct or 1, guarantee, population)
        self.bins = (bins.bins if isinstance(bins, Domain) else bins) * (1 if measures is None else measures.parts)
        self._shape = self.domain.shape if self.domain else (self.bins,)
        if type(self.bins) is not int or not 1 <= self.bins <= MAX_BINS:
            raise InvalidInputError(name="bins", value=bins, limit=f"a whole number from 1 to {MAX_BINS}")
        if type(max_contribution) is not int or not 1 <= max_contribution <= MAX_COUNT:
            raise InvalidInputError(
                name="max_contribution", value=max_contribution, limit=f"a whole number from 1 to {MAX_COUNT}"
            )
        self.guarantee = guarantee
        self.mechanism = mechanism
        self.stream = stream
        self.max_contribution = max_contribution
        moved = Fraction(max_contribution) if measures is None else measures.movement(max_contribution, most)[0]
        measured = None if measures is None else measures.to_json(most)
        self._movement = moved
        self._rule = Origin(
            None, guarantee.presence_rule, distinct or 1, measured, None if key is None else key_id(key)
        )
        noise = SecureNoise()

        def session() -> StreamSession[S]:
            return StreamSession(mechanism, guarantee, self.bins, noise)

        first = session()
        # A stream goes on with the kind of state that it began with.
        self._state_types: tuple[type[S], ...] = (type(first.state), *getattr(mechanism, "former_states", ()))
        super().__init__(ledger)
        with self._closing_on_error():
            recorded = self.ledger.register(
                StreamSpec(
                    name=stream,
                    guarantee=guarantee.to_json(),
                    mechanism=describe(mechanism),
                    bins=self.bins,
                    domain=None if self.domain is None else domain_text(self.domain),
                    max_contribution=max_contribution,
                    calendar=None if calendar is None else Anchor.of(calendar).to_json(),
                    key=self._rule.key,
                    per_timestamp=first.accountant.per_timestamp,
                    payload=recording_silence(_payload(measured, distinct), allow_empty),
                    membership=self.ledger.populations.membership(population, draw, unit),
                ),
                lambda recorded: recognises(recorded, mechanism),
                None if self.domain is None else self.domain.fingerprint(),
            )
        self._dates = None if recorded.anchor is None else StepDates(recorded.anchor)
        self._noise = noise
        self._book = Book(self.ledger, stream, session)

    def feed(self, snapshot: Sealed | NDArray[Any], t: int | None = None) -> Release:
        """Publish the snapshot of step ``t`` (by default the one after the last).

        ``snapshot`` is a 1-D array of whole, non-negative counts, or a Sealed from bounded events. ``OutOfOrderError``
        says that a step was left out, ``BudgetExceededError`` that the window has no room for this one.
        """
        try:
            now = self._sealed(snapshot)
        finally:
            # A crash reporter that records local variables must not find the counts.
            del snapshot
        if isinstance(now, Sealed):
            t = self._accepted(now, t)
        with self._book.transaction() as transaction:
            head = transaction.head
            step = t if t is not None else 0 if head is None else head + 1
            stored = transaction.release_at(step)
            if stored is not None:
                return stored
            _in_order(step, head)
            self._book.catch_up(transaction, self._load)
            if self.guarantee.w == 1:
                self._book.foresee(transaction, step, self.guarantee)
            self._noise.renew()
            sealed = now if isinstance(now, Sealed) else now.at(step)
            revise = self._revised if revises(self.mechanism) else None
            return self._book.transact(transaction, step, lambda: self._measured(sealed, step), revise)

    def explain(self) -> str:
        """In plain words how the mechanism came to its last release, for mechanisms that can say so.

        >>> import numpy as np, veilstream as vs
        >>> p = vs.Publisher(bins=1, guarantee=vs.Guarantee("1", w=24), mechanism=vs.STREAMS["model"]())
        >>> p.explain()
        'Nothing was looked at yet.'
        """
        if not isinstance(self.mechanism, Explains):
            return f"{type(self.mechanism).__name__} does not explain its releases."
        with self._book.transaction() as transaction:
            self._book.catch_up(transaction, self._load)
            return self.mechanism.explain(self._book.session.state)

    def revisions(self) -> list[Revision]:
        """New values for the last steps by all that was released since, oldest first: post-processing, at no cost.

        Mechanisms that revise nothing give none. They were published with the last release; ``Ledger.revisions`` has
        those of earlier ones too.

        >>> import numpy as np, veilstream as vs
        >>> p = vs.Publisher(bins=1, guarantee=vs.Guarantee("1", w=8), mechanism=vs.STREAMS["model"](revise=2))
        >>> for count in (40, 42, 47, 51):
        ...     release = p.feed(np.array([count]))
        >>> [(revision.step, revision.version) for revision in p.revisions()]
        [(1, 2), (2, 1)]
        """
        with self._book.transaction() as transaction:
            self._book.catch_up(transaction, self._load)
            return self._revised(self._book.session.state)

    def _revised(self, state: S) -> list[Revision]:
        return list(self.mechanism.revisions(state)) if isinstance(self.mechanism, Revises) else []

    def skip(self) -> Release:
        """Repeat the last release for the next step, at no cost and without its data.

        The way past a step that cannot be paid for, because earlier attempts at it were charged and failed: budget
        comes back as the window moves on. The mechanism's state stays as it is.
        """
        with self._book.transaction() as transaction:
            last = None if transaction.head is None else transaction.release_at(transaction.head)
            if last is None:
                raise OutOfOrderError(
                    name="stream", value=self.stream, limit="nothing was released yet that could be repeated"
                )
            self._book.catch_up(transaction, self._load)
            session, values = self._book.session, Values(last.values, last.std, last.law, fresh=False)

            def repeated() -> tuple[Values, S]:
                session.at(last.t + 1)
                return values, session.state

            return self._book.transact(transaction, last.t + 1, repeated)

    def _load(self, stored: Encoded) -> None:
        self._book.session.state = decode(stored.header, stored.arrays, *self._state_types)

    def _measured(self, now: Sealed, t: int) -> tuple[Values, S]:
        session = self._book.session
        values = session.step(now, t)
        if values.numbers.shape != (self.bins,):
            raise InvalidInputError(
                f"{type(self.mechanism).__name__} returned values of shape {values.numbers.shape} for {self.bins} bins"
            )
        return values, session.state

    def _sealed(self, snapshot: Sealed | NDArray[Any]) -> Sealed | UndatedCounts:
        try:
            if isinstance(snapshot, Sealed):
                return snapshot
            if self.measures is not None:
                raise InvalidInputError("snapshot: a stream of measured values takes what bounded events are made of")
            return UndatedCounts(checked_counts(snapshot, self.bins), self.max_contribution, self._shape)
        finally:
            del snapshot

    def _accepted(self, now: Sealed, t: int | None) -> int:
        grid = 0 if self.measures is None else GRID
        if now.span.steps != 1 or now.size != self.bins or now.l1 != self._movement or now.grid != grid:
            raise InvalidInputError(
                f"snapshot of {now.size} bins over {now.span.steps} steps with max_contribution={now.l1}: the stream "
                f"takes {self.bins} bins of one step with max_contribution = {self._movement}"
            )
        self._check_rule(now.origin)
        if t is not None and t != now.span.first:
            raise InvalidInputError(f"t={t} for a snapshot of step {now.span.first}")
        if now.origin.time is not None:
            self._check_time(now.span.first, now.origin.time)
        return now.span.first

    def _check_rule(self, origin: Origin) -> None:
        """Refuse counts by another rule than the stream's, also by one that limits people more: when their rows go,
        others of the same person take their place."""
        wanted = self._rule
        for name in ("presence_rule", "distinct", "measures", "key"):
            given, known = getattr(origin, name), getattr(wanted, name)
            if given != known and not (name == "key" and None in (given, known)):
                raise InvalidInputError(
                    name="snapshot",
                    value=f"counted with {name} {given}",
                    limit=f"the stream counts with {name} {known}",
                    outcome="nothing was released",
                    next_step="bound the rows as the publisher was opened: with the same presence, distinct, measures "
                    "and most, and the same key",
                )

    def _check_time(self, t: int, time: StepTime) -> None:
        """Refuse counts of another time than the stream's step ``t``; the first counts of a stream say which it is."""
        if self._dates is None and t == 0:
            recorded = self.ledger.record_calendar(self.stream, Anchor.at(time))
            self._dates = None if recorded.anchor is None else StepDates(recorded.anchor)
        if self._dates is None:
            return
        known = self._dates.time_of(t)
        if known != time:
            raise LedgerMismatchError(
                f"snapshot of {time.begins} every {time.every} ({time.zone}): step {t} of stream {self.stream!r} is "
                f"{known.begins} every {known.every} ({known.zone}); people would be charged twice for the same time",
                name="snapshot",
                value=time.begins,
                limit=f"step {t} is {known.begins}",
                outcome="nothing was released",
                next_step="bound the rows with the calendar of the stream, or use another stream",
            )


def _require_room(shown: int, guarantee: Guarantee, population: object) -> None:
    """Refuse a promise that does not fit people of the last steps: a visit is charged in every step that shows it."""
    if shown == 1:
        return
    if population is not None or (guarantee.w is not None and guarantee.w < shown):
        raise InvalidInputError(
            name="distinct",
            value=shown,
            limit=f"a visit is seen in {shown} steps: a window of w steps of visits needs one of w + {shown - 1}, and "
            "a population does not look back as far",
            outcome="nothing was released",
        )


def _payload(measured: str | None, distinct: int | None) -> str:
    """What kind of numbers the stream releases."""
    if distinct not in (None, 1):
        return json.dumps({"kind": "values", "distinct": distinct})
    return VALUES if measured is None else measured


@hide_frames
def checked_counts(counts: NDArray[Any], bins: int) -> NDArray[np.int64]:
    """A 1-D vector of whole, non-negative counts as int64, or a clear error that names no value."""
    try:
        array = np.asarray(counts)
    except (TypeError, ValueError):
        raise InvalidInputError("snapshot: a vector of whole numbers is needed, one for each bin") from None
    if array.shape != (bins,):
        raise InvalidInputError(f"snapshot of shape {array.shape}: the stream has {bins} bins")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array != np.rint(array)).any():
            raise InvalidInputError("snapshot: counts must be whole numbers (no NaN, no fractions)")
    elif array.dtype.kind not in "iu":
        raise InvalidInputError(f"snapshot of type {array.dtype}: whole numbers are needed")
    if array.size and (array.min() < 0 or array.max() > MAX_COUNT):
        raise InvalidInputError(f"snapshot: counts lie between 0 and {MAX_COUNT}")
    return array.astype(np.int64)


def _in_order(t: int, head: int | None) -> None:
    if type(t) is not int:
        raise InvalidInputError(f"t={t!r}: a whole number is needed")
    if head is None or t == head + 1:
        return
    if t <= head:
        raise OutOfOrderError(name="step", value=t, limit=f"the stream is at {head} already and never held it")
    missing = f"step {head + 1} is" if t == head + 2 else f"steps {head + 1}..{t - 1} are"
    raise OutOfOrderError(f"step {t} after {head}: {missing} missing; feed zeros for empty steps")
