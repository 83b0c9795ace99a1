"""The wheel holds the package and nothing beside it, stays small, and works where there is no checkout."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
LARGEST_BYTES = 1_500_000
OUTSIDE = ("research", "tests", "benchmarks", "docs")
IMPORT_ALL = """
import importlib, importlib.util, json, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import veilstream
names = [module.name for module in pkgutil.walk_packages(veilstream.__path__, "veilstream.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
outside = [name for name in sys.argv[2:] if importlib.util.find_spec(name) is not None]
print(json.dumps({"file": veilstream.__file__, "modules": len(names), "outside": outside}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = directory.glob("*.whl")
    return built


def in_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def unpacked(wheel: Path, directory: Path) -> tuple[Path, Path]:
    """The contents of the wheel, and an empty directory to start from."""
    installed, empty = directory / "installed", directory / "empty"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    empty.mkdir()
    return installed, empty


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    sources = (path for path in (ROOT / "src" / "veilstream").rglob("*") if path.is_file())
    expected = {str(path.relative_to(ROOT / "src")) for path in sources if "__pycache__" not in path.parts}
    packed = {name for name in in_wheel(wheel) if ".dist-info/" not in name}
    assert packed == expected


def test_the_wheel_holds_what_is_not_code(wheel: Path) -> None:
    """Typing marker, bundled data, licence; the proof where it is written."""
    packed = in_wheel(wheel)
    assert "veilstream/py.typed" in packed
    assert any(name.startswith("veilstream/cli/bundled/") and name.endswith(".csv.gz") for name in packed)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in packed)
    proof = "veilstream/privacy/PROOF.md"
    assert (proof in packed) == (ROOT / "src" / proof).exists()


def test_the_wheel_holds_nothing_from_beside_the_package(wheel: Path) -> None:
    assert not {name.split("/", 1)[0] for name in in_wheel(wheel)} & set(OUTSIDE)


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST_BYTES


def test_every_module_imports_from_an_empty_directory(wheel: Path, tmp_path: Path) -> None:
    """No module of the package needs the checkout: research and benchmarks cannot be found there."""
    installed, empty = unpacked(wheel, tmp_path)
    command = [sys.executable, "-I", "-c", IMPORT_ALL, str(installed), "research", "benchmarks"]
    result = subprocess.run(command, cwd=empty, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    seen: dict[str, Any] = json.loads(result.stdout)
    assert Path(seen["file"]).is_relative_to(installed)
    assert seen["modules"] > 100
    assert seen["outside"] == []
    assert list(empty.iterdir()) == []


def test_the_command_runs_from_an_empty_directory(wheel: Path, tmp_path: Path) -> None:
    installed, empty = unpacked(wheel, tmp_path)
    start = f"import sys; sys.path.insert(0, {str(installed)!r}); from veilstream.cli import main; main()"
    command = [sys.executable, "-I", "-c", start, "audit", "sample", "--trials", "200", "--workers", "1", "--json"]
    result = subprocess.run(command, cwd=empty, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["findings"]
