"""What a mechanism is: frozen parameters, and a step from (state, sealed data, meter) to (state, public values)."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol, TypeVar

from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values

S = TypeVar("S")


class HistogramMechanism(Protocol):
    """Publishes one histogram for an exact ``epsilon``.

    One that never chooses by data says ``oblivious: ClassVar[bool] = True`` and takes noise of shape (runs, bins). One
    that does choose says ``batchable: ClassVar[bool] = True`` if it does so only through the meter: see
    ``is_batchable``.
    """

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values: ...


class StreamMechanism(Protocol[S]):
    """Publishes a value vector at every timestamp.

    ``start`` checks the parameters against the guarantee and gives the first state, a plain dataclass. ``step`` may
    use the sealed data only through the meter. A mechanism whose choices never depend on data says
    ``oblivious: ClassVar[bool] = True``: simulations then make many runs at once. One that decides through the meter
    says ``batchable``: see ``is_batchable``. One that pays bin by bin and timestamp by timestamp, each up to its share
    of the window, says ``per_timestamp: ClassVar[bool] = True``: see ``accountant_for``.
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
    return Accountant(guarantee, bins, per_timestamp=bool(getattr(mechanism, "per_timestamp", False)))


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
    parts = (mechanism, getattr(mechanism, "histogram", None))
    return all(part is None or getattr(part, "oblivious", False) or getattr(part, "batchable", False) for part in parts)
