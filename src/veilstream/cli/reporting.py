"""Runs commands; every error is one clear line on stderr, JSON if asked for, and an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from typer.core import TyperGroup

from veilstream.cli.problems import DEBUG, ExitCode, UnwritableError, for_words, problem_of, releases_committed
from veilstream.cli.streams import Notes, Reports, standard_streams
from veilstream.errors import InvalidInputError
from veilstream.interrupts import finish_on_interrupt, raise_on_interrupt

__all__ = ["ExitCode", "ReportingGroup", "print_json"]


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
        before = releases_committed()
        with standard_streams() as (reports, notes):
            try:
                raise_on_interrupt()
                _refuse_nul(given)
                result = super().main(
                    given or ["--help"],
                    prog_name,
                    complete_var,
                    standalone_mode=False,
                    windows_expand_args=windows_expand_args,
                    **extra,
                )
                if type(result) is int and result == ExitCode.INTERRUPTED:
                    # What typer makes of Ctrl-C, without a word; commands that say a word give an ExitCode.
                    raise KeyboardInterrupt
                reports.flush()
            except SystemExit:
                # Completion has answered the shell.
                finish_on_interrupt()
                raise
            except BaseException as error:
                finish_on_interrupt()
                code = _report(error, releases_committed() - before, given, reports, notes)
                if code is ExitCode.INTERNAL and os.environ.get(DEBUG):
                    raise
                sys.exit(code)
        finish_on_interrupt()
        if standalone_mode:
            sys.exit(result if isinstance(result, int) else ExitCode.OK)
        return result


def _refuse_nul(words: Sequence[str]) -> None:
    """Refuse what no shell can hand over, and no file can be called: only a program that calls this one can do so."""
    for place, word in enumerate(words):
        if "\0" in word:
            option = next((name for name in reversed(words[:place]) if name.startswith("--")), "command")
            raise InvalidInputError(
                name=option.lstrip("-"), value=word, limit="it has a NUL character", outcome="nothing was done"
            )


def _report(error: BaseException, released: int, words: Sequence[str], reports: Reports, notes: Notes) -> ExitCode:
    """Say what went wrong and give the exit code."""
    if isinstance(error, UnwritableError):
        reports.silence()
        if error.broken and not released:
            # The reader of our output has seen enough.
            return ExitCode.OK
    problem = for_words(problem_of(error, released), words)
    notes.write(problem.line)
    notes.flush()
    if "--json" in words:
        with suppress(UnwritableError):
            print_json({"error": problem.as_json()})
            reports.flush()
    return problem.code
