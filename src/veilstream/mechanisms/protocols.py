"""What a mechanism is: frozen parameters, and a step from (state, sealed data, meter) to (state, public values)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from veilstream.mechanisms.traits import Traits
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import USUAL_PURE_SHARE, Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.revision import Revision
from veilstream.values.values import Values

S = TypeVar("S")

NEXT_TO_NOTHING: Final = Fraction(1, 1 << 20)
"""The share for pure charges of a stream that makes none."""


@runtime_checkable
class Divides(Protocol):
    """A mechanism that knows how to divide a budget between pure and Gaussian charges."""

    def divided(self, guarantee: Guarantee, bins: int) -> Guarantee: ...


@runtime_checkable
class Explains(Protocol):
    """A mechanism that can say in words how it came to what it published last."""

    def explain(self, state: Any) -> str: ...


@runtime_checkable
class Revises(Protocol):
    """A mechanism that can give steps which it has published new values, from what it released since.

    ``revise`` is the number of last steps that get new values with each release; 0 if none do.
    """

    @property
    def revise(self) -> int: ...
    def revisions(self, state: Any) -> Sequence[Revision]: ...


def revises(mechanism: object) -> bool:
    """Whether releases of the mechanism give earlier steps new values.

    >>> from veilstream.mechanisms.streams import ModelBased, Uniform
    >>> [revises(mechanism) for mechanism in (Uniform(), ModelBased(), ModelBased(revise=2))]
    [False, False, True]
    """
    return isinstance(mechanism, Revises) and mechanism.revise > 0


@runtime_checkable
class HistogramMechanism(Protocol):
    """Publishes one histogram for an exact ``epsilon``.

    What else is known of it are its ``Traits``, class attributes such as ``oblivious: ClassVar[bool] = True``.
    """

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values: ...


@runtime_checkable
class StreamMechanism(Protocol[S]):
    """Publishes a value vector at every timestamp.

    ``start`` checks the parameters against the guarantee and gives the first state, a plain dataclass. ``step`` may
    use the sealed data only through the meter. What else is known of it are its ``Traits``, class attributes such as
    ``oblivious: ClassVar[bool] = True``.
    """

    def start(self, guarantee: Guarantee, bins: int) -> S: ...
    def step(self, state: S, now: Sealed, meter: Meter) -> tuple[S, Values]: ...


def accountant_for(mechanism: object, guarantee: Guarantee, bins: int) -> Accountant:
    """The accountant of a stream of ``mechanism``, which pays per timestamp if the mechanism says so.

    Under a window of w timestamps its Meter then has the guarantee of one timestamp, ε/w, where one unit lies in one
    bin: bins are charged in parallel, and a window costs what its timestamps cost.

    >>> from veilstream.mechanisms.streams import RetroactiveGrouping, Uniform
    >>> [accountant_for(m, Guarantee(1, w=4), 2).answer_guarantee.pure for m in (Uniform(), RetroactiveGrouping())]
    [Fraction(1, 1), Fraction(1, 4)]
    """
    return Accountant(divided(mechanism, guarantee, bins), bins, per_timestamp=Traits.of(mechanism).per_timestamp)


def divided(mechanism: object, guarantee: Guarantee, bins: int) -> Guarantee:
    """The same promise, its budget divided between pure and Gaussian charges as the mechanism will use it.

    A mechanism may say so itself with ``divided(guarantee, bins)``. One that never chooses by data and draws Gaussian
    noise alone leaves next to nothing for pure charges. A division other than the usual one is the holder's choice and
    stays.

    >>> from veilstream.mechanisms.histograms import Gaussian
    >>> from veilstream.mechanisms.streams import Uniform
    >>> g = Guarantee(1, w=10, delta="1e-6")
    >>> all_of_it = divided(Uniform(Gaussian()), g, 1)
    >>> round(float(all_of_it.mu_squared / g.mu_squared) ** 0.5, 2), all_of_it.epsilon, all_of_it.delta == g.delta
    (1.1, Fraction(1, 1), True)
    """
    if guarantee.delta == 0 or guarantee.pure_share != USUAL_PURE_SHARE:
        return guarantee
    if isinstance(mechanism, Divides):
        return mechanism.divided(guarantee, bins)
    drawn = Traits.of(getattr(mechanism, "histogram", None)).gaussian_only
    if drawn and Traits.of(mechanism).oblivious:
        return guarantee.with_pure_share(NEXT_TO_NOTHING)
    return guarantee


def is_batchable(mechanism: object) -> bool:
    """Whether many simulated runs of a mechanism, and of the histogram inside it, can share its steps.

    What the Meter answers then has the runs as its first axis, and so must all that is made of it; ``x[..., bins]`` and
    ``sum(axis=-1)`` do for one run and for many. The mechanism either never branches (``oblivious``) or, by
    ``batchable``, only on what ``Meter.above``, ``select``, ``select_each`` and ``branch`` return, for which all runs
    of a group have the same answer. Arrays in its state are those of all runs, first axis first, or public. An auditor
    gets a million trials that way where it would otherwise get thousands.

    >>> from veilstream.mechanisms.streams import BudgetAbsorption, RetroactiveGrouping, Uniform
    >>> [is_batchable(mechanism) for mechanism in (Uniform(), BudgetAbsorption(), RetroactiveGrouping(window=3))]
    [True, True, False]
    """
    parts = [Traits.of(part) for part in (mechanism, getattr(mechanism, "histogram", None)) if part is not None]
    return all(part.oblivious or part.batchable for part in parts)
