"""What the pages about the first hour show works as it stands there."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from veilstream.jobs.model import Job

from .support import veilstream

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["advise.md", "pictures.md"])
def test_examples_in_python_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = blocks(page, "python")
    names: dict[str, Any] = {}
    exec(compile(example, page, "exec"), names)
    if page == "advise.md":
        assert str(names["advice"].epsilon) == "3/2"
    else:
        assert (tmp_path / "releases.svg").exists()


def test_the_commands_of_advice_run(tmp_path: Path) -> None:
    advise, bound = (shlex.split(block.replace("\\\n", " "))[1:] for block in blocks("advise.md", "sh"))
    told = veilstream(*advise)
    assert told.code == 0, told.err
    assert "at epsilon 1.5" in told.out
    rows = [f"{host},2024-01-01T0{hour}:00" for host in range(30) for hour in range(3)]
    (tmp_path / "requests.csv").write_text("\n".join(["host,time", *rows]) + "\n")
    for name in ("requests.csv", "budget.db", "limits.png"):
        bound = [str(tmp_path / name) if word == name else word for word in bound]
    looked = veilstream(*bound)
    assert looked.code == 0, looked.err
    assert (tmp_path / "limits.png").exists()


def test_the_table_of_beliefs_is_right() -> None:
    text = (DOCS / "choosing-epsilon.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.,]+) \| ([\d.]+) % \|$", text, flags=re.MULTILINE)
    assert len(rows) == 6
    for epsilon, odds, belief in rows:
        assert float(odds.replace(",", "")) == pytest.approx(math.exp(float(epsilon)), rel=0.03)
        assert float(belief) == pytest.approx(100 / (1 + math.exp(-float(epsilon))), abs=0.05)


def test_options_that_the_pages_name_exist() -> None:
    named = {"plot_kind", "plot_bins", "delimiter", "encoding", "decimal", "time_format", "counts_per_user"}
    assert named <= Job.model_fields.keys()
