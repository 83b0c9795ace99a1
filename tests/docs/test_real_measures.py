"""The examples of the page on measures that read real files run as they stand there, where the files are."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.docs.running import ROOT

TEXT = (ROOT / "docs" / "measures.md").read_text(encoding="utf-8")
EXAMPLES = {"trips": "geolife_1min_182users.parquet", "purchases": "cdnow_purchases.csv.gz"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_on_real_data_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = [code for code in re.findall(r"```python no-run\n(.*?)```", TEXT, re.DOTALL) if EXAMPLES[name] in code]
    if not (Path(os.environ.get("VEILSTREAM_DATA", "")) / EXAMPLES[name]).is_file():
        pytest.skip(f"VEILSTREAM_DATA names no folder with {EXAMPLES[name]}")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/measures.md", "exec"), names)
    table: pl.DataFrame = names["job"].to_polars()
    assert table.height > 30
    assert (table["low"] <= table["high"]).all()
    assert (tmp_path / f"{name}.png").stat().st_size > 5_000
