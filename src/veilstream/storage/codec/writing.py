"""From values to header nodes."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.storage.codec.coders import CODERS

DEEPEST: Final = 64
NUMPY_SCALARS: Final = frozenset(
    np.dtype(code).type for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
)


def version_of(cls: type[Any]) -> int:
    """The version that a dataclass declares as ``version: ClassVar[int]``, 1 if it declares none."""
    declared: object = getattr(cls, "version", 1)
    is_field = any(f.name == "version" for f in fields(cls))
    return declared if isinstance(declared, int) and not is_field else 1


class Writer:
    """Turns one value into nodes and gathers its arrays on the way."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._depth = 0
        self._exact: dict[type[Any], Callable[[Any, str], Any]] = {
            type(None): _itself,
            bool: _itself,
            str: _itself,
            int: _integer,
            float: _real,
            bytes: _bytes,
            list: self._list,
            tuple: self._tuple,
            dict: self._dict,
        }

    def node(self, x: Any, path: str) -> Any:
        if self._depth == DEEPEST:
            raise InvalidInputError(f"{path}: nested deeper than {DEEPEST}")
        self._depth += 1
        plain = _python_scalar(x)
        node = self._writer_for(plain, path)(plain, path)
        self._depth -= 1
        return node

    def _writer_for(self, x: object, path: str) -> Callable[[Any, str], Any]:
        kind = type(x)
        if kind in self._exact:
            return self._exact[kind]
        if kind in CODERS:
            return self._coded
        if isinstance(x, StrEnum):
            return _enum
        if isinstance(x, np.ndarray):
            return self._array
        if is_dataclass(kind):
            return self._dataclass
        raise _refuse(path, f"a {kind.__qualname__}")

    def _list(self, x: list[Any], path: str) -> list[Any]:
        return [self.node(part, f"{path}[{i}]") for i, part in enumerate(x)]

    def _tuple(self, x: tuple[Any, ...], path: str) -> dict[str, Any]:
        return {"tuple": self._list(list(x), path)}

    def _dict(self, x: dict[Any, Any], path: str) -> dict[str, Any]:
        for key in x:
            if type(key) not in (str, int):
                raise _refuse(path, f"a dict key of type {type(key).__qualname__}")
        return {"dict": [[self.node(key, path), self.node(part, f"{path}[...]")] for key, part in x.items()]}

    def _array(self, x: NDArray[Any], path: str) -> dict[str, Any]:
        if x.dtype.kind not in "biuf":
            raise _refuse(path, f"an array of {x.dtype}")
        self.arrays.append(x)
        return {"array": len(self.arrays) - 1, "dtype": x.dtype.str, "shape": list(x.shape)}

    def _coded(self, x: object, path: str) -> dict[str, Any]:
        kind = type(x)
        return {"coded": kind.__qualname__, "value": self.node(CODERS[kind].to_plain(x), path)}

    def _dataclass(self, x: Any, path: str) -> dict[str, Any]:
        cls = x.__class__
        parts = {f.name: self.node(getattr(x, f.name), f"{path}.{f.name}") for f in fields(cls) if f.init}
        return {"class": cls.__qualname__, "version": version_of(cls), "fields": parts}


def _python_scalar(x: Any) -> Any:
    return x.item() if type(x) in NUMPY_SCALARS else x


def _itself(x: object, _path: str) -> object:
    return x


def _integer(x: int, _path: str) -> int | dict[str, str]:
    return x if -(2**63) <= x < 2**64 else {"int": hex(x)}


def _real(x: float, _path: str) -> float | dict[str, str]:
    return x if math.isfinite(x) else {"float": struct.pack(">d", x).hex()}


def _bytes(x: bytes, _path: str) -> dict[str, str]:
    return {"bytes": x.hex()}


def _enum(x: StrEnum, _path: str) -> dict[str, str]:
    return {"enum": type(x).__qualname__, "value": x.value}


def _refuse(path: str, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"{path}: {what} cannot be stored (dataclasses, numbers, text, bytes, Fraction, StrEnum, "
        "lists, tuples, dicts with str or int keys and numeric arrays can)"
    )
