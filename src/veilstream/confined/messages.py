"""Messages between a process and its children: JSON and bytes, each with its length before it."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final, Protocol

from veilstream.documents import read_json

LENGTHS: Final = struct.Struct("<IQ")
SHORT: Final = 1 << 16


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes: ...


def packed(facts: Mapping[str, Any], content: bytes = b"") -> list[bytes]:
    """The parts of a message, to be sent one after the other: a short one goes at once."""
    text = json.dumps(facts).encode()
    start = LENGTHS.pack(len(text), len(content)) + text
    return [start + content] if len(content) < SHORT else [start, content]


def read_message(source: Readable, most: int) -> tuple[dict[str, Any], bytes] | None:
    """The next message; None at the end, or where it breaks off or is longer than ``most`` bytes."""
    start = source.read(LENGTHS.size)
    if len(start) < LENGTHS.size:
        return None
    length, size = LENGTHS.unpack(start)
    if length + size > most:
        return None
    text, content = source.read(length), source.read(size)
    if len(text) < length or len(content) < size:
        return None
    return read_json(text), content
