"""Every error veilstream raises on purpose.

::

    VeilstreamError
    ├── InvalidInputError (ValueError)     a parameter or a datum that cannot be accepted
    │   ├── InvalidBudgetError             epsilon, delta or window outside their limits
    │   ├── InvalidDomainError             public bins that are empty, unsorted, too many, ...
    │   ├── UnknownValueError              a row outside the public domain or time range
    │   ├── OutOfOrderError                a step that is missing, repeated or in the past
    │   └── UnreadableFileError            a file that cannot be read to its end
    ├── BudgetExceededError                a charge that would pass the guarantee; nothing was drawn
    ├── ChargeError                        a charge of a kind that this stream does not take
    ├── SealedAccessError (TypeError)      an attempt to read exact private values
    ├── LedgerError                        the durable record refuses
    │   ├── LedgerBusyError                another process holds it
    │   ├── LedgerFullError                the disk has no room
    │   ├── LedgerMismatchError            it belongs to another stream, mechanism or guarantee
    │   └── LedgerVersionError             it was written by a newer veilstream
    ├── EngineError                        a cluster or a database failed to do its part
    ├── WorkerError                        a worker process of a long measurement died
    ├── CheckFailedError (AssertionError)  a mechanism that breaks a rule of the conformance suite
    └── MissingExtraError (ImportError)    an optional part is not installed

An error carries what was wrong as fields, ``name``, ``value`` and ``limit``, where one parameter is to blame, and says
what happened to data and budget as its ``outcome``. No field and no message ever holds a private value.

>>> error = InvalidInputError(name="window", value=0, limit="a whole number from 1")
>>> str(error), error.name, error.value, error.limit
('window 0: a whole number from 1; nothing was released', 'window', 0, 'a whole number from 1')
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Final

LONGEST_SHOWN: Final = 60
_ABSENT: Final = object()


def shown(value: object) -> str:
    """A public value as a message may quote it: short, and exact numbers in their own notation.

    >>> shown(Fraction(1, 3)), shown("1h"), shown([0] * 1000)
    ('1/3', "'1h'", '[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,...')
    """
    try:
        text = str(value) if isinstance(value, Fraction | Decimal | int | float | PurePath) else repr(value)
    except ValueError:
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


class VeilstreamError(Exception):
    """Root of the tree.

    Give either ``problem``, a sentence, or ``name`` (of a parameter, ``of`` which part), its public ``value`` and its
    ``limit``. ``outcome`` says what happened; by default the class says it.
    """

    outcome: str = "nothing was released"

    def __init__(
        self,
        problem: str | None = None,
        *,
        name: str | None = None,
        of: str | None = None,
        value: object = _ABSENT,
        limit: str | None = None,
        outcome: str | None = None,
    ) -> None:
        self.name = name
        self.value = None if value is _ABSENT else value
        self.limit = limit
        if outcome is not None:
            self.outcome = outcome
        if problem is None:
            given = "" if value is _ABSENT else f" {shown(value)}"
            owner = f" of {of}" if of else ""
            problem = f"{name}{given}{owner}: {limit}"
        super().__init__(f"{problem}; {self.outcome}" if self.outcome else problem)


class InvalidInputError(VeilstreamError, ValueError):
    """A parameter or a datum that cannot be accepted."""


class InvalidBudgetError(InvalidInputError):
    """An epsilon, delta or window outside its limits."""


class InvalidDomainError(InvalidInputError):
    """Public bins that cannot be used."""


class UnknownValueError(InvalidInputError):
    """A row outside the public domain or the public time range."""


class OutOfOrderError(InvalidInputError):
    """A step that is missing, repeated or in the past."""


class UnreadableFileError(InvalidInputError):
    """A file that cannot be read to its end."""


class BudgetExceededError(VeilstreamError):
    """A charge that would pass the guarantee; it was refused before anything was drawn."""


class ChargeError(VeilstreamError):
    """A charge of a kind that this stream does not take, whatever its size; nothing was drawn."""


class SealedAccessError(VeilstreamError, TypeError):
    """An attempt to read exact private values without paying for them."""

    outcome = ""


class LedgerError(VeilstreamError):
    """The durable record refuses."""


class LedgerBusyError(LedgerError):
    """Another process holds the ledger."""


class LedgerFullError(LedgerError):
    """The disk under the ledger has no room."""


class LedgerMismatchError(LedgerError):
    """The ledger belongs to another stream, mechanism or guarantee."""


class LedgerVersionError(LedgerError):
    """The ledger was written by a newer veilstream."""


class EngineError(VeilstreamError):
    """A cluster or a database failed to do its part; what it says may quote rows, so its own message is left out."""


class WorkerError(VeilstreamError):
    """A worker process of a long measurement died."""

    outcome = "finished measurements are kept"


class CheckFailedError(VeilstreamError, AssertionError):
    """A mechanism that breaks a rule of the conformance suite."""

    outcome = ""


class MissingExtraError(VeilstreamError, ImportError):
    """An optional part is not installed; the message says how to install it."""

    outcome = ""
