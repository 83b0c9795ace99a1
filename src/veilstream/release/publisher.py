"""The loop that feeds snapshots through a mechanism and commits every step whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilstream.data import Domain
from veilstream.errors import InvalidInputError, OutOfOrderError
from veilstream.mechanisms.protocols import StreamMechanism, accountant_for, describe
from veilstream.noise import SecureNoise
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.codec import decode, encode
from veilstream.storage.holder import LedgerHolder
from veilstream.storage.ledger import Ledger, StreamSpec, Transaction
from veilstream.trusted.counts import Sealed, UndatedCounts
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.meter import Meter
from veilstream.values.release import Release
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
    There is no seed: see :func:`veilstream.simulate` for repeatable runs.

    >>> import numpy as np, veilstream as vs
    >>> p = vs.Publisher(bins=3, guarantee=vs.Guarantee("1", w=24), mechanism=vs.STREAMS["uniform"]())
    >>> r = p.feed(np.array([120, 80, 4]))
    >>> r.t, r.fresh, r.spent, r.left, r.values.shape
    (0, True, Fraction(1, 24), Fraction(23, 24), (3,))
    """

    def __init__(
        self,
        bins: int | Domain,
        guarantee: Guarantee,
        mechanism: StreamMechanism[S],
        ledger: str | Path | Ledger | None = None,
        *,
        stream: str = "default",
        max_contribution: int = 1,
    ) -> None:
        self.domain = bins if isinstance(bins, Domain) else None
        self.bins = bins.bins if isinstance(bins, Domain) else bins
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
        self._first = mechanism.start(guarantee, self.bins)
        super().__init__(ledger)
        self.ledger.register(
            StreamSpec(
                name=stream,
                guarantee=guarantee.to_json(),
                mechanism=describe(mechanism),
                bins=self.bins,
                domain=self.domain.fingerprint() if self.domain else None,
                max_contribution=max_contribution,
            )
        )
        self._noise = SecureNoise()
        self._forget()

    def _forget(self) -> None:
        """Drop what was derived from the ledger, to derive it anew."""
        self._accountant = accountant_for(self.mechanism, self.guarantee, self.bins)
        self._seen = 0
        self._state: S = self._first
        self._at: int | None = None

    def feed(self, snapshot: Sealed | NDArray[Any], t: int | None = None) -> Release:
        """Publish the snapshot of step ``t`` (by default the one after the last).

        ``snapshot`` is a 1-D array of whole, non-negative counts, or a Sealed from bounded events.
        """
        try:
            now = self._sealed(snapshot)
        finally:
            # A crash reporter that records local variables must not find the counts.
            del snapshot
        if isinstance(now, Sealed):
            t = self._accepted(now, t)
        with self.ledger.transaction(self.stream) as transaction:
            head = transaction.head
            step = t if t is not None else 0 if head is None else head + 1
            stored = transaction.release_at(step)
            if stored is not None:
                return stored
            _in_order(step, head)
            try:
                return self._step(transaction, now if isinstance(now, Sealed) else now.at(step), step)
            except BaseException:
                # What this process derived may now run ahead of the ledger.
                self._forget()
                raise

    def skip(self) -> Release:
        """Repeat the last release for the next step, at no cost and without its data.

        The way past a step that cannot be paid for, because earlier attempts at it were charged and failed: budget
        comes back as the window moves on. The mechanism's state stays as it is.
        """
        with self.ledger.transaction(self.stream) as transaction:
            last = None if transaction.head is None else transaction.release_at(transaction.head)
            stored = transaction.state()
            if last is None or stored is None:
                raise OutOfOrderError(
                    name="stream", value=self.stream, limit="nothing was released yet that could be repeated"
                )
            self._catch_up(transaction)
            self._accountant.advance(last.t + 1)
            self._at = last.t + 1
            values = Values(last.values, last.std, last.law, fresh=False)
            left = self._accountant.nominal_left
            return transaction.commit_step(last.t + 1, [], stored, values, Fraction(0), left)

    def _sealed(self, snapshot: Sealed | NDArray[Any]) -> Sealed | UndatedCounts:
        try:
            if isinstance(snapshot, Sealed):
                return snapshot
            return UndatedCounts(checked_counts(snapshot, self.bins), self.max_contribution, self._shape)
        finally:
            del snapshot

    def _accepted(self, now: Sealed, t: int | None) -> int:
        if now.span.steps != 1 or now.size != self.bins or now.l1 > self.max_contribution or now.grid:
            raise InvalidInputError(
                f"snapshot of {now.size} bins over {now.span.steps} steps with max_contribution={now.l1}: the stream "
                f"takes {self.bins} bins of one step with max_contribution ≤ {self.max_contribution}"
            )
        wanted = self.guarantee.presence_rule
        if wanted is not None and now.presence_rule != wanted:
            raise InvalidInputError(
                name="snapshot",
                value=f"bounded by the presence rule {now.presence_rule}",
                limit=f"the stream promises {self.guarantee}; bound the events with presence=guarantee",
            )
        if t is not None and t != now.span.first:
            raise InvalidInputError(f"t={t} for a snapshot of step {now.span.first}")
        return now.span.first

    def _step(self, transaction: Transaction, now: Sealed, t: int) -> Release:
        self._catch_up(transaction)
        self._noise.renew()
        meter = Meter(self._accountant, self._noise, t)
        try:
            state, values = self.mechanism.step(self._state, now, meter)
            if values.numbers.shape != (self.bins,):
                raise InvalidInputError(
                    f"{type(self.mechanism).__name__} returned values of shape {values.numbers.shape} for "
                    f"{self.bins} bins"
                )
            encoded = encode(state)
        except BaseException as error:
            # Charges stay: trying again until it works would choose by private data which attempt is shown.
            if meter.charges:
                transaction.commit_failure(t, meter.charges, type(error).__name__)
            raise
        left = self._accountant.nominal_left
        spent = newly_spent(meter.charges, self._accountant.guarantee)
        release = transaction.commit_step(t, meter.charges, encoded, values, spent, left)
        self._state, self._at = state, t
        # Nobody else could charge the stream since ``_catch_up``: it need not read these charges again.
        self._seen = max(self._seen, transaction.last_charge)
        return release

    def _catch_up(self, transaction: Transaction) -> None:
        for row in transaction.charges(after=self._seen):
            self._seen = row.id
            if self._accountant.now is None or row.t > self._accountant.now:
                self._accountant.advance(row.t)
            self._accountant.replay(row.charge)
        if transaction.head != self._at:
            stored = transaction.state()
            assert stored is not None
            self._state = decode(stored.header, stored.arrays, type(self._first))
            self._at = transaction.head


