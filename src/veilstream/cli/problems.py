"""What an error means to whoever ran a command: an exit code, one line, a next step, fields for programs."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import IntEnum
from typing import Any, Final

import typer

from veilstream.errors import BudgetExceededError, LedgerError, OutputError, VeilstreamError, shown
from veilstream.extras import extra_of, missing
from veilstream.interrupts import MESSAGE

DEBUG: Final = "VEILSTREAM_DEBUG"
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The root of a wrong command line; typer carries its own copy of click in some versions."""
NO_FILES: Final = (errno.EMFILE, errno.ENFILE)
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class ExitCode(IntEnum):
    """What a script learns from a command; ``veilstream --help`` and docs/quickstart.md list them."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    BUDGET = 3
    LEDGER = 4
    UNREPORTED = 5
    SYSTEM = 6
    INTERRUPTED = 130


MEANING: Final = {
    ExitCode.OK: "done, also when there was nothing new",
    ExitCode.INTERNAL: "a bug",
    ExitCode.USAGE: "wrong usage or input",
    ExitCode.BUDGET: "budget exceeded",
    ExitCode.LEDGER: "trouble with the ledger",
    ExitCode.UNREPORTED: "released, but stdout or a file could not be written; run it again",
    ExitCode.SYSTEM: "the machine refused: no room, no memory, too many open files",
    ExitCode.INTERRUPTED: "interrupted; run it again to go on",
}


class UnwritableError(Exception):
    """Stdout could not be written to its end; ``broken`` if its reader has gone."""

    def __init__(self, why: str, *, broken: bool) -> None:
        super().__init__(why)
        self.broken = broken


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as it is reported. ``operator_note`` is for stderr alone."""

    code: ExitCode
    kind: str
    message: str
    next_step: str
    name: str | None = None
    value: str | None = None
    limit: str | None = None
    outcome: str | None = None
    operator_note: str | None = None

    @property
    def line(self) -> str:
        """The line for a person, and on one of its own what only the operator may see."""
        note = f"\nfor the operator alone, do not publish: {self.operator_note}" if self.operator_note else ""
        return f"error: {self.message}. Next: {self.next_step}{note}\n"

    def as_json(self) -> dict[str, Any]:
        """What a program can read. The operator's note is not among it: it is about private rows."""
        return {
            "type": self.kind,
            "message": self.message,
            "name": self.name,
            "value": self.value,
            "limit": self.limit,
            "outcome": self.outcome,
            "next_step": self.next_step,
        }


def problem_of(error: BaseException, released: int = 0) -> Problem:
    """How to report an error of a run that had committed ``released`` releases before it.

    >>> problem_of(LedgerError("the ledger is busy")).code
    <ExitCode.LEDGER: 4>
    >>> problem_of(OutputError(name="output", value="x.csv", limit="No space left on device"), released=3).code
    <ExitCode.UNREPORTED: 5>
    """
    if isinstance(error, ModuleNotFoundError) and (extra := extra_of(error.name or "")) is not None:
        error = missing(extra, "this command")
    kind = type(error).__name__
    match error:
        case VeilstreamError():
            return _own(error, released)
        case KeyboardInterrupt() | typer.Abort():
            return Problem(ExitCode.INTERRUPTED, kind, MESSAGE, "run it again to go on")
        case UnwritableError():
            code = ExitCode.UNREPORTED if released else ExitCode.SYSTEM
            state = "released, but not reported" if released else "nothing was released"
            again = "run the same command again with a stdout that can be written"
            step = f"{again}: it costs nothing" if released else again
            return Problem(code, kind, f"stdout: {error}; {state}", step, name="stdout", outcome=state)
        case MemoryError():
            return Problem(ExitCode.SYSTEM, kind, f"not enough memory{_stopped(released)}", "ask for less at a time")
        case OSError() if error.errno is not None:
            return _system(error, released)
        case _ if isinstance(error, UsageError):
            return _usage(error)
        case _:
            text = f"internal error of type {kind}; its text may quote private rows and is not shown"
            step = f"report it, with what {DEBUG}=1 in the environment shows if that may be shown"
            return Problem(ExitCode.INTERNAL, kind, text, step)


