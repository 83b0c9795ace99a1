"""The small secret file beside a ledger: which rows count when a run goes on, and which time a step is.

Two things must stay the same from run to run although no release shows them. The *bounding key* decides which of a
person's rows count, so that a run that goes on chooses as an uninterrupted one would have. The *anchor* says which time
step 0 is and how long steps are: with another start the same hour would become another step, be published a second
time in another window, and cost a person twice what the guarantee allows. Both are written once per stream, before
its first release, with mode 0600.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from veilstream.data import Calendar
from veilstream.errors import InvalidInputError, LedgerError, LedgerMismatchError, LedgerVersionError

FORMAT = 1
KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class StreamKey:
    """What a stream keeps beside its ledger.

    >>> a = StreamKey.fresh("visits", Calendar("2024-01-01", "2024-01-08", "1d"))
    >>> a
    StreamKey(stream='visits', start='2024-01-01T00:00:00+00:00', every='1d', zone='UTC')
    """

    stream: str
    start: str
    every: str
    zone: str
    key: str = field(repr=False)

    @classmethod
    def fresh(cls, stream: str, calendar: Calendar) -> StreamKey:
        return cls(stream, calendar.label(0), str(calendar.every), calendar.zone, os.urandom(KEY_BYTES).hex())

    @property
    def secret(self) -> bytes:
        return bytes.fromhex(self.key)

    def check(self, calendar: Calendar, path: Path) -> None:
        """Refuse a calendar under which steps would mean other times."""
        given = {"start": calendar.label(0), "every": str(calendar.every), "zone": calendar.zone}
        for name, value in given.items():
            known = getattr(self, name)
            if value != known:
                raise LedgerMismatchError(
                    name="stream",
                    value=self.stream,
                    limit=f"{name} is recorded as {known!r} in {path}, given {value!r}; steps would mean other times "
                    "and people would be charged twice",
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
    return database.with_name(f"{database.name}.{quote(stream, safe='')}.key")


def load(path: Path, stream: str) -> StreamKey | None:
    """The stream's key, or None if there is no such file yet."""
    try:
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if stored["format"] > FORMAT:
            raise LedgerVersionError(name="key file", value=path, limit="written by a newer veilstream")
        key = StreamKey(**{name: stored[name] for name in ("stream", "start", "every", "zone", "key")})
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


def store(path: Path, key: StreamKey) -> StreamKey:
    """Write the key unless another process was first; the one that is there afterwards."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, **asdict(key)}, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(partial, path)
        except FileExistsError:
            pass
        finally:
            partial.unlink()
    except OSError as error:
        raise LedgerError(name="key file", value=path, limit=f"{error.strerror}") from None
    return load(path, key.stream) or key
