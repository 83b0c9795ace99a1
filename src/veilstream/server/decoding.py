"""Batches of rows, decoded and encoded in child processes: no byte that a client sends is read in the server itself."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from veilstream.confined import Allowance, Child, Pool
from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.keyed import PEOPLE, Key
from veilstream.errors import InvalidInputError, LedgerError
from veilstream.live.definition import StreamDefinition
from veilstream.live.rows import EncodedBatch, Fates, encode_batch, pack, unpack
from veilstream.live.spooled import SpooledStream
from veilstream.server.bodies import BodyTooLargeError, read_body
from veilstream.server.text_bodies import NOTHING

CHUNK: Final = 1 << 18
CHILDREN: Final = 3
SHARE: Final = 2
"""Of the children that a client may keep busy: one is left for the others."""
ALLOWANCE: Final = Allowance()
BATCHES: Final = b"batches"
"""The purpose of the key under which digests of batches are made."""
DAMAGED: Final = "body: its gzip data are damaged or break off; send it again"


class _Derived(Key):
    """What a stream's key derives for a child, which never has the secret itself."""

    __slots__ = ("_derived",)

    def __init__(self, derived: Mapping[bytes, bytes]) -> None:
        self._derived = derived

    def derive(self, purpose: bytes) -> bytes:
        return self._derived[purpose]


@dataclass(frozen=True, slots=True)
class _Stream:
    """As much of a stream as a child needs."""

    definition: StreamDefinition
    key: Key


_streams: dict[str, _Stream] = {}


def decode(given: Mapping[str, Any], content: bytes) -> Iterator[tuple[Mapping[str, Any], bytes]]:
    """The task of a child: the rows of a body, by step, as the spool stores them."""
    if "definition" in given:
        keys = {purpose.encode(): bytes.fromhex(key) for purpose, key in given["keys"].items()}
        _streams[given["stream"]] = _Stream(StreamDefinition.from_json(given["definition"]), _Derived(keys))
    stream = _streams[given["stream"]]
    definition, key = stream.definition, stream.key
    body = unzipped(content, given["most_unpacked"]) if given["gzip"] else content
    named = given["digest"]
    digest = hashlib.blake2b(body, key=key.derive(BATCHES), digest_size=32).hexdigest() if named else ""
    frame, unreadable = read_body(
        body, given["kind"], definition.columns, given["most_rows"], definition.number_columns
    )
    if unreadable and definition.bad_rows == "refuse":
        raise InvalidInputError(
            "body: a row cannot be read; correct the rows, or define the stream with bad_rows='drop'", outcome=NOTHING
        )
    encoded = encode_batch(frame, definition, key)
    encoded.fates.unreadable += unreadable
    parts = {step: pack(rows) for step, rows in encoded.parts.items()}
    facts = {
        "steps": list(parts),
        "sizes": [len(part) for part in parts.values()],
        "fates": [getattr(encoded.fates, name) for name in Fates.__slots__],
        "digest": digest,
    }
    yield facts, b"".join(parts.values())


def unzipped(content: bytes, most: int) -> bytes:
    """All members of a gzip body, one after the other; ``most`` bytes at most.

    >>> import gzip
    >>> unzipped(gzip.compress(b"one ") + gzip.compress(b"two"), 100)
    b'one two'
    """
    found, member, began = bytearray(), zlib.decompressobj(31), False
    for first in range(0, len(content), CHUNK):
        piece = content[first : first + CHUNK]
        while piece:
            if member.eof:
                # Between members and after the last there may be zeros, as tapes leave them.
                piece = piece.lstrip(b"\0")
                if not piece:
                    break
                member, began = zlib.decompressobj(31), False
            try:
                # One byte more than allowed, so that a bomb is seen and never unpacked.
                found += member.decompress(piece, most - len(found) + 1)
            except zlib.error:
                raise InvalidInputError(DAMAGED, outcome=NOTHING) from None
            if len(found) > most:
                raise BodyTooLargeError(
                    name="body", limit=f"it unpacks to more than {most} bytes; send smaller batches"
                )
            began, piece = True, member.unused_data or member.unconsumed_tail
    if not (began and member.eof):
        raise InvalidInputError(DAMAGED, outcome=NOTHING)
    return bytes(found)


@cache
def pool() -> Pool:
    """The children of this process, whatever decodes."""
    return Pool(decode, ALLOWANCE, children=CHILDREN, share=SHARE)


@dataclass(frozen=True, slots=True)
class Body:
    """A body as it came."""

    content: bytes
    kind: str
    gzip: bool
    named: bool
    """Whether the batch has an id, so that its digest is wanted."""


class Decoder:
    """Has bodies decoded, and knows what children have been told."""

    def __init__(self, most_unpacked: int, most_rows: int) -> None:
        self._limits = {"most_unpacked": most_unpacked, "most_rows": most_rows}
        self._texts: dict[str, tuple[SpooledStream, dict[str, Any], str]] = {}

    def submit(self, client: str, stream: SpooledStream, body: Body) -> Future[tuple[EncodedBatch, bytes]]:
        """The rows of a body and its digest."""
        return pool().submit(client, lambda child: self._decoded(child, stream, body))

    def _decoded(self, child: Child, stream: SpooledStream, body: Body) -> tuple[EncodedBatch, bytes]:
        told, name = self._told(stream)
        given = {"stream": name, "kind": body.kind, "gzip": body.gzip, "digest": body.named, **self._limits}
        facts, content = child.one(given if name in child.known else {**given, **told}, body.content)
        child.known.add(name)
        return _encoded(facts, content, stream.definition), bytes.fromhex(facts["digest"])

    def _told(self, stream: SpooledStream) -> tuple[dict[str, Any], str]:
        """What a child must know of a stream, and the name of that."""
        known = self._texts.get(stream.definition.name)
        if known is None or known[0].definition is not stream.definition:
            keys = {purpose.decode(): stream.key.derive(purpose).hex() for purpose in (PEOPLE, BATCHES)}
            told = {"definition": stream.definition.to_json(), "keys": keys}
            known = self._texts[stream.definition.name] = (stream, told, _name(told))
        return known[1], known[2]


def _name(told: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16).hexdigest()


def _encoded(facts: Mapping[str, Any], content: bytes, definition: StreamDefinition) -> EncodedBatch:
    """The rows that a child sent, looked at again: only rows of the stream's bins are stored."""
    parts: dict[int, Rows] = {}
    start = 0
    for step, size in zip(facts["steps"], facts["sizes"], strict=True):
        rows = parts[int(step)] = unpack(content[start : start + size])
        start += size
        if len(rows) and not 0 <= int(rows.cell.min()) <= int(rows.cell.max()) < definition.bins:
            raise LedgerError("batch: its decoder answered with bins that the stream does not have", outcome=NOTHING)
    return EncodedBatch(parts, Fates(*(int(count) for count in facts["fates"])))
