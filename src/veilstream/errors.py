"""Every error veilstream raises on purpose.

::

    VeilstreamError
    ├── InvalidInputError (ValueError)     a parameter or a datum that cannot be accepted
    │   ├── InvalidBudgetError             epsilon, delta or window outside their limits
    │   ├── InvalidDomainError             public bins that are empty, unsorted, too many, ...
    │   ├── UnknownValueError              a row outside the public domain or time range
    │   ├── OutOfOrderError                a step that is missing, repeated or in the past
    │   └── UnreadableFileError            a file that cannot be read to its end
    ├── OutputError                        a table or picture that cannot be written; releases are safe in the ledger
    ├── BudgetExceededError                a charge that would pass the guarantee; nothing was drawn
    ├── ChargeError                        a charge of a kind that this stream does not take
    ├── SealedAccessError (TypeError)      an attempt to read exact private values
    ├── LedgerError                        the durable record refuses
    │   ├── LedgerBusyError                another process holds it
    │   ├── LedgerFullError                the disk has no room
    │   ├── LedgerMismatchError            it belongs to another stream, mechanism or guarantee
    │   └── LedgerVersionError             it was written by a newer veilstream
    ├── SpoolError                         a batch that is not taken; nothing of it was stored
    │   ├── BatchConflictError             a batch id that was used for other content
    │   ├── StaleBatchError                it took too long from its arrival to its commit
    │   └── SpoolFullError                 the spool holds as many rows as it may
    ├── ClockJumpError                     so many steps are due at once that the clock is rather wrong
    ├── EngineError                        a cluster or a database failed to do its part
    ├── WorkerError                        a worker process of a long measurement died
    ├── CheckFailedError (AssertionError)  a mechanism that breaks a rule of the conformance suite
    └── MissingExtraError (ImportError)    an optional part is not installed

An error carries what was wrong as fields, ``name``, ``value`` and ``limit``, where one parameter is to blame, says
what happened to data and budget as its ``outcome``, and what to do as its ``next_step``. No message ever holds
anything of private rows, and of the fields only ``operator_note``, which the command line prints on stderr alone.

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
        plain = isinstance(value, Fraction | Decimal | int | float | PurePath) or _quoted(value)
        text = str(value) if plain else repr(value)
    except ValueError:
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def _quoted(value: object) -> bool:
    """Whether a text has quotes around it already, as the label of a ledger has."""
    return isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == "'"


def _named(problem: str, limit: str | None) -> tuple[str | None, str | None]:
    """What a sentence such as ``edges: 1 given, at least 2 are needed`` is about, and what is wrong with it.

    >>> _named("edges: 1 given, at least 2 are needed", None)
    ('edges', '1 given, at least 2 are needed')
    """
    name, colon, rest = problem.partition(": ")
    about_one = bool(colon) and len(name) <= LONGEST_SHOWN
    return (name, limit or rest) if about_one else (None, limit)


class VeilstreamError(Exception):
    """Root of the tree.

    Give either ``problem``, a sentence that begins with what it is about and a colon, or ``name`` (of a parameter,
    ``of`` which part), its public ``value`` and its ``limit``. ``outcome`` says what happened and ``next_step`` what to
    do now; by default the class says both. ``operator_note`` is for whoever holds the private rows, such as how many
    of them are to blame; the message is without it.
    """

    outcome: str = "nothing was released"
    next_step: str = "correct it and try again"

    def __init__(
        self,
        problem: str | None = None,
        *,
        name: str | None = None,
        of: str | None = None,
        value: object = _ABSENT,
        limit: str | None = None,
        outcome: str | None = None,
        next_step: str | None = None,
        operator_note: str | None = None,
    ) -> None:
        self.name = name
        self.value = None if value is _ABSENT else value
        self.limit = limit
        self.operator_note = operator_note
        if outcome is not None:
            self.outcome = outcome
        if next_step is not None:
            self.next_step = next_step
        if problem is None:
            given = "" if value is _ABSENT else f" {shown(value)}"
            owner = f" of {of}" if of else ""
            problem = f"{name}{given}{owner}: {limit}"
        elif name is None:
            self.name, self.limit = _named(problem, limit)
        super().__init__(f"{problem}; {self.outcome}" if self.outcome else problem)


class InvalidInputError(VeilstreamError, ValueError):
    """A parameter or a datum that cannot be accepted."""


class InvalidBudgetError(InvalidInputError):
    """An epsilon, delta or window outside its limits."""

    next_step = "write a budget as 1, 0.5 or 1/2, a window as 24, 24h or user"


class InvalidDomainError(InvalidInputError):
    """Public bins that cannot be used."""

    next_step = (
        'write each attribute as a list of values, {"edges": [0, 18, 65]} or {"low": 0, "high": 100, "cells": 10}'
    )


class UnknownValueError(InvalidInputError):
    """A row outside the public domain or the public time range."""

    next_step = 'widen the public domain or range, or leave such rows out with unknown="drop" (--unknown drop)'


class OutOfOrderError(InvalidInputError):
    """A step that is missing, repeated or in the past."""

    next_step = "feed the steps in order, each once"


class UnreadableFileError(InvalidInputError):
    """A file that cannot be read to its end."""

    next_step = "repair or replace the file and try again"


class OutputError(VeilstreamError):
    """A table, picture or page that cannot be written; what was released is safe in the ledger."""

    outcome = "the file is as it was before; releases are safe in the ledger"
    next_step = "make room or choose another place, then run the same command again: what was released costs nothing"


class BudgetExceededError(VeilstreamError):
    """A charge that would pass the guarantee; it was refused before anything was drawn."""

    next_step = "repeat the last release (--exhausted repeat) until the window has moved on, or plan with more epsilon"


class ChargeError(VeilstreamError):
    """A charge of a kind that this stream does not take, whatever its size; nothing was drawn."""

    next_step = "use a mechanism that charges as this stream does, or begin another stream"


class SealedAccessError(VeilstreamError, TypeError):
    """An attempt to read exact private values without paying for them."""

    outcome = ""
    next_step = "ask the Meter, which charges before it answers"


class LedgerError(VeilstreamError):
    """The durable record refuses."""

    next_step = "check the path or URL of the ledger; docs/ledger.md says what a ledger needs"


class LedgerBusyError(LedgerError):
    """Another process holds the ledger."""

    next_step = "wait until the other process has finished, then run it again"


class LedgerFullError(LedgerError):
    """The disk under the ledger has no room."""

    next_step = "make room on the disk, then run it again"


class LedgerMismatchError(LedgerError):
    """The ledger belongs to another stream, mechanism or guarantee."""

    next_step = "give the settings on record; a stream under another name would cost the same people both promises"


class LedgerVersionError(LedgerError):
    """The ledger was written by another version of veilstream."""

    next_step = "use the version of veilstream that wrote it, or a newer one"


class SpoolError(VeilstreamError):
    """A batch that the spool does not take; nothing of it was stored."""

    outcome = "nothing was stored"


class BatchConflictError(SpoolError):
    """A batch id that was used for other content."""


class StaleBatchError(SpoolError):
    """A batch that took too long from its arrival to its commit."""


class SpoolFullError(SpoolError):
    """A spool that takes no batches until steps have closed or there is room on its disk."""

    next_step = "send the batch again later; the operator makes room if it stays so"


class ClockJumpError(VeilstreamError):
    """So many steps are due at once that the machine's clock is rather wrong; only an operator can tell."""

    outcome = "no step was closed"


class EngineError(VeilstreamError):
    """A cluster or a database failed to do its part; what it says may quote rows, so its own message is left out."""


class WorkerError(VeilstreamError):
    """A worker process of a long measurement died."""

    outcome = "finished measurements are kept"
    next_step = "run it again to go on"


class CheckFailedError(VeilstreamError, AssertionError):
    """A mechanism that breaks a rule of the conformance suite."""

    outcome = ""
    next_step = "correct the mechanism; the rule is in veilstream.testing.checks"


class MissingExtraError(VeilstreamError, ImportError):
    """An optional part is not installed; the message says how to install it."""

    outcome = ""
    next_step = "install the part that the message names"
