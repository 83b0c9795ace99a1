"""What executors tell the driver beside rows: what was left out, and why a task stopped.

An error raised in a task would be written to the cluster's logs and tried again. A note travels with the data instead,
once for every task that ended well, and only the driver raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from veilstream import errors
from veilstream.data.encoding import Dropped
from veilstream.documents import read_json
from veilstream.errors import VeilstreamError

_FIELDS: Final = ("name", "limit")


@dataclass(frozen=True, slots=True)
class Note:
    """The end of one task. Its numbers are exact: it goes to the driver alone."""

    dropped: Dropped
    error: dict[str, Any] | None = None

    def to_bytes(self) -> bytes:
        return json.dumps({"dropped": asdict(self.dropped), "error": self.error}).encode()

    @classmethod
    def from_bytes(cls, encoded: bytes) -> Note:
        stored = read_json(encoded)
        return cls(Dropped(**stored["dropped"]), stored["error"])


def described(error: VeilstreamError) -> dict[str, Any]:
    """An error as a note carries it; none of its fields is private.

    >>> str(rebuilt(described(errors.InvalidInputError(name="user column 'id'", limit="an id is infinite"))))
    "user column 'id': an id is infinite; nothing was released"
    """
    message = str(error).removesuffix(f"; {error.outcome}")
    return {"type": type(error).__name__, "message": message, "outcome": error.outcome} | {
        name: getattr(error, name) for name in (*_FIELDS, "next_step")
    }


def rebuilt(description: dict[str, Any]) -> VeilstreamError:
    """The error of a note."""
    kind = getattr(errors, description["type"])
    error: VeilstreamError = kind(
        description["message"], outcome=description["outcome"], next_step=description["next_step"]
    )
    for name in _FIELDS:
        setattr(error, name, description[name])
    return error


def settle(notes: Iterable[Note], dropped: Dropped) -> None:
    """Raise what a task could not do; else add up in ``dropped`` what the tasks left out.

    Of several errors the one whose text comes first is raised, so that a run repeats.
    """
    told = list(notes)
    problems = sorted((note.error for note in told if note.error is not None), key=lambda error: str(error["message"]))
    if problems:
        raise rebuilt(problems[0])
    for note in told:
        dropped.add(note.dropped)
