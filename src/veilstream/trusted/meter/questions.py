"""What every kind of answer needs: a charge that is admitted, the sensitivity, the draw."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.noise.scale import LARGEST_SCALE
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Names, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed

D = TypeVar("D", np.bool_, np.int64)

MAX_SCALE = LARGEST_SCALE
"""The widest noise that a charge may ask for."""


class NoiseSource(Protocol):
    """What the Meter draws from: ``SecureNoise`` for releases, a seeded sampler in simulations."""

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]: ...
    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]: ...
    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int: ...


class Questions:
    """The part of a Meter that charges: kinds of answers are built on it, and nothing else is."""

    def __init__(self, accountant: Accountant, noise: NoiseSource, t: int) -> None:
        accountant.advance(t)
        self._accountant = accountant
        self._noise = noise
        self._guarantee = accountant.answer_guarantee
        self.t = t
        self.charges: list[Charge] = []
        self._rows_used: set[tuple[int, int]] = set()

    @property
    def guarantee(self) -> Guarantee:
        """What answers are measured by: the stream's guarantee, or the share of one timestamp."""
        return self._guarantee

    @property
    def left(self) -> Fraction:
        """Pure epsilon left for one more answer about this step: a public number."""
        return self._accountant.answer_left

    def branch(self, decision: NDArray[D]) -> NDArray[D]:
        """``decision`` as it is: truth values or whole numbers made of what this meter answered.

        A mechanism that branches on noisy numbers asks here first, ``if meter.branch(noisy > 5):``, so that a meter
        that simulates many runs at once can see where they part. It is public and costs nothing.

        >>> from veilstream.noise import SecureNoise
        >>> meter = Questions(Accountant(Guarantee(1, w=1), bins=2), SecureNoise(), t=0)
        >>> meter.branch(np.array([True, False])).tolist()
        [True, False]
        """
        decision = np.asarray(decision)
        if decision.dtype.kind not in "biu":
            raise InvalidInputError(
                name="decision of type", value=str(decision.dtype), limit="truth values or whole numbers are needed"
            )
        return decision

    def _draw_shape(self, size: int) -> tuple[int, ...]:
        """The shape of a draw of ``size`` numbers."""
        return (size,)

    def _admit(self, charges: Sequence[Charge], tentative: Sequence[Charge] = ()) -> None:
        self._accountant.admit(charges, tentative)
        self.charges.extend(charges)

    def _charge(self, x: Sealed, epsilon: Fraction, purpose: str) -> Charge:
        bins = self._named(x.bins)
        if bins is None or x.starts is None:
            return Charge(epsilon, self._until_now(x.span), purpose, bins=bins)
        last = min(self._until_now(x.span).last, x.span.last)
        first = int(x.starts.min(initial=last))
        return Charge(epsilon, Span(first, last), purpose, bins=bins, starts=x.starts)

    def _named(self, bins: Names | None) -> Names | None:
        return bins if self.guarantee.w == 1 else None

    def _until_now(self, span: Span) -> Span:
        if span.last > self.t:
            raise InvalidInputError(f"data of t={span.last} at step {self.t}: it is not past yet")
        return Span(span.first, self.t)

    def _sensitivity(self, span: Span, per_step: Fraction) -> Fraction:
        times = self.guarantee.steps_at_once(span.steps)
        return per_step if times == 1 else per_step * times

    def _positive(self, amount: Fraction, purpose: str) -> None:
        if not amount.numerator > 0:
            raise InvalidBudgetError(f"charge {amount} for {purpose!r}: it must be above 0")
