"""The page on histograms shows code that runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from veilstream.histograms import HISTOGRAMS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "histograms.md"


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
