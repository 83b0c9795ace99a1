"""Every error veilstream raises on purpose.

::

    VeilstreamError
    ├── InvalidInputError (ValueError)      a parameter or a datum that cannot be accepted
    │   ├── InvalidBudgetError              epsilon, delta or window outside their limits
    │   ├── InvalidDomainError              public bins that are empty, unsorted, too many, ...
    │   ├── UnknownValueError               a row outside the public domain or time range
    │   ├── OutOfOrderError                 a step that is missing, repeated or in the past
    │   └── UnreadableFileError                 a file that cannot be read to its end
    ├── BudgetExceededError                 a charge that would pass the guarantee; nothing was drawn
    ├── SealedAccessError (TypeError)         an attempt to read exact private values
    ├── LedgerError                    the durable record refuses
    │   ├── LedgerBusyError                 another process holds it
    │   ├── LedgerFullError                 the disk has no room
    │   ├── LedgerMismatchError             it belongs to another stream, mechanism or guarantee
    │   └── LedgerVersionError              it was written by a newer veilstream
    ├── CheckFailedError (AssertionError)   a mechanism that breaks a rule of the conformance suite
    └── MissingExtraError (ImportError)     an optional part is not installed

A message says what, its value, the limit, and what happened to the data.
"""

from __future__ import annotations


class VeilstreamError(Exception):
    """Root of the tree."""


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


class SealedAccessError(VeilstreamError, TypeError):
    """An attempt to read exact private values without paying for them."""


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


class CheckFailedError(VeilstreamError, AssertionError):
    """A mechanism that breaks a rule of the conformance suite."""


class MissingExtraError(VeilstreamError, ImportError):
    """An optional part is not installed; the message says how to install it."""
