"""Answers about points, charged for what a person loses by them and not for what a small move does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from veilstream.errors import ChargeError
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.meter import Meter
from veilstream.trusted.meter.questions import NoiseSource
from veilstream.trusted.points import SealedPlaces
from veilstream.values.values import Values


class PersonMeter(Meter):
    """Answers questions about a public number of points and charges what one person loses, who may be there or not.

    Noise is that of a move by the protected distance. A person who comes, goes or is somewhere else replaces one point
    by another, which is a chain of at most ``moves`` such moves: an answer of ε is charged moves·ε. A vector with
    Laplace noise that knows how far a replacement takes it is charged for that, if it is less (PROOF.md, "Points").

    >>> import numpy as np
    >>> from veilstream.noise import SecureNoise
    >>> from veilstream.privacy.charge import Span
    >>> from veilstream.privacy.guarantee import Guarantee
    >>> from veilstream.trusted.points import SIDE, Metric, SealedPoints
    >>> from veilstream.trusted.statistics.metric import order_scores
    >>> line = SealedPoints(np.array([[9], [3]]), (SIDE,), Fraction(SIDE, 4), Metric.EUCLIDEAN, Span(0, 0))
    >>> meter = PersonMeter(Accountant(Guarantee(1, None), bins=1), SecureNoise(), 0, moves=4)
    >>> _ = meter.select(order_scores(line, 1, bits=4), Fraction(1, 8), "median")
    >>> meter.charges[0].epsilon
    Fraction(1, 2)
    """

    def __init__(self, accountant: Accountant, noise: NoiseSource, t: int, moves: int) -> None:
        super().__init__(accountant, noise, t)
        self._moves = Fraction(moves)
        self._multiple = self._moves

    @hide_frames
    def laplace(self, x: Sealed, epsilon: Fraction, purpose: str) -> Values:
        """``x`` plus noise, for what one person loses by it."""
        if isinstance(x, SealedPlaces):
            self._multiple = min(self._moves, x.replaced / x.l1)
        try:
            return super().laplace(x, epsilon, purpose)
        finally:
            self._multiple = self._moves

    def _admit(self, charges: Sequence[Charge], tentative: Sequence[Charge] = ()) -> None:
        super()._admit([self._for_person(charge) for charge in charges], [self._for_person(one) for one in tentative])

    def _for_person(self, charge: Charge) -> Charge:
        if charge.block is not None or charge.profile is not None:
            raise ChargeError(
                name=f"charge for {charge.purpose!r}",
                value=charge.epsilon,
                limit="of points that are charged for people every answer is charged by itself",
            )
        multiple = self._multiple
        return replace(charge, epsilon=multiple * charge.epsilon, mu_squared=multiple**2 * charge.mu_squared)
