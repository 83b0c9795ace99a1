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


def test_every_module_in_the_table_is_there() -> None:
    rows = re.findall(r"^\| `((?:veilstream|research)[\w.]*)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 10
    for name in rows:
        import_module(name)
