"""Nobody but the trust boundary opens a seal: an import added anywhere else is refused by the import contracts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"


def broken_contracts(folder: Path) -> str:
    """What import-linter reports about the copy of the package in ``folder``; empty if all contracts hold."""
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--config", str(folder / "pyproject.toml"), "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    return "" if done.returncode == 0 else done.stdout


@pytest.fixture
def package(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    return tmp_path


def add_import(package: Path, module: str, imported: str) -> None:
    path = package / "src" / "veilstream" / module
    path.write_text(f"{path.read_text()}\n\nimport {imported}\n")


def test_the_contracts_hold_as_they_stand(package: Path) -> None:
    assert broken_contracts(package) == ""


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("release/sinks.py", "veilstream.trusted.opening"),
        ("release/plots/picture.py", "veilstream.trusted.opening"),
        ("mechanisms/streams/uniform.py", "veilstream.trusted.opening"),
        ("testing/batch.py", "veilstream.trusted.opening"),
        ("storage/codec/coders.py", "veilstream.trusted.opening"),
        ("cli/compare.py", "veilstream.trusted.sealed"),
        ("release/publisher.py", "veilstream.trusted.encoding"),
        ("trusted/meter/laplace.py", "veilstream.trusted.encoding"),
        ("mechanisms/streams/uniform.py", "veilstream.trusted.snapshots"),
    ],
)
def test_an_import_that_would_open_a_seal_is_refused(package: Path, module: str, imported: str) -> None:
    add_import(package, module, imported)
    assert f"{imported}" in broken_contracts(package)
