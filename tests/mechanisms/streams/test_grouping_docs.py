"""The page on sliding windows shows code that runs and names what is in the catalogue."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from veilstream.mechanisms.streams import STREAMS, RetroactiveGrouping

PAGE = Path(__file__).resolve().parents[3] / "docs" / "retroactive_grouping.md"


def test_the_example_runs_and_the_tables_name_what_exists() -> None:
    text = PAGE.read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    assert names["errors"]["RetroactiveGrouping"] < names["errors"]["TimeUnit"]
    assert (names["low"] < names["high"]).all()
    kinds = re.findall(r"^\| `([\w-]+)` \| `(\w+)` \|", text, flags=re.MULTILINE)
    assert {name: STREAMS[name].__name__ for name, _ in kinds} == dict(kinds)
    assert len(kinds) == 3
    described = set(re.findall(r"^\| `(\w+)` \| [^`]", text, flags=re.MULTILINE))
    assert described == {f.name for f in fields(RetroactiveGrouping)}
