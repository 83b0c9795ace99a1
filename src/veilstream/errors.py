"""Every error veilstream raises on purpose.

::

    VeilstreamError
    ├── InvalidInput (ValueError)      a parameter or a datum that cannot be accepted
    │   ├── InvalidBudget              epsilon, delta or window outside their limits
    │   ├── InvalidDomain              public bins that are empty, unsorted, too many, ...
    │   ├── UnknownValue               a row outside the public domain or time range
    │   ├── OutOfOrder                 a step that is missing, repeated or in the past
    │   └── BrokenFile                 a file that cannot be read to its end
    ├── BudgetExceeded                 a charge that would pass the guarantee; nothing was drawn
    ├── SealBroken (TypeError)         an attempt to read exact private values
    ├── LedgerError                    the durable record refuses
    │   ├── LedgerBusy                 another process holds it
    │   ├── LedgerFull                 the disk has no room
    │   ├── LedgerMismatch             it belongs to another stream, mechanism or guarantee
    │   └── LedgerVersion              it was written by a newer veilstream
    ├── CheckFailed (AssertionError)   a mechanism that breaks a rule of the conformance suite
    └── MissingExtra (ImportError)     an optional part is not installed

A message says what, its value, the limit, and what happened to the data.
"""

from __future__ import annotations


class VeilstreamError(Exception):
    """Root of the tree."""


class InvalidInput(VeilstreamError, ValueError):
    """A parameter or a datum that cannot be accepted."""


class InvalidBudget(InvalidInput):
    """An epsilon, delta or window outside its limits."""


class InvalidDomain(InvalidInput):
    """Public bins that cannot be used."""


class UnknownValue(InvalidInput):
    """A row outside the public domain or the public time range."""


class OutOfOrder(InvalidInput):
    """A step that is missing, repeated or in the past."""


class BrokenFile(InvalidInput):
    """A file that cannot be read to its end."""


class BudgetExceeded(VeilstreamError):
    """A charge that would pass the guarantee; it was refused before anything was drawn."""


class SealBroken(VeilstreamError, TypeError):
    """An attempt to read exact private values without paying for them."""


class LedgerError(VeilstreamError):
    """The durable record refuses."""


class LedgerBusy(LedgerError):
    """Another process holds the ledger."""


class LedgerFull(LedgerError):
    """The disk under the ledger has no room."""


class LedgerMismatch(LedgerError):
    """The ledger belongs to another stream, mechanism or guarantee."""


class LedgerVersion(LedgerError):
    """The ledger was written by a newer veilstream."""


class CheckFailed(VeilstreamError, AssertionError):
    """A mechanism that breaks a rule of the conformance suite."""


class MissingExtra(VeilstreamError, ImportError):
    """An optional part is not installed; the message says how to install it."""
