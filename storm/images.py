"""What a disk may hold after power was lost: all that was synced, and any part of the rest.

Writes since the last sync of a file may be kept or lost in any combination and order, torn at sectors of 512 bytes, and
what was lost may be garbage; of names created or deleted since the last sync of their folder each may be old or new.
"""

from __future__ import annotations

import os
import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

from storm.disk import Call

SECTOR: Final = 512
MODES: Final = ("nothing", "everything", "torn at the end", "some writes", "some sectors", "garbage")


@dataclass(slots=True)
class _File:
    """What is on the disk for sure, and what was written since the last sync."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Call] = field(default_factory=list[Call])

    def sync(self) -> None:
        for call in self.pending:
            _apply(self.durable, call)
        self.pending.clear()

    def image(self, mode: str, chance: random.Random) -> bytes:
        """What may be left of the file."""
        content = bytearray(self.durable)
        for call in _survivors(self.pending, mode, chance):
            _apply(content, call)
        return bytes(content)


def _apply(content: bytearray, call: Call) -> None:
    if call.kind == "truncate":
        del content[call.offset :]
        content.extend(bytes(call.offset - len(content)))
        return
    end = call.offset + len(call.content)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[call.offset : end] = call.content


def _survivors(pending: list[Call], mode: str, chance: random.Random) -> Iterator[Call]:
    if mode == "everything":
        yield from pending
    elif mode == "torn at the end" and pending:
        whole = chance.randrange(len(pending))
        yield from pending[:whole]
        yield from (part for part in _sectors(pending[whole]) if chance.random() < 0.5)
    elif mode == "some writes":
        yield from (call for call in pending if chance.random() < 0.5)
    elif mode in ("some sectors", "garbage"):
        parts = [part for call in pending for part in _sectors(call)]
        if chance.random() < 0.5:
            chance.shuffle(parts)
        for part in parts:
            if chance.random() < 0.5:
                yield part
            elif mode == "garbage" and part.kind == "write":
                yield Call("write", part.file, part.offset, chance.randbytes(len(part.content)))


def _sectors(call: Call) -> Iterator[Call]:
    """The parts of a write that a disk makes one by one."""
    if call.kind != "write":
        yield call
        return
    start, end = call.offset, call.offset + len(call.content)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        yield Call("write", call.file, start, call.content[start - call.offset : stop - call.offset])
        start = stop


class Disk:
    """The files of one folder, as calls change them."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder) + "/"
        self._names: dict[str, list[_File | None]] = {}

    def make(self, call: Call) -> None:
        """Let a call happen."""
        if not call.file.startswith(self._folder):
            return
        # What a name stands for: first on the disk for sure, last by now; between, what it was meanwhile.
        known = self._names.setdefault(call.file, [None])
        if call.kind == "create":
            known.append(_File())
        elif call.kind == "delete":
            known.append(None)
        elif call.kind == "sync names":
            for meanings in self._names.values():
                del meanings[:-1]
        else:
            self._change(known, call)

    def _change(self, known: list[_File | None], call: Call) -> None:
        file = known[-1]
        if call.kind not in ("write", "truncate", "sync") or file is None:
            return
        if call.kind == "sync":
            file.sync()
        else:
            file.pending.append(call)

    def image(self, folder: Path, mode: str, chance: random.Random) -> None:
        """Put what may be left into another folder."""
        for name, meanings in self._names.items():
            file = chance.choice(meanings)
            if file is not None:
                path = folder / name.removeprefix(self._folder)
                path.write_bytes(file.image(mode, chance))
                path.chmod(0o600)


class Recorder:
    """Keeps every call that changes a file, in order, with notes between them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def before(self, call: Call) -> int:
        return 0

    def after(self, call: Call) -> None:
        if call.kind in ("create", "delete", "write", "truncate", "sync", "sync names"):
            self.calls.append(call)

    def note(self, text: str) -> None:
        """Note that something was shown to somebody."""
        self.calls.append(Call("seen", "", content=text.encode()))

    @contextmanager
    def of_python(self) -> Generator[None]:
        """Record also what Python itself writes through ``os``."""
        real_open, real_pwrite, real_fsync = os.open, os.pwrite, os.fsync

        def opened(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            new = bool(flags & os.O_CREAT) and not Path(path).exists()
            descriptor = real_open(path, flags, *rest, **options)
            if new:
                self.after(Call("create", os.fsdecode(path)))
            return descriptor

        def written(descriptor: int, content: bytes, offset: int) -> int:
            done = real_pwrite(descriptor, content, offset)
            self.after(Call("write", _path_of(descriptor), offset, content[:done]))
            return done

        def synced(descriptor: int) -> None:
            real_fsync(descriptor)
            path = _path_of(descriptor)
            self.after(Call("sync names", f"{path}/") if Path(path).is_dir() else Call("sync", path))

        with (
            mock.patch.object(os, "open", opened),
            mock.patch.object(os, "pwrite", written),
            mock.patch.object(os, "fsync", synced),
        ):
            yield


def _path_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())
