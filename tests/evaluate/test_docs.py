"""The example of docs/evaluation.md runs as it stands, and its catalogue names what there is."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evaluation.md"


def test_the_example_runs() -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    assert names["released"].shape == (156, 50)
    assert names["table"].height == 4 * 2 * 3 * 3
    assert set(names["table"]["metric"]) == {"range error", "range error (exact)", "fresh"}


def test_every_part_in_the_table_is_a_module() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    parts = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(parts) == 8
    for name in parts:
        import_module(f"veilstream.evaluate.{name}")
