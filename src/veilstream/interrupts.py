"""Ctrl-C at moments when no command runs yet, or no longer: one line and an exit code, never a traceback.

Nothing heavy is imported here, so that the command can call it first of all.
"""

import os
import signal
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
MESSAGE: Final = "interrupted; nothing more was released, the same command goes on where it stopped"
LINE: Final = f"error: {MESSAGE}. Next: run it again to go on\n"


def leave(_number: int = signal.SIGINT, _frame: FrameType | None = None) -> None:
    """Say one line and end the process at once; nothing is open that would have to be closed."""
    try:
        os.write(2, LINE.encode())
    finally:
        os._exit(INTERRUPTED)


class Command:
    """Whether this process is the command; in a process of somebody else's no handler is touched."""

    running = False


def leave_on_interrupt() -> None:
    """While the program loads, Ctrl-C ends it at once; a signal that is ignored on purpose stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        Command.running = True
        signal.signal(signal.SIGINT, leave)


def raise_on_interrupt() -> None:
    """While a command runs, Ctrl-C raises, so that unfinished files are removed."""
    if Command.running:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def finish_on_interrupt() -> None:
    """When all is done, Ctrl-C changes nothing any more."""
    if Command.running:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
