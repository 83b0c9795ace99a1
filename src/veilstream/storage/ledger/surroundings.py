"""What a ledger stands on: file systems whose locks can be trusted, files that nobody else reads, servers that keep
what they confirm."""

from __future__ import annotations

import glob
import os
import stat
from pathlib import Path
from typing import Any, Final

from veilstream.errors import LedgerError

NETWORKS: Final = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "afs", "ceph", "glusterfs", "lustre", "beegfs", "gpfs")
)
"""File systems whose locks may succeed for two at once; those of user space (fuse.sshfs and the like) count too."""
MOUNTS: Final = Path("/proc/self/mounts")


def file_system(path: Path, mounts: str) -> str:
    """The type of the file system that holds ``path``, from a list of mounts as Linux gives it.

    >>> file_system(Path("/data/city/ledger.db"), "none / ext4 rw 0 0\\nserver:/x /data nfs4 rw 0 0\\n")
    'nfs4'
    """
    best, kind = -1, ""
    for line in mounts.splitlines():
        parts = line.split()
        if len(parts) < 3:
            continue
        point = Path(parts[1].replace("\\040", " "))
        if (path == point or point in path.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), parts[2]
    return kind


def refuse_network(path: Path, name: str = "ledger") -> None:
    """Refuse a database on a network file system."""
    try:
        kind = file_system(path, MOUNTS.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return
    if kind in NETWORKS or kind.startswith("fuse.ssh"):
        raise LedgerError(
            name=name,
            value=path,
            limit=f"it is on a network file system ({kind}), whose locks may let two writers in at once; use a local "
            "disk or PostgreSQL",
            outcome="nothing was opened",
        )


def refuse_readable_by_others(path: Path, name: str) -> None:
    """Refuse a secret file that everybody on the machine can read or write."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & stat.S_IRWXO:
        raise LedgerError(
            name=name,
            value=path,
            limit=f"everybody on this machine has access to it (mode {mode:04o}); run: chmod 600 {path}",
            outcome="nothing was opened",
        )


def clean_unfinished(path: Path, pattern: str | None = None) -> None:
    """Delete what processes that died while they wrote ``path`` left beside it; their number is in the name."""
    for left in path.parent.glob(pattern or f".{glob.escape(path.name)}.*"):
        first, last = left.name[1:].partition("-")[0], left.name.rpartition(".")[2]
        number = last if pattern is None else first
        if number.isdecimal() and not _alive(int(number)):
            left.unlink(missing_ok=True)


def unfinished(path: Path) -> Path:
    """A name beside ``path`` for what this process is about to put in its place."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def same_file(path: Path) -> tuple[int, int] | None:
    """By what a file is known as long as it is open; None if it is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def refuse_forgetful_server(cursor: Any) -> None:
    """Refuse a PostgreSQL server that may lose what it has confirmed."""
    for setting in ("fsync", "full_page_writes"):
        value = cursor.execute(f"SHOW {setting}").fetchone()[0]
        if value != "on":
            raise LedgerError(
                name="ledger",
                value=f"{setting} = {value}",
                limit="the server may lose or tear commits when power fails; switch it on",
                outcome="nothing was opened",
            )


def create_private(path: Path) -> None:
    """Make an empty file that nobody else may read; an error if there is one."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def sync(path: Path) -> None:
    """Make what a file holds, or the names in a folder, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
