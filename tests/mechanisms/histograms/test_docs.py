"""The pages on histograms show code that runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veilstream.mechanisms.histograms import HISTOGRAMS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "histograms.md"
SPARSE = PAGE.with_name("sparse.md")


def test_the_example_runs_and_the_table_names_the_catalogue() -> None:
    text = PAGE.read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    assert names["release"].values.shape == (4096,)
    assert (names["low"] < names["high"]).all()
    trial = np.asarray(names["trial"])
    assert trial.min() >= 0
    assert np.array_equal(trial, np.rint(trial))
    for name, kind in re.findall(r"^\| `([\w-]+)` \| `(\w+)` \|", text, flags=re.MULTILINE):
        assert HISTOGRAMS[name].__name__ == kind


def test_the_examples_on_sparse_data_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for example in re.findall(r"^```python\n(.*?)^```$", SPARSE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        exec(compile(example, str(SPARSE), "exec"), names)
    assert names["again"].release.seq == names["tree"].release.seq
    assert abs(names["tree"].boxes.total - 50_000) < 2_000
