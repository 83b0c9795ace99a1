"""What is not installed with veilstream alone is missed with a cure, and the rest works without it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .docs.running import blocks

ROOT = Path(__file__).resolve().parents[1]
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({absent!r}))\n{program}"
"""Python takes a module that is None for one that is not installed."""


def extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    left_out = ("test", "bench", "docs")
    return {name: needed for name, needed in project["optional-dependencies"].items() if name not in left_out}


def packages(extra: str) -> set[str]:
    names = {"psycopg[binary]": "psycopg", "confluent-kafka": "confluent_kafka", "nats-py": "nats"}
    bare = (needed.partition(">")[0].partition("<")[0] for needed in extras()[extra])
    return {names.get(name, name.partition("[")[0]) for name in bare}


def run_without(absent: set[str], program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    text = WITHOUT.format(absent=sorted(absent), program=program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", text]
    return subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)


def test_the_first_example_of_the_readme_needs_no_extra(tmp_path: Path) -> None:
    every = {package for extra in extras() for package in packages(extra)}
    assert {"typer", "rich", "matplotlib", "psycopg"} <= every
    done = run_without(every, blocks("README.md", "python")[0], tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_command_says_how_to_install_itself(tmp_path: Path) -> None:
    done = run_without(packages("cli"), "from veilstream.__main__ import main; main()", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: the command line needs: pip install 'veilstream[cli]'\n"


CALL = """
import veilstream as vs
rows = {"id": [1, 2], "t": [0, 1]}
vs.publish(rows, user="id", time="t", every=1, start=0, end=2, epsilon=1, window=2, ledger="b.db"%s)
"""


@pytest.mark.parametrize(("more", "extra"), [(', plot="p.png"', "plot"), (', plot="p.html"', None), ("", None)])
def test_pictures_are_refused_before_anything_is_spent(more: str, extra: str | None, tmp_path: Path) -> None:
    done = run_without(packages("plot"), CALL % more, tmp_path)
    if extra is None:
        assert done.returncode == 0, done.stderr
    else:
        assert "MissingExtraError" in done.stderr
        assert f"pip install 'veilstream[{extra}]'" in done.stderr
    assert (tmp_path / "b.db").exists() == (extra is None)


def test_a_ledger_on_a_server_says_what_it_needs(tmp_path: Path) -> None:
    program = "import veilstream as vs; vs.Ledger.open('postgresql://nobody@localhost/none')"
    done = run_without(packages("postgres"), program, tmp_path)
    assert "pip install 'veilstream[postgres]'" in done.stderr
