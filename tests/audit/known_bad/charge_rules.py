"""Rules of charging that were once in the Meter and lose more than they charge: random programs must find each out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from veilstream.privacy.charge import Charge, Span
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.opening import open_counts, opened
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.running import SealedRunning
from veilstream.trusted.threshold import THRESHOLD_GRID, SealedThreshold
from veilstream.values.values import Values


class _WrongMeter(Meter):
    """Compares as the Meter does, and charges as ``_charges`` says: for the block, and for a positive."""

    def above(self, threshold: SealedThreshold, x: Sealed, level: float) -> bool:
        other = x.grid > THRESHOLD_GRID or self._sensitivity(x.span, x.l1) > threshold.sensitivity
        if other or not self.is_open(threshold):
            return super().above(threshold, x, level)
        grown, tentative, positive = self._charges(threshold, self._until_now(x.span))
        self._admit([] if grown in self.charges else [grown], tentative=tentative)
        noise = self._noise.laplace(threshold.sensitivity * (1 << THRESHOLD_GRID) / threshold.epsilon_nu, (1,))
        value = (open_counts(x) << (THRESHOLD_GRID - x.grid)) + noise
        answer = bool((value >= round(level * (1 << THRESHOLD_GRID)) + opened(threshold))[0])
        if answer:
            self._admit(positive)
        return answer

    def _charges(self, threshold: SealedThreshold, read: Span) -> tuple[Charge, list[Charge], list[Charge]]:
        raise NotImplementedError


class PositivesForgotten(_WrongMeter):
    """A positive charges its share for the moved secret to the windows up to itself alone.

    A unit that comes later can move the secret as well, and then the positive makes good for it all the same: at a
    claim of 1 a block with some positives lost 1.28, and with more of them 1.85.
    """

    def _charges(self, threshold: SealedThreshold, read: Span) -> tuple[Charge, list[Charge], list[Charge]]:
        block = Span(min(threshold.opened, read.first), self.t)
        secret = Charge(threshold.epsilon_rho, block, threshold.purpose, block=threshold.block)
        shares = [Charge(threshold.epsilon_nu, span, threshold.purpose) for span in (block, read)]
        return secret, shares, shares


class OldDataForFree(_WrongMeter):
    """A block charges the windows since it was opened, though a comparison may read what lies before: 1.6 for 1."""

    def _charges(self, threshold: SealedThreshold, read: Span) -> tuple[Charge, list[Charge], list[Charge]]:
        known = self._accountant.open_block(threshold.block)
        assert known is not None
        block, nu = Span(threshold.opened, self.t), threshold.epsilon_nu
        secret, risen = (
            Charge(known.amount + more, block, threshold.purpose, block=threshold.block) for more in (Fraction(0), nu)
        )
        own = Charge(nu, read, threshold.purpose)
        return secret, [Charge(nu, block, threshold.purpose), own], [risen, own]


class RowsOfThePresent(Meter):
    """A row of a running sum is charged to the present timestamp alone, though it reads all that it sums up."""

    def _admit(self, charges: Sequence[Charge], tentative: Sequence[Charge] = ()) -> None:
        now = Span(self.t, self.t)
        present = [c if c.profile is None else replace(c, span=now, starts=None) for c in charges]
        super()._admit(present, tentative)


class RowsOfOneStep(Meter):
    """A row of a running sum is charged for a unit in one timestamp, where units may be in all of a window."""

    def row_of(self, sums: SealedRunning, mu_squared: Fraction, purpose: str) -> Values:
        once = SealedRunning(
            opened(sums), sums.kernel, sums.start, sums.last, sums.l2 / (self.guarantee.reach or 1), sums.grid
        )
        return super().row_of(once, mu_squared, purpose)


class BuffersOfOneStep(Meter):
    """A correlated answer has noise for a unit in one timestamp, where units may be in all of a window."""

    def _reach(self, purpose: str) -> int:
        return min(1, super()._reach(purpose))


class HalfOfStepTwenty(Meter):
    """One step far from the beginning, and from the end, is charged half of what it loses."""

    def _admit(self, charges: Sequence[Charge], tentative: Sequence[Charge] = ()) -> None:
        if self.t == 20:
            charges, tentative = [_half(charge) for charge in charges], [_half(charge) for charge in tentative]
        super()._admit(charges, tentative)


def _half(charge: Charge) -> Charge:
    return replace(charge, epsilon=charge.epsilon / 2, mu_squared=charge.mu_squared / 4)


def parts_by_position(rows: SealedRows, axes: Sequence[int]) -> list[SealedRows]:
    """The parts of any partition are named 0, 1, 2, ... as if all partitions were one: 2 for 1."""
    parts = rows.parts(axes)
    for number, part in enumerate(parts):
        part.bins = np.array([number], dtype=np.int64)
    return parts
