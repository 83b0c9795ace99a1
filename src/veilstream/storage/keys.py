"""The small secret file beside a ledger: the key that decides which of a person's rows count.

A run that goes on must choose as an uninterrupted one would have, so the key is written once per stream, before its
first release, with mode 0600. The ledger records the key's id, a digest from which the key cannot be found, and
refuses another key. Which time a step is stands in the ledger too; key files of format 1 also held it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from veilstream.data import Calendar
from veilstream.data.bounding.keyed import Key
from veilstream.documents import read_json
from veilstream.errors import InvalidInputError, LedgerError, LedgerMismatchError, LedgerVersionError
from veilstream.storage.ledger.anchor import Anchor
from veilstream.storage.ledger.surroundings import clean_unfinished, refuse_readable_by_others, sync, unfinished

FORMAT = 2
KEY_BYTES = 32


def key_id(key: bytes | Key) -> str:
    """By what a ledger knows a bounding key again: a digest that does not reveal it.

    >>> key_id(bytes(32)) == key_id(Key(bytes(32))), len(key_id(bytes(32)))
    (True, 32)
    """
    return (key if isinstance(key, Key) else Key(key)).id


@dataclass(frozen=True, slots=True)
class StreamKey:
    """What a stream keeps beside its ledger; ``anchor`` is what a file of format 1 says of its calendar.

    >>> StreamKey.fresh("visits")
    StreamKey(stream='visits', anchor=None)
    """

    stream: str
    key: str = field(repr=False)
    anchor: Anchor | None = None

    @classmethod
    def fresh(cls, stream: str) -> StreamKey:
        return cls(stream, os.urandom(KEY_BYTES).hex())

    @property
    def secret(self) -> bytes:
        return bytes.fromhex(self.key)

    def check(self, calendar: Calendar, path: Path) -> None:
        """Refuse a calendar under which steps would mean other times than a file of format 1 says."""
        given = Anchor.of(calendar)
        if self.anchor is not None and given != self.anchor:
            raise LedgerMismatchError(
                name="stream",
                value=self.stream,
                limit=f"calendar is recorded as {self.anchor.to_json()} in {path}, given {given.to_json()}; steps "
                "would mean other times and people would be charged twice",
                outcome="nothing was changed, nothing was released",
            )


def key_path(database: Path | None, stream: str, given: str | None) -> Path:
    """Where the stream's key lies: as given, or beside an SQLite ledger.

    >>> key_path(Path("b.db"), "city/bikes", None).name
    'b.db.city%2Fbikes.key'
    """
    if given is not None:
        return Path(given)
    if database is None:
        raise InvalidInputError(
            "key_file: missing; a ledger that is not a file needs --key-file for the stream's bounding key"
        )
    if not database.name:
        raise LedgerError(name="ledger", value=database, limit="not a file", outcome="nothing was opened")
    try:
        return database.with_name(f"{database.name}.{quote(stream, safe='')}.key")
    except UnicodeEncodeError:
        raise InvalidInputError(
            name="stream", value=stream, limit="a name of characters is needed; half a character is in it"
        ) from None


def begun_path(path: Path) -> Path:
    """Where a key lies until the ledger knows its stream: a key under its own name without a stream is a lost ledger,
    and a run that was killed in between must not look like one.

    >>> begun_path(Path("b.db.visits.key")).name
    'b.db.visits.key.begun'
    """
    return path.with_name(f"{path.name}.begun")


def settle(path: Path) -> None:
    """Give a begun key its own name, now that the ledger knows its stream."""
    try:
        # Another process of the same stream may have been quicker.
        with suppress(FileNotFoundError):
            begun_path(path).replace(path)
        sync(path.parent)
    except OSError as error:
        raise LedgerError(name="key file", value=path, limit=f"{error.strerror}") from None


def load(path: Path, stream: str) -> StreamKey | None:
    """The stream's key, or None if there is no such file yet."""
    try:
        refuse_readable_by_others(path, "key file")
        stored: dict[str, Any] = read_json(path.read_text(encoding="utf-8"))
        if stored["format"] > FORMAT:
            raise LedgerVersionError(name="key file", value=path, limit="written by a newer veilstream")
        anchor = Anchor(stored["start"], stored["every"], stored["zone"]) if stored["format"] == 1 else None
        key = StreamKey(stored["stream"], stored["key"], anchor)
        known = len(key.secret) >= KEY_BYTES
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerError(name="key file", value=path, limit=f"{error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        known = False
        key = None
    if not known or key is None:
        raise LedgerError(name="key file", value=path, limit="not a veilstream key file; restore it")
    if key.stream != stream:
        raise LedgerMismatchError(
            name="key file", value=path, limit=f"it belongs to stream {key.stream!r}, given {stream!r}"
        )
    return key


def store(path: Path, key: StreamKey, reset: dict[str, Any] | None = None) -> StreamKey:
    """Write the key unless another process was first; the one that is there afterwards.

    ``reset`` says why the stream was started over with it.
    """
    partial = unfinished(path)
    try:
        clean_unfinished(path)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            written: dict[str, Any] = {"format": FORMAT, "stream": key.stream, "key": key.key}
            json.dump(written if reset is None else {**written, "reset": reset}, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(partial, path)
        except FileExistsError:
            pass
        finally:
            partial.unlink()
        sync(path.parent)
    except OSError as error:
        raise LedgerError(name="key file", value=path, limit=f"{error.strerror}") from None
    return load(path, key.stream) or key