def _own(error: VeilstreamError, released: int) -> Problem:
    match error:
        case BudgetExceededError():
            code = ExitCode.BUDGET
        case LedgerError():
            code = ExitCode.LEDGER
        case OutputError():
            code = ExitCode.UNREPORTED if released else ExitCode.SYSTEM
        case _:
            code = ExitCode.USAGE
    message = " ".join(str(error).split())
    if code is ExitCode.UNREPORTED:
        message = f"released, but not reported: {message}"
    return Problem(
        code,
        type(error).__name__,
        message,
        error.next_step,
        error.name,
        None if error.value is None else shown(error.value),
        error.limit,
        error.outcome,
        error.operator_note,
    )


def _system(error: OSError, released: int) -> Problem:
    number = error.errno or 0
    if number in NO_FILES:
        step = "allow more open files (ulimit -n 1024) and run it again"
    elif number in NO_ROOM:
        step = "make room on the disk, or raise the limit of file sizes, and run it again"
    else:
        step = "see what the machine lacks, then run it again"
    text = f"the machine refused: {os.strerror(number)}{_stopped(released)}"
    return Problem(ExitCode.SYSTEM, type(error).__name__, text, step)


def _stopped(released: int) -> str:
    return "; what was released before is safe in the ledger" if released else "; nothing was released"


def _usage(error: BaseException) -> Problem:
    """A wrong command line, as typer found it: which option or command is to blame, and what was meant perhaps."""
    given: Any = error
    context = getattr(given, "ctx", None)
    command = "veilstream" if context is None else str(context.command_path)
    text = " ".join(str(getattr(given, "format_message", given.__str__)()).split()).rstrip(".")
    step = f"see '{command} --help'; it ends in an example"
    parameter = getattr(given, "param", None)
    name = getattr(given, "option_name", None) or (None if parameter is None else parameter.name)
    unknown = re.match(r"No such command '([^']+)'", text)
    if unknown is not None and context is not None:
        name = unknown[1]
        known = context.command.list_commands(context)
        near = get_close_matches(name, known, n=1)
        step = f"did you mean '{command} {near[0]}'?" if near else f"choose from {', '.join(known)}"
    if type(error).__name__ == "MissingParameter" and parameter is not None and str(parameter.opts[0]).startswith("--"):
        step = f"give {parameter.opts[0]} ({_meaning(parameter)}); '{command} --help' ends in an example"
    nothing = "nothing was done"
    return Problem(
        ExitCode.USAGE, type(error).__name__, f"{text}; {nothing}", step, name=name or "command", outcome=nothing
    )


def _meaning(parameter: Any) -> str:
    """What an option is, as its help says."""
    told = " ".join(str(getattr(parameter, "help", None) or "").split()).rstrip(".")
    return told[:1].lower() + told[1:] or str(parameter.name)


def for_words(problem: Problem, words: Sequence[str]) -> Problem:
    """The problem with a next step that names the option, where the error knows none and its option was given."""
    flag = f"--{(problem.name or '').replace('_', '-')}"
    typed = next((word for word in words if word == flag or word.startswith(f"{flag}=")), None)
    if typed is None and any(word.startswith(f"{problem.name}=") for word in words):
        flag = typed = f"--set {problem.name}"
    if problem.next_step != VeilstreamError.next_step or typed is None:
        return problem
    command = next((word for word in words if not word.startswith("-")), "")
    return replace(problem, next_step=f"correct {flag}; 'veilstream {command} --help' says what it takes")


def releases_committed() -> int:
    """How many releases this process has committed; what was never loaded has committed none."""
    module = sys.modules.get("veilstream.release.commits")
    return 0 if module is None else int(module.Commits.made)
