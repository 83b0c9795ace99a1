"""Standard streams that may be closed, full or of any encoding."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from veilstream.cli.problems import UnwritableError


class _Stream:
    """A text stream whose encoding refuses nothing; ``failed`` decides what a failed write means."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")

    def failed(self, error: OSError) -> None:
        """The stream did not take what was written."""

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self.failed(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self.failed(error)

    def silence(self) -> None:
        """Lead the stream to nowhere, so that what is still buffered does not fail again at exit."""
        with suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Reports(_Stream):
    """Stdout: if it cannot be written, whoever waits for the report must learn that there is none."""

    def failed(self, error: OSError) -> None:
        raise UnwritableError(error.strerror or "it cannot be written", broken=isinstance(error, BrokenPipeError))


class Notes(_Stream):
    """Stderr: what it does not take is lost, and no reason to stop."""


@contextmanager
def standard_streams() -> Generator[tuple[Reports, Notes]]:
    """Stdout and stderr for the time of a command, whatever state they came in."""
    _fill_closed()
    former = sys.stdout, sys.stderr
    reports, notes = Reports(sys.stdout), Notes(sys.stderr)
    sys.stdout, sys.stderr = reports, notes
    try:
        yield reports, notes
    finally:
        sys.stdout, sys.stderr = former


def _fill_closed() -> None:
    """Put something behind descriptors that came closed, so that no ledger takes their numbers and is written over."""
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, flags)
    # What is open for reading alone refuses to be written, as a closed stdout must.
    given: list[Any] = [sys.stdout, sys.stderr]
    if given[0] is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if given[1] is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
