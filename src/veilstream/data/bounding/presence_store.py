"""The presence history of a stream as a secret file, for data that come day by day."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO

import numpy as np

from veilstream.data.bounding.presence import PresenceHistory
from veilstream.errors import InvalidInputError

FORMAT = 1
COLUMNS = ("first", "second", "steps", "counted")


def store_history(path: str | Path, history: PresenceHistory) -> None:
    """Write a history for the next day, whole or not at all, with mode 0600.

    The file holds keyed hashes of people and when they were present: keep it like the rows themselves.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write_history(file, history)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def load_history(path: str | Path, empty: PresenceHistory) -> PresenceHistory:
    """The stored history, or ``empty`` if there is no file yet; refused if it is of another rule or key."""
    try:
        with Path(path).open("rb") as file:
            return read_history(file, empty, str(path))
    except FileNotFoundError:
        return empty


def write_history(file: IO[bytes], history: PresenceHistory) -> None:
    """Write a history to a file that is open."""
    table = history.table()
    head = {"format": FORMAT, "rule": history.rule, "through": history.through, "people": len(history)}
    file.write(json.dumps(head).encode() + b"\n")
    for name in COLUMNS:
        np.lib.format.write_array(file, table[name], allow_pickle=False)


def read_history(file: IO[bytes], empty: PresenceHistory, name: str) -> PresenceHistory:
    """The history that ``write_history`` wrote; refused if it is of another rule or key than ``empty``."""
    try:
        head = json.loads(file.readline())
        if head["format"] != FORMAT or head["rule"] != empty.rule:
            raise InvalidInputError(
                name="presence history",
                value=name,
                limit="it belongs to another guarantee, calendar or key; give those that it was begun with, or "
                "begin a new stream",
                outcome="nothing was read",
            )
        table = {column: np.lib.format.read_array(file, allow_pickle=False) for column in COLUMNS}
    except (ValueError, KeyError, TypeError):
        raise InvalidInputError(
            name="presence history",
            value=name,
            limit="it is not a presence history; restore it from a backup",
            outcome="nothing was read",
        ) from None
    return empty.restored(table, head["through"])
