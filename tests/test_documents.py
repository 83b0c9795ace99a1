"""JSON from outside is read in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

import veilstream
from veilstream.documents import read_json

PACKAGE = Path(veilstream.__file__).parent


def test_what_is_nested_too_deeply_is_a_value_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json("[" * 100_000)


def test_nobody_reads_json_otherwise() -> None:
    read = [path for path in PACKAGE.rglob("*.py") if "read_json(" in path.read_text(encoding="utf-8")]
    assert len(read) > 20
    others = [
        path.name
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "json.loads(" in line and ">>>" not in line
    ]
    assert others == ["documents.py"]
