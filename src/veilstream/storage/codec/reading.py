"""From header nodes back to values, led by annotations."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from veilstream.arguments import plain_hint
from veilstream.errors import InvalidInputError, LedgerError, LedgerVersionError, VeilstreamError
from veilstream.storage.codec.coders import CODERS
from veilstream.storage.codec.writing import DEEPEST, version_of

Wanted: TypeAlias = tuple[Any, ...]
"""The alternatives of an annotation; empty when it accepts any plain value."""

T = TypeVar("T")

ACCEPTED_AS: Final[dict[type[Any], tuple[Any, ...]]] = {
    NoneType: (None, NoneType),
    bool: (bool, int, float),
    int: (int, float),
    float: (float,),
    str: (str,),
    bytes: (bytes,),
}
"""By what annotations a value of each type may stand, as the numeric tower of typing has it."""


RENAMED: Final = {"Law": "NoiseLaw", "Threshold": "SealedThreshold"}
"""Names of classes in states of earlier versions, and what they are called now."""


def newer(what: str, written: int, known: int) -> LedgerVersionError:
    return LedgerVersionError(
        name=what,
        value=written,
        limit=f"this version reads up to {known}; written by a newer veilstream",
        outcome="nothing was read",
    )


class Reader:
    """Turns nodes into values; ``arrays`` are those that the header names by index."""

    def __init__(self, arrays: tuple[NDArray[Any], ...]) -> None:
        self._arrays = arrays
        self._depth = 0
        self._tags: dict[str, Callable[[dict[str, Any], Wanted, str], Any]] = {
            "int": self._int,
            "float": self._float,
            "bytes": self._bytes,
            "tuple": self._tuple,
            "dict": self._dict,
            "array": self._array,
            "enum": self._enum,
            "coded": self._coded,
            "class": self._dataclass,
        }

    def value(self, node: Any, wanted: Wanted, path: str) -> Any:
        if self._depth == DEEPEST:
            raise _misfit(path, f"nesting deeper than {DEEPEST}", wanted)
        self._depth += 1
        try:
            kind: type[Any] = node.__class__
            if kind is dict:
                read = self._tags.get(next(iter(node), ""))
                if read is None:
                    raise _misfit(path, "an unknown tag", wanted)
                return _checked(lambda: read(node, wanted, path), path)
            if kind is list:
                return self._parts(list, node, wanted, path)
            return _scalar(node, wanted, path)
        finally:
            self._depth -= 1

    def _int(self, node: dict[str, Any], wanted: Wanted, path: str) -> Any:
        return _scalar(int(node["int"], 16), wanted, path)

    def _float(self, node: dict[str, Any], wanted: Wanted, path: str) -> Any:
        return _scalar(struct.unpack(">d", bytes.fromhex(node["float"]))[0], wanted, path)

    def _bytes(self, node: dict[str, Any], wanted: Wanted, path: str) -> Any:
        return _scalar(bytes.fromhex(node["bytes"]), wanted, path)

    def _tuple(self, node: dict[str, Any], wanted: Wanted, path: str) -> tuple[Any, ...]:
        return tuple(self._parts(tuple, node["tuple"], wanted, path))

    def _dict(self, node: dict[str, Any], wanted: Wanted, path: str) -> dict[Any, Any]:
        keys_and_values = [part for key, value in node["dict"] for part in (key, value)]
        parts = self._parts(dict, keys_and_values, wanted, path)
        return dict(zip(parts[::2], parts[1::2], strict=True))

    def _array(self, node: dict[str, Any], wanted: Wanted, path: str) -> NDArray[Any]:
        index: int = node["array"]
        if not 0 <= index < len(self._arrays):
            raise _misfit(path, f"array {index} of {len(self._arrays)}", wanted)
        array = self._arrays[index]
        if array.dtype.str != node["dtype"] or list(array.shape) != node["shape"]:
            raise _misfit(path, f"array {index} of another dtype or shape than its header says", wanted)
        if wanted and not any(_is_array_hint(hint, array.dtype) for hint in wanted):
            raise _misfit(path, f"an array of {array.dtype}", wanted)
        return array

    def _enum(self, node: dict[str, Any], wanted: Wanted, path: str) -> StrEnum:
        cls = _named(node["enum"], wanted, path, lambda cls: issubclass(cls, StrEnum))
        return cast(StrEnum, cls(node["value"]))

    def _coded(self, node: dict[str, Any], wanted: Wanted, path: str) -> Any:
        cls = _named(node["coded"], wanted or tuple(CODERS), path, lambda cls: cls in CODERS)
        return CODERS[cls].from_plain(self.value(node["value"], (), path))

    def _dataclass(self, node: dict[str, Any], wanted: Wanted, path: str) -> Any:
        name: str = node["class"]
        cls = _named(name, wanted, path, lambda cls: is_dataclass(cls) or cls in CODERS)
        if cls in CODERS:
            # A class that was stored field by field before it had a coder.
            plain = {key: self.value(part, (), f"{path}.{key}") for key, part in node["fields"].items()}
            return CODERS[cls].from_plain(plain)
        written: int = node["version"]
        if written > version_of(cls):
            raise newer(f"{path}: state {name} of version", written, version_of(cls))
        stored: dict[str, Any] = node["fields"]
        known = {f.name: f for f in fields(cls) if f.init}
        for unknown in stored.keys() - known.keys():
            raise _misfit(path, f"an unknown field {unknown!r}", wanted)
        for missing in known.keys() - stored.keys():
            if not _has_default(known[missing]):
                raise _misfit(path, f"no field {missing!r}", wanted)
        build: Callable[..., Any] = cls
        hints = _field_hints(build)
        return build(**{key: self.value(part, hints[key], f"{path}.{key}") for key, part in stored.items()})

    def _parts(self, kind: type[Any], parts: list[Any], wanted: Wanted, path: str) -> list[Any]:
        """The parts of a list or tuple, or keys and values of a dict in turn, by the first hint that fits."""
        hints: list[Any] = [hint for hint in wanted if kind in (hint, get_origin(hint))]
        if wanted and not hints:
            raise _misfit(path, f"a {kind.__qualname__}", wanted)
        refusal: LedgerError | None = None
        for hint in hints or [kind]:
            expected = _part_hints(kind, get_args(hint), len(parts))
            if expected is None:
                continue
            try:
                return [self.value(*pair, f"{path}[...]") for pair in zip(parts, expected, strict=True)]
            except LedgerVersionError:
                raise
            except LedgerError as error:
                refusal = error
        raise refusal or _misfit(path, f"a {kind.__qualname__} of {len(parts)}", wanted)


def _checked(read: Callable[[], T], path: str) -> T:
    try:
        return read()
    except VeilstreamError:
        raise
    except (ValueError, TypeError, KeyError, ZeroDivisionError, AttributeError, struct.error):
        raise LedgerError(f"{path}: damaged in the stored state", outcome="nothing was read") from None


def _misfit(path: str, found: str, wanted: Wanted) -> LedgerError:
    expected = " | ".join(getattr(hint, "__qualname__", str(hint)) for hint in wanted) or "a plain value"
    return LedgerError(f"{path}: the stored state holds {found}, expected {expected}", outcome="nothing was read")


def _scalar(x: Any, wanted: Wanted, path: str) -> Any:
    accepted = ACCEPTED_AS[type(x)]
    if wanted and not any(hint in accepted for hint in wanted):
        raise _misfit(path, f"a {type(x).__qualname__}", wanted)
    return x


def _is_array_hint(hint: Any, dtype: np.dtype[Any]) -> bool:
    if get_origin(hint) is not np.ndarray:
        return hint is np.ndarray
    scalar = get_args(get_args(hint)[1])[0]
    return not isinstance(scalar, type) or issubclass(dtype.type, scalar)


def _named(name: str, wanted: Wanted, path: str, fits: Callable[[type[Any]], bool]) -> type[Any]:
    present = RENAMED.get(name, name)
    found: list[type[Any]] = [hint for hint in wanted if isinstance(hint, type) and hint.__qualname__ == present]
    if len(found) != 1 or not fits(found[0]):
        raise _misfit(path, f"a {name!r}", wanted)
    return found[0]


def _part_hints(kind: type[Any], args: tuple[Any, ...], count: int) -> list[Wanted] | None:
    if not args:
        return [()] * count
    if kind is dict:
        return [_alternatives(arg) for arg in args] * (count // 2)
    if kind is list or (len(args) == 2 and args[1] is Ellipsis):
        return [_alternatives(args[0])] * count
    return [_alternatives(arg) for arg in args] if len(args) == count else None


def _has_default(f: Field[Any]) -> bool:
    return f.default is not MISSING or f.default_factory is not MISSING


@lru_cache(maxsize=256)
def _field_hints(cls: Callable[..., Any]) -> dict[str, Wanted]:
    try:
        return {name: _alternatives(hint) for name, hint in get_type_hints(cls).items()}
    except NameError as error:
        raise InvalidInputError(
            f"{cls.__qualname__}: the annotation {error.name!r} is not importable when the program runs; "
            "import it outside TYPE_CHECKING",
            outcome="nothing was read",
        ) from None


def _alternatives(hint: Any) -> Wanted:
    hint = plain_hint(hint)
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return ()
    if get_origin(hint) not in (Union, UnionType):
        return (hint,)
    flat: list[Any] = []
    for part in get_args(hint):
        alternatives = _alternatives(part)
        if not alternatives:
            return ()
        flat.extend(alternatives)
    return tuple(flat)
