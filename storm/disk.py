"""Between SQLite and its files: every call of the library that Python itself uses can be watched, or made to fail.

SQLite reaches files through a *VFS*, a table of functions. Here a copy of the usual table is registered from Python,
through ctypes, as the default of the very library that ``sqlite3`` is linked with: the code under attack runs
unchanged, on the SQLite that users have. (A package with an SQLite of its own would test that one instead.)
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

OPEN_WAL: Final = 0x00080000
OPEN_JOURNAL: Final = 0x00000800
ERRORS: Final = {
    "open": sqlite3.SQLITE_CANTOPEN,
    "read": sqlite3.SQLITE_IOERR_READ,
    "write": sqlite3.SQLITE_IOERR_WRITE,
    "truncate": sqlite3.SQLITE_IOERR_TRUNCATE,
    "sync": sqlite3.SQLITE_IOERR_FSYNC,
    "size": sqlite3.SQLITE_IOERR_FSTAT,
    "lock": sqlite3.SQLITE_IOERR_LOCK,
    "map": sqlite3.SQLITE_IOERR_SHMMAP,
    "delete": sqlite3.SQLITE_IOERR_DELETE,
}
"""How each call fails."""

_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_DELETE = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_CLOSE = CFUNCTYPE(c_int, c_void_p)
_MOVE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_NUMBER = CFUNCTYPE(c_int, c_void_p, c_int)
_SIZE = CFUNCTYPE(c_int, c_void_p, c_void_p)
_MAP = CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int, c_void_p)


class _Vfs(Structure):
    _fields_ = (
        ("version", c_int),
        ("file_size", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("others", c_void_p * 14),
    )


class _Methods(Structure):
    _fields_ = (
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("size", c_void_p),
        ("lock", c_void_p),
        ("unlock", c_void_p),
        ("reserved", c_void_p),
        ("control", c_void_p),
        ("sector", c_void_p),
        ("traits", c_void_p),
        ("map", c_void_p),
        ("others", c_void_p * 5),
    )


class _File(Structure):
    _fields_ = (("methods", POINTER(_Methods)),)


_SIGNATURES: Final[dict[str, Any]] = {
    "close": _CLOSE,
    "read": _MOVE,
    "write": _MOVE,
    "truncate": _TRUNCATE,
    "sync": _NUMBER,
    "size": _SIZE,
    "lock": _NUMBER,
    "map": _MAP,
}


_SHIMS: Final[list[Any]] = []
"""A connection that somebody forgot to close must not call into memory that is gone."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of SQLite: what, on which file, and of a write where and what."""

    kind: str
    file: str
    offset: int = 0
    content: bytes = b""


class Watcher(Protocol):
    """Hears of every call."""

    def before(self, call: Call) -> int:
        """0 to let it through, or the code with which it fails without being made."""
        ...

    def after(self, call: Call) -> None:
        """It was made and succeeded."""
        ...


@contextmanager
def watching(watcher: Watcher) -> Generator[None]:
    """Connections that are opened in the block are watched; close them in it."""
    library = ctypes.CDLL(import_module("_sqlite3").__file__)
    library.sqlite3_vfs_find.restype = POINTER(_Vfs)
    usual = library.sqlite3_vfs_find(None)
    shim = _Shim(usual, watcher)
    _SHIMS.append(shim)
    library.sqlite3_vfs_register(ctypes.byref(shim.vfs), 1)
    try:
        yield
    finally:
        library.sqlite3_vfs_register(usual, 1)
        library.sqlite3_vfs_unregister(ctypes.byref(shim.vfs))


class _Shim:
    """The copy of the table, and all that must stay in memory as long as SQLite may call it."""

    def __init__(self, usual: Any, watcher: Watcher) -> None:
        self._address = ctypes.addressof(usual.contents)
        self._watcher = watcher
        self._names: dict[int, str] = {}
        self._fresh_logs: set[int] = set()
        self._tables: dict[int, _Methods] = {}
        self._callbacks: list[Any] = []
        self._real_open = _OPEN(usual.contents.open)
        self._real_delete = _DELETE(usual.contents.delete)
        self.vfs = _Vfs.from_buffer_copy(usual.contents)
        self.vfs.name = b"watched"
        self.vfs.open = self._keep(_OPEN, self._open)
        self.vfs.delete = self._keep(_DELETE, self._delete)

    def _keep(self, kind: Any, call: Callable[..., int]) -> int | None:
        callback = kind(call)
        self._callbacks.append(callback)
        return ctypes.cast(callback, c_void_p).value

    def _open(self, _vfs: int, name: int | None, file: int, flags: int, out: int) -> int:
        path = "" if not name else os.fsdecode(ctypes.string_at(name))
        call = Call("open", path)
        code = self._watcher.before(call)
        if code:
            # A file without methods is one that SQLite does not close.
            _File.from_address(file).methods = POINTER(_Methods)()
            return code
        existed = bool(path) and Path(path).exists()
        code = int(self._real_open(self._address, name, file, flags, out))
        if code == 0:
            self._names[file] = path
            opened = _File.from_address(file)
            opened.methods = ctypes.pointer(self._methods(opened.methods))
            if not existed:
                self._watcher.after(Call("create", path))
                if flags & (OPEN_WAL | OPEN_JOURNAL):
                    self._fresh_logs.add(file)
            self._watcher.after(call)
        return code

    def _delete(self, _vfs: int, name: bytes, sync: int) -> int:
        call = Call("delete", os.fsdecode(name))
        code = self._watcher.before(call) or int(self._real_delete(self._address, name, sync))
        if code == 0:
            self._watcher.after(call)
            if sync:
                self._watcher.after(Call("sync names", call.file))
        return code

    def _methods(self, real: Any) -> _Methods:
        """The watched form of a table of methods."""
        where = ctypes.addressof(real.contents)
        if where not in self._tables:
            table = _Methods.from_buffer_copy(real.contents)
            for kind, signature in _SIGNATURES.items():
                if address := getattr(real.contents, kind):
                    setattr(table, kind, self._keep(signature, self._watched(kind, signature(address))))
            self._tables[where] = table
        return self._tables[where]

    def _watched(self, kind: str, real: Callable[..., int]) -> Callable[..., int]:
        def call(file: int, *rest: Any) -> int:
            name = self._names.get(file, "")
            made = Call(kind, name)
            if kind == "write":
                made = Call(kind, name, rest[2], ctypes.string_at(rest[0], rest[1]))
            elif kind == "truncate":
                made = Call(kind, name, rest[0])
            code = 0 if kind == "close" else self._watcher.before(made)
            code = code or real(file, *rest)
            if code == 0:
                self._watcher.after(made)
                if kind == "sync" and file in self._fresh_logs:
                    # SQLite makes the name of a new log durable with its first content.
                    self._fresh_logs.discard(file)
                    self._watcher.after(Call("sync names", name))
            return code

        return call
