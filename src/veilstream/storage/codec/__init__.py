"""State as bytes: dataclasses become a JSON header plus plain arrays, and come back bit for bit.

The header is deterministic JSON that a person can read; arrays are left out of it and named by index. What
JSON cannot say alone is an object with a tag. Decoding follows the *annotations* of the class that the
caller names, so stored bytes can never choose which code runs:

=====================  ===============================================================================
value                  in the header
=====================  ===============================================================================
None, bool, str        themselves
int                    itself up to 64 bits, else ``{"int": "0x..."}``
float                  the shortest decimal that reads back exactly, else ``{"float": "<8 bytes in hex>"}``
bytes                  ``{"bytes": "<hex>"}``
list, tuple            ``[...]``, ``{"tuple": [...]}``
dict                   ``{"dict": [[key, value], ...]}``, in its own order
array                  ``{"array": index, "dtype": "<i8", "shape": [...]}``
StrEnum                ``{"enum": "Law", "value": "laplace"}``
dataclass              ``{"class": "State", "version": 1, "fields": {...}}``
a type of ``CODERS``   ``{"coded": "Fraction", "value": ...}``
=====================  ===============================================================================

A class that changes its fields raises its ``version: ClassVar[int]``; a state of a later version than the
class knows is refused, and a field that an earlier version lacked takes its default. NumPy scalars are
stored as the Python number they equal. Fields with ``init=False`` are not stored: ``__post_init__`` makes
them again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from numpy.typing import NDArray

from veilstream.documents import read_json
from veilstream.errors import LedgerError
from veilstream.storage.codec.coders import CODERS, Coder
from veilstream.storage.codec.reading import Reader, newer
from veilstream.storage.codec.writing import Writer
from veilstream.trusted.frames import hide_frames

__all__ = ["CODERS", "FORMAT", "Coder", "Encoded", "decode", "encode"]

FORMAT: Final = 1
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A header and the arrays it names by index. Both may hold secrets, so neither prints."""

    header: bytes = field(repr=False)
    arrays: tuple[NDArray[Any], ...] = field(default=(), repr=False)


@hide_frames
def encode(obj: object) -> Encoded:
    """The bytes of a value that is made of dataclasses and plain parts.

    >>> from veilstream.privacy.charge import Span
    >>> encode(Span(3, 5)).header
    b'{"format":1,"root":{"class":"Span","version":1,"fields":{"first":3,"last":5}}}'
    """
    writer = Writer()
    root = writer.node(obj, type(obj).__qualname__)
    text = json.dumps({"format": FORMAT, "root": root}, separators=(",", ":"), allow_nan=False)
    return Encoded(text.encode("ascii"), tuple(writer.arrays))


@hide_frames
def decode(header: bytes, arrays: tuple[NDArray[Any], ...], as_type: type[T], *former: type[T]) -> T:
    """The value that :func:`encode` was given; ``as_type`` is its class, or one of ``former`` is.

    >>> from veilstream.privacy.charge import Span
    >>> stored = encode(Span(3, 5))
    >>> decode(stored.header, stored.arrays, Span)
    Span(first=3, last=5)
    """
    damaged = LedgerError(
        f"state header of {len(header)} bytes: not a document of format 1..{FORMAT}", outcome="nothing was read"
    )
    try:
        document = read_json(header)
    except (ValueError, RecursionError):
        raise damaged from None
    match document:
        case {"format": int(written)} if written > FORMAT:
            raise newer("state format", written, FORMAT)
        case {"format": int(written), "root": root} if written == FORMAT:
            return cast(T, Reader(arrays).value(root, (as_type, *former), as_type.__qualname__))
        case _:
            raise damaged
