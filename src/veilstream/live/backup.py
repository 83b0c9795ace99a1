"""Ledger, spool, keys and marks as one checked unit: taken while others write, put into an empty place.

The unit is a folder. Its ledger and spool are of one moment: every step that the ledger has was frozen in the spool,
and every step that the spool has done is in the ledger. A list of all files with their digests is written last.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from sqlalchemy import Connection, Table

from veilstream.documents import read_json
from veilstream.errors import InvalidInputError, LedgerBusyError, LedgerError
from veilstream.live.closing import refuse_old_copies
from veilstream.live.spool import Spool
from veilstream.live.stream import spool_beside
from veilstream.storage.copies import Write, put_rows
from veilstream.storage.keys import key_path
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.exporting import shown_mark
from veilstream.storage.ledger.records import moment
from veilstream.storage.ledger.restoring import (
    Loss,
    Restored,
    put_in_place,
    put_on_server,
    record_loss,
    restore_copy,
    restore_in_place,
)
from veilstream.storage.ledger.surroundings import create_private, sync, unfinished
from veilstream.storage.ledger.verifying import Finding
from veilstream.storage.location import locate

MANIFEST: Final = "manifest.json"
LEDGER: Final = "ledger.db"
SPOOL: Final = "spool.db"
KEYS: Final = "keys"
FORMAT: Final = 1
TRIES: Final = 5
HISTORIES: Final = ("", ".presence", ".presence.journal")
"""What belongs to a key: the key itself, and who was present, of streams that are published from files."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a ledger and what belongs to it are; ``keys`` are files of keys that are not beside it."""

    ledger: str
    spool: str | Path | None = None
    keys: tuple[Path, ...] = ()

    @property
    def spool_place(self) -> str | Path:
        return spool_beside(self.ledger) if self.spool is None else self.spool

    def opened_spool(self) -> Spool | None:
        """The spool, if there is one."""
        at = str(self.spool_place)
        if "://" not in at or at.startswith("sqlite"):
            return Spool(at) if Path(at.removeprefix("sqlite:///")).is_file() else None
        spool = Spool(at)
        if spool.names():
            return spool
        spool.close()
        return None


