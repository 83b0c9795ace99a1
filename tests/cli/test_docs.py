"""What the documents show works as it stands there."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import veilstream as vs
from veilstream.audit import attack
from veilstream.cli.app import COMMANDS
from veilstream.jobs.model import Job

from .support import veilstream

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/index.md", "docs/quickstart.md")


def blocks(document: str, language: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def load(source: str, path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_python_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = blocks("README.md", "python")
    assert len(examples) == 2
    module: Any = load("\n".join(examples), tmp_path / "example.py", "readme_example", monkeypatch)
    assert module.release.t == 47
    assert (module.low < module.high).all()
    assert len(module.job.releases) == 3
    assert (tmp_path / "visits.png").read_bytes().startswith(b"\x89PNG")
    module.publisher.close()


def test_newcomers_path(tmp_path: Path) -> None:
    commands = blocks("README.md", "sh")
    assert len(commands) == 5
    environment = {**os.environ, "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"}
    for number, command in enumerate(commands):
        done = subprocess.run(
            ["bash", "-euc", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        # The dry run comes third, before anything may be written.
        assert (tmp_path / "budget.db").exists() == (number >= 3)
    assert "epsilon 1 within any 24 successive steps" in done.stdout
    assert (tmp_path / "releases.png").exists()
    assert (tmp_path / "releases.parquet").exists()


def test_the_job_file_of_the_quickstart(tmp_path: Path) -> None:
    (job,) = blocks("docs/quickstart.md", "toml")
    (tmp_path / "job.toml").write_text(job)
    (tmp_path / "visits.csv").write_text("ts,id,place\n2024-03-01T10:00:00,1,market\n2024-03-03T10:00:00,2,market\n")
    assert Job.load(tmp_path / "job.toml", {}).window == 7
    assert veilstream("publish", "--config", tmp_path / "job.toml", "--dry-run").code == 0
    outcome = veilstream("publish", "--config", tmp_path / "job.toml", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["released_now"] == 3


def test_the_mechanism_of_contributing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, tests, audit = blocks("CONTRIBUTING.md", "python")
    name = "veilstream.mechanisms.streams.smoothed"
    module: Any = load(mechanism, tmp_path / "smoothed.py", name, monkeypatch)
    monkeypatch.setitem(vs.STREAMS, "smoothed", module.Smoothed)
    suite = load(tests, tmp_path / "test_smoothed_example.py", "contributing_tests", monkeypatch)
    found: list[Callable[[], None]] = [value for key, value in vars(suite).items() if key.startswith("test_")]
    assert len(found) == 2
    for test in found:
        test()
    assert "smoothed" in veilstream("mechanisms").out
    entry: Any = load(audit, tmp_path / "smoothed_entry.py", "contributing_audit", monkeypatch)
    for claim in entry.smoothed():
        attack(claim, confidence=1 - 1e-9).require()


def test_mechanisms_of_the_readme_exist() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Mechanisms")[2].partition("##")[0]
    named = set(re.findall(r"^\| `([a-z-]+)`", table, flags=re.MULTILINE))
    assert {"uniform", "sample", "fixed-rate", "geometric", "gaussian"} <= named
    assert named <= {*vs.STREAMS, *vs.HISTOGRAMS, *COMMANDS}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]
    missing = [target for target in targets if not ((ROOT / document).parent / target).exists()]
    assert not missing
