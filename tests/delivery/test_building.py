"""A release is the same wherever it is built, holds tracked files alone, and has its sums."""

from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from delivery import building

DATE = 1_700_000_000
pytestmark = pytest.mark.xdist_group("delivery")


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> list[list[Path]]:
    """The same tree copied and built twice, with other dates and modes of its files and another umask."""
    built: list[list[Path]] = []
    for number, mask in enumerate((0o022, 0o077)):
        folder = tmp_path_factory.mktemp(f"tree{number}")
        before = os.umask(mask)
        try:
            building.copy_tree(folder / "tree")
            for path in (folder / "tree").rglob("*.py"):
                os.utime(path, (DATE + 9_000 * number, DATE + 9_000 * number))
            built.append(building.build(folder / "tree", folder / "dist", DATE))
        finally:
            os.umask(before)
    return built


def test_wheel_and_sdist_are_the_same_byte_for_byte(trees: list[list[Path]]) -> None:
    first, second = trees
    assert [path.suffix for path in first] == [".whl", ".gz"]
    assert [building.digest(path) for path in first] == [building.digest(path) for path in second]


def test_every_file_has_the_date_of_the_release(trees: list[list[Path]]) -> None:
    wheel, sdist = trees[0]
    with zipfile.ZipFile(wheel) as archive:
        assert {info.date_time[:3] for info in archive.infolist()} == {(2023, 11, 14)}
    with tarfile.open(sdist) as archive:
        assert {member.mtime for member in archive.getmembers()} == {DATE}


def test_the_sdist_builds_the_same_package(trees: list[list[Path]], tmp_path: Path) -> None:
    wheel, sdist = trees[0]
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    again = [path for path in building.build(tree, tmp_path / "dist", DATE) if path.suffix == ".whl"]
    assert [building.digest(path) for path in again] == [building.digest(wheel)]


def test_the_wheel_holds_the_notices_of_what_it_bundles(trees: list[list[Path]]) -> None:
    with zipfile.ZipFile(trees[0][0]) as archive:
        names = archive.namelist()
        notice = next(name for name in names if name.endswith("licenses/src/veilstream/server/page/uplot-license.txt"))
        assert b"MIT" in archive.read(notice)
        scripts = {name for name in names if name.endswith((".js", ".css"))}
    foreign = {name for name in scripts if name.rpartition("/")[2].startswith("uplot")}
    page = (building.ROOT / "docs" / "maintain" / "licences.md").read_text(encoding="utf-8")
    assert foreign
    assert all(name.rpartition("/")[2] in page for name in foreign)


def test_sums_can_be_checked(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"wheel")
    sums = building.write_sums(tmp_path)
    done = subprocess.run(["sha256sum", "--check", sums.name], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0
