"""What is not installed with veilstream alone is missed with a cure, and the rest works without it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from veilstream.cli.problems import problem_of
from veilstream.cli.reporting import ExitCode
from veilstream.extras import EXTRAS, extra_of

from .docs.running import blocks

ROOT = Path(__file__).resolve().parents[1]
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({absent!r}))\n{program}"
"""Python takes a module that is None for one that is not installed."""


def extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    left_out = ("test", "bench", "docs", "image")
    return {name: needed for name, needed in project["optional-dependencies"].items() if name not in left_out}


def packages(extra: str) -> set[str]:
    return set(EXTRAS[extra])


def test_every_package_of_an_extra_is_missed_with_the_cure_for_it() -> None:
    """Commands find the cure by the name of the module that is not there."""
    imported = {"psycopg[binary]": "psycopg", "confluent-kafka": "confluent_kafka", "nats-py": "nats"}
    assert set(extras()) == set(EXTRAS)
    for extra, needed in extras().items():
        for one in needed:
            name = one.partition(">")[0]
            if not name.startswith("veilstream["):
                top = imported.get(name, name.partition("[")[0])
                assert extra_of("opentelemetry" if top == "opentelemetry-api" else top) == extra
    problem = problem_of(ModuleNotFoundError(name="fastapi.routing"))
    assert (problem.code, problem.next_step) == (ExitCode.USAGE, "pip install 'veilstream[server]'")
    assert problem_of(ModuleNotFoundError(name="no_such_package")).code == ExitCode.INTERNAL


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (["serve", "--demo"], "server"),
        (["demo", "--out", "made"], "plot"),
        (["advise", "--count", "150", "--every", "1d", "--window", "40d", "--epsilon", "1", "--plot", "a.png"], "plot"),
    ],
)
def test_commands_name_the_extra_that_they_need(command: list[str], extra: str, tmp_path: Path) -> None:
    program = f"import sys; sys.argv[1:] = {command}; from veilstream.__main__ import main; main()"
    done = run_without(packages(extra), program, tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(f"needs: pip install 'veilstream[{extra}]'. Next: pip install 'veilstream[{extra}]'\n")
    assert list(tmp_path.iterdir()) == []


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
