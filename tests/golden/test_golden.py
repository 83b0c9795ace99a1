"""What was released, counted and charged stays what it was while the code around it changes.

``python -m tests.golden`` writes ``recorded.json`` anew; what changes on purpose is listed in docs/design.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden.cases import CASES
from tests.golden.recording import RECORDED, plain, repeated_noise

KNOWN: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_nothing_changes_by_the_way(name: str, tmp_path: Path) -> None:
    with repeated_noise(name):
        found = plain(CASES[name](tmp_path))
    assert found == KNOWN[name]


def test_every_recorded_case_is_tried() -> None:
    assert set(KNOWN) == set(CASES)