def back_up(place: Place, folder: Path, beside: Sequence[Table] = ()) -> dict[str, Any]:
    """Copy all of it to a new folder; the list of its files. ``beside`` are more tables that lie with the spool."""
    if folder.exists():
        raise LedgerError(name="backup", value=folder, limit="it exists already", outcome="nothing was written")
    partial = unfinished(folder)
    try:
        for _ in range(TRIES):
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(mode=0o700, parents=True)
            if _copied(place, partial, beside):
                manifest = _listed(partial)
                partial.replace(folder)
                sync(folder.parent)
                return manifest
    except OSError as error:
        raise LedgerError(
            name="backup", value=folder, limit=f"{error.strerror}", outcome="nothing was written"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    raise LedgerBusyError(
        name="backup",
        value=folder,
        limit="a job went on publishing while its keys were copied",
        outcome="nothing was written",
    )


def _copied(place: Place, folder: Path, beside: Sequence[Table]) -> bool:
    """Whether copies of ledger, spool and keys belong to one moment."""
    with ExitStack() as stack:
        ledger = stack.enter_context(Ledger.open(place.ledger))
        files = _key_files(place, ledger)
        before = _signature(files)
        with ExitStack() as held:
            # The moment of each while the spool takes no step: between the two nothing was frozen, nothing is done.
            spool, writes = place.opened_spool(), dict[str, Write]()
            if spool is not None:
                stack.callback(spool.close)
                held.enter_context(spool.standing_still())
                writes[SPOOL] = stack.enter_context(spool.one_moment(beside))
            writes[LEDGER] = stack.enter_context(ledger.one_moment())
        for name, write in writes.items():
            write(folder / name)
        (folder / KEYS).mkdir(mode=0o700)
        for name, path in files.items():
            create_private(folder / KEYS / name)
            (folder / KEYS / name).write_bytes(path.read_bytes())
        return _signature(files) == before == _signature(_key_files(place, ledger))


def _key_files(place: Place, ledger: Ledger) -> dict[str, Path]:
    """The files of keys by the name that they have in a backup."""
    database = locate(place.ledger).file
    keys: dict[str, Path] = {}
    if database is not None:
        keys = {spec.name: key_path(database, spec.name, None) for spec in ledger.streams()}
    for path in place.keys:
        try:
            keys[read_json(path.read_text(encoding="utf-8"))["stream"]] = path
        except (OSError, ValueError, KeyError, TypeError):
            raise LedgerError(name="key file", value=path, limit="no key that can be read") from None
    found = {
        f"{quote(stream, safe='')}.key{end}": path.with_name(f"{path.name}{end}")
        for stream, path in keys.items()
        for end in HISTORIES
    }
    return {name: path for name, path in found.items() if path.is_file()}


def _signature(files: Mapping[str, Path]) -> dict[str, tuple[int, ...]]:
    """By what a history is the same as before; its journal may grow, and is read as far as the ledger goes."""
    seen: dict[str, tuple[int, ...]] = {}
    for name, path in files.items():
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue
        seen[name] = (stat.st_ino,) if name.endswith(".journal") else (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return seen


def _listed(folder: Path) -> dict[str, Any]:
    """Write the list of all files, and have all of it on the disk."""
    with Ledger.open(folder / LEDGER) as copy:
        marks = {spec.name: shown_mark(copy.mark(spec.name)) for spec in copy.streams()}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    listed = {path.relative_to(folder).as_posix(): _digest(path) for path in files}
    manifest: dict[str, Any] = {"format": FORMAT, "made": moment(), "marks": marks, "files": listed}
    create_private(folder / MANIFEST)
    (folder / MANIFEST).write_text(json.dumps({**manifest, "digest": _digest_of(manifest)}, indent=1), encoding="utf-8")
    for path in [*files, folder / MANIFEST, folder / KEYS, folder]:
        sync(path)
    return manifest


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def checked(folder: Path) -> dict[str, Any]:
    """The list of a backup's files, each of which is as it was written; an error if one is not."""

    def damaged(what: str) -> LedgerError:
        return LedgerError(
            name="backup", value=folder, limit=what, outcome="nothing was restored", next_step="take another backup"
        )

    try:
        manifest: dict[str, Any] = read_json((folder / MANIFEST).read_text(encoding="utf-8"))
        digest = manifest.pop("digest")
        if manifest["format"] != FORMAT or digest != _digest_of(manifest):
            raise damaged("its list of files was altered, or another version wrote it")
        listed: dict[str, str] = manifest["files"]
        found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {MANIFEST}
        wrong = sorted(found ^ set(listed)) or sorted(
            name for name, digest in listed.items() if _digest(folder / name) != digest
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise damaged("no backup, or one that is incomplete") from None
    if wrong:
        raise damaged(f"{wrong[0]!r} is missing, was altered or does not belong to it")
    return manifest


@dataclass(frozen=True, slots=True)
class Outcome:
    """What restoring means: what the ledger has lost, and where streams go on whose spool is behind it."""

    ledger: Restored
    spool: dict[str, int]

    def lines(self) -> list[str]:
        """The same in words."""
        said = [str(loss) for loss in self.ledger.losses]
        said += [
            f"stream '{name}': rows that the spool took for steps before {step} are gone"
            for name, step in self.spool.items()
        ]
        said += [
            f"stream '{name}': it began after the backup; nothing of it is here (veilstream ledger reset)"
            for name in self.ledger.gone
        ]
        if self.ledger.gone:
            said.append(
                "populations: what these streams drew is not known, so that nobody can draw on their pools any more"
            )
        return said


def restore(
    folder: Path,
    place: Place,
    last_steps: Mapping[str, int],
    *,
    keys: Path | None = None,
    beside: Sequence[Table] = (),
    apply: bool,
) -> Outcome:
    """Say what going on from a backup loses; if ``apply``, record it and put all of it into an empty place.

    ``keys`` is a folder for the files of keys; by default they lie beside a ledger in a file.
    """
    manifest = checked(folder)
    target = locate(place.ledger)
    key_files = _key_targets(folder, manifest, target.file, keys)
    for path in [target.file, *_spool_file(place), *key_files]:
        if path is not None and path.exists():
            raise LedgerError(
                name="restore",
                value=path,
                limit="it is in the way; a backup goes into an empty place",
                outcome="nothing was restored",
                next_step="move it away with what belongs to it; leave the marks, which say how far streams had come",
            )

    moved: dict[str, int] = {}

    def put(made: Path, ledger: Ledger) -> None:
        for path, content in key_files.items():
            create_private(path)
            path.write_bytes(content.read_bytes())
            sync(path)
        if SPOOL in manifest["files"]:
            moved.update(_put_spool(folder / SPOOL, place, beside, ledger))
        ledger.close()
        if target.file is not None:
            put_in_place(made, target.file)
        else:
            put_on_server(made, place.ledger)

    with tempfile.TemporaryDirectory(prefix="veilstream-restore-") as scratch:
        ready = Path(scratch) / LEDGER if target.file is None else unfinished(target.file)
        found = restore_copy(
            folder / LEDGER,
            ready,
            lambda copy: copy.marks_at(target.file),
            put if apply else None,
            last_steps,
        )
    if not apply and SPOOL in manifest["files"]:
        moved = {loss.stream: loss.resume for loss in found.losses if loss.resume is not None}
    return Outcome(found, moved)


def restore_here(place: Place, last_steps: Mapping[str, int], *, apply: bool) -> Outcome:
    """The same for a ledger and a spool that were put back already, or of which one is an old copy."""
    with Ledger.open(place.ledger) as ledger:
        found = restore_in_place(ledger, last_steps, apply=apply)
        spool = place.opened_spool()
        if spool is None:
            return Outcome(found, {})
        with spool:
            lost = {loss.stream: loss.resume for loss in found.losses}
            behind = dict(_behind(spool, ledger, lost))
            losses = [
                loss for name, head in behind.items() if (loss := _unknown_people(spool, ledger, name, head, lost))
            ]
            if apply:
                for loss in losses:
                    record_loss(ledger, loss)
                return Outcome(Restored([*found.losses, *losses], found.gone), _go_on(spool, ledger))
            resumed = {loss.stream: loss.resume for loss in losses}
            planned = {name: resumed.get(name) or lost.get(name) or head + 1 for name, head in behind.items()}
            return Outcome(Restored([*found.losses, *losses], found.gone), planned)


def disagreements(place: Place) -> list[Finding]:
    """Streams of which ledger or spool is an old copy."""
    found: list[Finding] = []
    spool = place.opened_spool()
    if spool is None:
        return found
    with spool, Ledger.open(place.ledger) as ledger:
        known = {spec.name for spec in ledger.streams()}
        for name in spool.names():
            before = spool.stream(name)
            assert before is not None
            head = ledger.head(name) if name in known else None
            try:
                refuse_old_copies(before, head, spool.stream(name))
            except LedgerError as error:
                found.append(Finding(name, str(error)))
    return found


def _behind(spool: Spool, ledger: Ledger, lost: Mapping[str, int | None]) -> Generator[tuple[str, int]]:
    """Streams of which the ledger has steps that the spool has not frozen, with the last one."""
    known = {spec.name for spec in ledger.streams()}
    for name in spool.names():
        stream = spool.stream(name)
        head = ledger.head(name) if name in known else None
        if name in lost and lost[name] is None:
            continue
        if stream is not None and ((head is not None and head >= stream.frozen) or name in lost):
            yield name, -1 if head is None else head


def _unknown_people(spool: Spool, ledger: Ledger, name: str, head: int, lost: Mapping[str, int | None]) -> Loss | None:
    """Nobody knows who was present in steps that the spool has forgotten: where that decides about later ones, the
    stream goes on where no window holds both, as after a loss."""
    stream = spool.stream(name)
    assert stream is not None
    definition = stream.definition
    if name in lost or (definition.presence is None and definition.distinct_steps in (None, 1)):
        return None
    period = definition.guarantee.period
    resume = None if period is None else head + 1 + period
    return Loss(name, head + 1, head + 1, resume, ledger.mark(name).number, "an old copy of the spool")


def _go_on(spool: Spool, ledger: Ledger) -> dict[str, int]:
    """Let streams of a spool that is behind its ledger go on where the ledger does."""
    moved = {name: head + 1 for name, head in _behind(spool, ledger, {})}
    for name, step in moved.items():
        spool.go_on_at(name, step)
    return moved


def _key_targets(
    folder: Path, manifest: Mapping[str, Any], database: Path | None, keys: Path | None
) -> dict[Path, Path]:
    names = [name.removeprefix(f"{KEYS}/") for name in manifest["files"] if name.startswith(f"{KEYS}/")]
    if names and database is None and keys is None:
        raise InvalidInputError("keys: missing; say in which folder the files of keys are to lie (--keys)")
    found: dict[Path, Path] = {}
    for name in names:
        stream, _, end = name.partition(".key")
        path = key_path(database, unquote(stream), None) if keys is None else keys / f"{stream}.key"
        found[path.with_name(f"{path.name}{end}")] = folder / KEYS / name
    return found


def _spool_file(place: Place) -> list[Path]:
    at = str(place.spool_place)
    return [] if at.startswith("postgres") else [Path(at.removeprefix("sqlite:///"))]


def _put_spool(copy: Path, place: Place, beside: Sequence[Table], ledger: Ledger) -> dict[str, int]:
    """Put the copy of a spool in its place, its streams where the ledger goes on."""
    files = _spool_file(place)
    if files:
        made = unfinished(files[0])
        create_private(made)
        made.write_bytes(copy.read_bytes())
        with Spool(made) as spool:
            moved = _go_on(spool, ledger)
        put_in_place(made, files[0])
        return moved
    with Spool(place.spool_place) as spool:
        if spool.names():
            raise LedgerError(
                name="spool", value=spool.label, limit="it has streams; a backup goes into an empty place"
            )
        with spool.write() as connection:
            _make(connection, beside)
            put_rows(copy, connection, [*spool.tables, *beside])
        return _go_on(spool, ledger)


def _make(connection: Connection, tables: Sequence[Table]) -> None:
    for table in tables:
        table.create(connection, checkfirst=True)