@hide_frames
def checked_counts(counts: NDArray[Any], bins: int) -> NDArray[np.int64]:
    """A 1-D vector of whole, non-negative counts as int64, or a clear error that names no value."""
    array = np.asarray(counts)
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


def newly_spent(charges: Sequence[Charge], guarantee: Guarantee) -> Fraction:
    """What charges of one step add to the present window in epsilon: Gaussian ones by their share of μ².

    Of a block that was open before, only what its cost rose by is new.
    """
    spent = sum((charge.epsilon for charge in charges if charge.block is None), start=Fraction(0))
    blocks: dict[int, list[Charge]] = {}
    for charge in charges:
        if charge.block is not None and charge.epsilon:
            blocks.setdefault(charge.block, []).append(charge)
    for same in blocks.values():
        spent += same[-1].epsilon - (same[0].epsilon if same[0].span.steps > 1 else 0)
    squared = sum((charge.mu_squared for charge in charges), start=Fraction(0))
    if squared:
        spent += (guarantee.epsilon - guarantee.pure) * squared / guarantee.mu_squared
    return spent


def _in_order(t: int, head: int | None) -> None:
    if type(t) is not int:
        raise InvalidInputError(f"t={t!r}: a whole number is needed")
    if head is None or t == head + 1:
        return
    if t <= head:
        raise OutOfOrderError(name="step", value=t, limit=f"the stream is at {head} already and never held it")
    missing = f"step {head + 1} is" if t == head + 2 else f"steps {head + 1}..{t - 1} are"
    raise OutOfOrderError(f"step {t} after {head}: {missing} missing; feed zeros for empty steps")
