"""The mechanism that CONTRIBUTING.md adds in ten minutes can be added, tested and audited as it stands there."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import veilstream as vs
from tests.cli.support import veilstream
from tests.docs.running import blocks
from veilstream.audit import attack


def load(source: str, path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


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
