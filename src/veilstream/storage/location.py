"""Where a ledger lives: one canonical identity, however it is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from veilstream.arguments import is_a
from veilstream.errors import InvalidInputError

SQLITE: Final = ("sqlite", "sqlite+pysqlite")
POSTGRES: Final = ("postgresql", "postgres", "postgresql+psycopg")
FORGETFUL: Final = (None, "", ":memory:")


@dataclass(frozen=True, slots=True)
class Location:
    """A file, a server, or neither for a ledger in memory.

    >>> locate("budget.db") == locate("./budget.db") == locate("sqlite:///budget.db?mode=rw")
    True
    """

    file: Path | None = None
    server: URL | None = None


def locate(ledger: str | Path | None) -> Location:
    """The place that a path, an URL or None (memory) names.

    A text that would give a database in memory is refused: what such a ledger knows is gone with the process, and
    the next run draws new noise for the same data. In Python ``None`` asks for one.
    """
    if ledger is None:
        return Location()
    if isinstance(ledger, str) and "://" in ledger:
        return _from_url(ledger)
    if not is_a(ledger, str, Path):
        raise InvalidInputError(
            name="ledger",
            limit=f"a path or an URL is needed, not {type(ledger).__name__}",
            outcome="nothing was opened",
        )
    if str(ledger) in FORGETFUL:
        raise _forgetful(str(ledger))
    return Location(file=_resolved(Path(ledger)))


def _from_url(text: str) -> Location:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidInputError("ledger url: it cannot be parsed", outcome="nothing was opened") from None
    if url.drivername in SQLITE:
        if url.database in FORGETFUL or "mode=memory" in text:
            raise _forgetful(text)
        return Location(file=_resolved(Path(url.database or "")))
    if url.drivername in POSTGRES:
        return Location(server=url)
    raise InvalidInputError(
        f"ledger url scheme {url.drivername!r}: sqlite:/// and postgresql:// are known", outcome="nothing was opened"
    )


def _resolved(path: Path) -> Path:
    try:
        return path.expanduser().resolve()
    except (OSError, ValueError, RuntimeError):
        raise InvalidInputError(
            name="ledger", value=str(path), limit="no file can have this name", outcome="nothing was opened"
        ) from None


def _forgetful(text: str) -> InvalidInputError:
    return InvalidInputError(
        name="ledger",
        value=text,
        limit="it would forget what was spent; name a file (in Python, ledger=None is a ledger in memory)",
        outcome="nothing was opened",
    )
