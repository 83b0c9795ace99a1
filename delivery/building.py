"""Wheel and sdist that are the same wherever and whenever they are built from the same tree."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
EARLIEST: Final = 315_532_800
"""The first second that a wheel can hold: 1980-01-01."""


def tracked_files(root: Path = ROOT) -> list[str]:
    """The files that git knows, so that nothing that merely lies about is released."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name]


def date_of_commit(root: Path = ROOT) -> int:
    """The date of the last commit in seconds: what every file of a release is dated."""
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, text=True, check=True)
    return max(EARLIEST, int(shown.stdout))


def copy_tree(target: Path, root: Path = ROOT) -> None:
    """The tracked files, without their dates and modes."""
    for name in tracked_files(root):
        source, copy = root / name, target / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)


def build(tree: Path, out: Path, date: int) -> list[Path]:
    """Build wheel and sdist of a tree with every file dated ``date``."""
    out.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(date)}
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out)]
    subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
    return sorted(path for path in out.iterdir() if path.suffix in {".whl", ".gz"})


def build_twice(out: Path) -> list[Path]:
    """Build from two copies of the tree, and refuse a difference of a single byte."""
    date = date_of_commit()
    with tempfile.TemporaryDirectory() as folder:
        built: list[list[Path]] = []
        for name in ("first", "second"):
            tree = Path(folder) / name
            copy_tree(tree)
            built.append(build(tree, Path(folder) / f"{name}-dist", date))
        for one, other in zip(*built, strict=True):
            if one.name != other.name or digest(one) != digest(other):
                raise SystemExit(f"{one.name} differs from build to build; nothing was kept")
        out.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(path, out)) for path in built[0]]


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_sums(out: Path) -> Path:
    """SHA256SUMS of all that lies in ``out``, as ``sha256sum --check`` reads it."""
    sums = out / "SHA256SUMS"
    files = sorted(path for path in out.iterdir() if path.is_file() and path != sums)
    sums.write_text("".join(f"{digest(path)}  {path.name}\n" for path in files), encoding="utf-8")
    return sums
