"""Exit codes, and errors as one clear line or as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from veilstream.errors import BudgetExceededError, LedgerError, VeilstreamError, shown

DEBUG = "VEILSTREAM_DEBUG"
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The root of a wrong command line; typer carries its own copy of click in some versions."""


class ExitCode(IntEnum):
    OK = 0
    INTERNAL = 1
    USAGE = 2
    BUDGET = 3
    LEDGER = 4
    INTERRUPTED = 130


def exit_code(error: BaseException) -> ExitCode:
    """What a script learns from an error.

    >>> exit_code(LedgerError("..."))
    <ExitCode.LEDGER: 4>
    """
    match error:
        case BudgetExceededError():
            return ExitCode.BUDGET
        case LedgerError():
            return ExitCode.LEDGER
        case VeilstreamError():
            return ExitCode.USAGE
        case KeyboardInterrupt() | typer.Abort():
            return ExitCode.INTERRUPTED
        case _ if isinstance(error, UsageError):
            return ExitCode.USAGE
        case _:
            return ExitCode.INTERNAL


def message_of(error: BaseException) -> str:
    """One line for a person. What an unexpected error says may quote private rows, so it is kept back."""
    if isinstance(error, VeilstreamError):
        return " ".join(str(error).split())
    if isinstance(error, UsageError):
        return " ".join(str(getattr(error, "format_message", error.__str__)()).split())
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "interrupted; nothing more was released, the same command goes on where it stopped"
    return (
        f"internal error of type {type(error).__name__}; its text may quote private rows and is not shown "
        f"(set {DEBUG}=1 to see it)"
    )


def fields_of(error: BaseException) -> dict[str, str | None]:
    """What a program can read of an error. The operator's note is not among it: it is about private rows.

    >>> fields_of(VeilstreamError(name="window", value=0, limit="at least 1"))
    {'name': 'window', 'value': '0', 'limit': 'at least 1', 'outcome': 'nothing was released',
    'next_step': 'correct it and try again'}
    """
    if not isinstance(error, VeilstreamError):
        return {}
    return {
        "name": error.name,
        "value": None if error.value is None else shown(error.value),
        "limit": error.limit,
        "outcome": error.outcome,
        "next_step": error.next_step,
    }


def _advice(error: BaseException) -> str:
    """The next step, and on a line of its own what only the operator may see."""
    if not isinstance(error, VeilstreamError):
        return ""
    private = f"\nfor the operator alone, do not publish: {error.operator_note}" if error.operator_note else ""
    return f". Next: {error.next_step}{private}"


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


class ReportingGroup(TyperGroup):
    """Runs commands and turns every error into a line on stderr, JSON if asked for, and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        try:
            result = super().main(
                given or ["--help"],
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except BrokenPipeError:
            # The reader of our output has seen enough. What is still buffered must not fail again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(ExitCode.OK)
        except (Exception, KeyboardInterrupt) as error:
            code, message = exit_code(error), message_of(error)
            if code is ExitCode.INTERNAL and os.environ.get(DEBUG):
                raise
            sys.stderr.write(f"error: {message}{_advice(error)}\n")
            if "--json" in given:
                print_json({"error": {"type": type(error).__name__, "message": message, **fields_of(error)}})
            sys.exit(code)
        if standalone_mode:
            sys.exit(result if isinstance(result, int) else ExitCode.OK)
        return result
