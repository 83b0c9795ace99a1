"""Arrays as bytes: planes of bytes that do not vary are left out, and what stays for ever is compressed as well.

Items are taken apart into planes (all lowest bytes, then all second bytes, ...). Counts are small and noise is short,
so most planes are constant and cost nothing. Rising whole numbers, such as lists of bins, are kept as the gaps
between them. One content has one such form, whose digest names it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from hashlib import blake2b, sha256
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.documents import read_json

PLANES: Final = "varying planes"
SQUEEZED: Final = "varying planes+zlib"
RAW_V1: Final = "raw"
PLANES_V1: Final = "planes+zlib"
"""Packings of the first version, which are read but not written; their digest is of the plain content."""
AS_IT_IS: Final = b"\0"
AS_GAPS: Final = b"\1"
WORDS: Final = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
WORTH_IT: Final = 0.9


def content_of(x: NDArray[Any]) -> bytes:
    """The one form of an array's content; its dtype and shape are not in it.

    >>> len(content_of(np.arange(1000))), len(content_of(np.array([3, 700, 5])))
    (25, 23)
    """
    items = np.ascontiguousarray(x).reshape(-1)
    if items.dtype.str == "<i8" and items.size > 1 and bool((items[1:] >= items[:-1]).all()):
        return AS_GAPS + items[:1].tobytes() + _planes(np.diff(items))
    return AS_IT_IS + _planes(items)


def _planes(items: NDArray[Any]) -> bytes:
    """The first item, a byte for each plane that tells whether it varies, and the planes that do."""
    octets = items.view(np.uint8).reshape(items.size, items.dtype.itemsize)
    varying = _varying(octets)
    chosen = np.flatnonzero(varying)
    planes = np.empty((chosen.size, items.size), np.uint8)
    for row, plane in zip(planes, chosen, strict=True):
        row[:] = octets[:, plane]
    return b"".join((octets[:1].tobytes(), varying.tobytes(), planes.tobytes()))


def _varying(octets: NDArray[np.uint8]) -> NDArray[np.bool_]:
    word = WORDS.get(octets.shape[1])
    if word is None or octets.size == 0:
        return np.asarray((octets != octets[:1]).any(axis=0))
    items = octets.view(word)
    return np.asarray(np.bitwise_or.reduce(items ^ items[0], axis=0).view(np.uint8) != 0)


def array_of(content: bytes, dtype: np.dtype[Any], shape: Sequence[int]) -> NDArray[Any]:
    """The array that ``content_of`` was given; ValueError if the content is none of its."""
    size = prod(shape)
    if content[:1] == AS_IT_IS:
        return _items(content[1:], dtype, size).reshape(shape)
    if content[:1] != AS_GAPS or dtype.str != "<i8":
        raise ValueError(content[:1])
    first = np.frombuffer(content, dtype, 1, 1)
    # Sums of machine integers wrap around as the differences did.
    return np.cumsum(np.concatenate([first, _items(content[1 + dtype.itemsize :], dtype, size - 1)])).reshape(shape)


def _items(content: bytes, dtype: np.dtype[Any], size: int) -> NDArray[Any]:
    width = dtype.itemsize
    octets = np.empty((size, width), np.uint8)
    if size:
        octets[:] = np.frombuffer(content, np.uint8, width)
        content = content[width:]
    chosen = np.flatnonzero(np.frombuffer(content, np.uint8, width))
    planes = np.frombuffer(content, np.uint8, offset=width).reshape(chosen.size, size)
    for plane, row in zip(chosen, planes, strict=True):
        octets[:, plane] = row
    return octets.reshape(-1).view(dtype)


def digest_of(dtype: str, shape: str, content: bytes) -> str:
    """A name for an array that no other array has."""
    named = sha256(f"{dtype} {shape}\n".encode())
    named.update(content)
    return named.hexdigest()[:40]


def pack(content: bytes) -> tuple[str, bytes]:
    """Content as it is stored for ever.

    >>> kind, stored = pack(content_of(np.arange(1000) % 7))
    >>> kind, len(stored) < 700, unpack(kind, stored) == content_of(np.arange(1000) % 7)
    ('varying planes+zlib', True, True)
    """
    # In planes of counts and noise there is nothing to match but runs.
    squeeze = zlib.compressobj(1, strategy=zlib.Z_RLE)
    stored = squeeze.compress(content) + squeeze.flush()
    return (SQUEEZED, stored) if len(stored) < WORTH_IT * len(content) else (PLANES, content)


def unpack(packing: str, stored: bytes) -> bytes:
    return zlib.decompress(stored) if packing == SQUEEZED else stored


def restored(packing: str, stored: bytes, dtype: str, shape: str, digest: str) -> NDArray[Any]:
    """The array of a stored row, closed to writing; ValueError or zlib.error if it is not what ``digest`` names.

    >>> x = np.array([3, 700, 5])
    >>> kind, stored = pack(content_of(x))
    >>> restored(kind, stored, "<i8", "[3]", digest_of("<i8", "[3]", content_of(x))).tolist()
    [3, 700, 5]
    """
    kind = np.dtype(dtype)
    first_version = packing in (RAW_V1, PLANES_V1)
    content = _plain_v1(packing, stored, kind.itemsize) if first_version else unpack(packing, stored)
    found = _digest_v1(dtype, shape, content) if first_version else digest_of(dtype, shape, content)
    if found != digest:
        raise ValueError(found)
    sizes: list[int] = read_json(shape)
    array = np.frombuffer(content, kind).reshape(sizes) if first_version else array_of(content, kind, sizes)
    array.setflags(write=False)
    return array


def _plain_v1(packing: str, stored: bytes, itemsize: int) -> bytes:
    if packing == RAW_V1:
        return stored
    return np.frombuffer(zlib.decompress(stored), np.uint8).reshape(itemsize, -1).T.tobytes()


def _digest_v1(dtype: str, shape: str, content: bytes) -> str:
    return blake2b(f"{dtype} {shape}\n".encode() + content, digest_size=20).hexdigest()
