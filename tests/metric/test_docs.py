"""The page on points that move little shows code and commands that run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.support import veilstream
from tests.metric.support import uniform_points

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metric.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_every_example_runs() -> None:
    names: dict[str, Any] = {}
    examples = blocks("python")
    assert len(examples) == 3
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    assert names["guarantee"].cost(10) == 100
    assert float(names["map_of_points"].values.sum()) == pytest.approx(5000)
    assert (np.diff(names["east"].values) >= 0).all()


def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    places = uniform_points(300, 2, 1) * [40, 30]
    rows = [f"{x:.3f},{y:.3f}" for x, y in places.tolist()]
    (tmp_path / "taxis.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    (commands,) = blocks("sh")
    for command in commands.replace("\\\n", " ").splitlines():
        done = veilstream(*shlex.split(command)[1:])
        assert done.code == 0, done.err
    assert (tmp_path / "map.csv").read_text().startswith("x,y,points,low,high,covers\n")
