"""Runs the Python and the commands of a page, one block after the other, in a folder of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser

from tests.cli.support import veilstream

ROOT = Path(__file__).resolve().parents[2]


def run_page(page: str, changed: Callable[[str], str] = str) -> dict[str, Any]:
    """Run every block of a page in the working directory; the names that its Python has left.

    Python blocks share their names. Blocks in ``sh`` run in this process where all their lines are calls of veilstream,
    else in bash. ``changed`` makes what a page does for long short.
    """
    python = CodeBlockParser(language="python", evaluator=lambda example: _run_python(example, changed(example.parsed)))
    commands = CodeBlockParser(language="sh", evaluator=lambda example: run_commands(changed(example.parsed)))
    document = Sybil(parsers=[python, commands], path=str(ROOT)).parse(ROOT / page)
    document.namespace["__name__"] = "__main__"
    for example in document.examples():
        _evaluate(example)
    return document.namespace


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in one language."""
    document = Sybil(parsers=[CodeBlockParser(language=language, evaluator=_nothing)]).parse(ROOT / page)
    return [str(example.parsed) for example in document.examples()]


def run_commands(script: str) -> None:
    lines = [shlex.split(line, comments=True) for line in script.replace("\\\n", " ").splitlines()]
    lines = [line for line in lines if line]
    if all(line[0] == "veilstream" and not {"|", ">", "<<"} & set(line) for line in lines):
        for line in lines:
            done = veilstream(*line[1:])
            assert done.code == 0, f"{shlex.join(line)}\n{done.out}\n{done.err}"
        return
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(["bash", "-euc", script], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def _run_python(example: Example, source: str) -> None:
    lines_before = "\n" * (example.line + example.parsed.line_offset)
    exec(compile(lines_before + source, example.path, "exec"), example.namespace)


def _evaluate(example: Example) -> None:
    try:
        example.evaluate()
    except Exception as error:
        error.add_note(f"{example.path}, line {example.line}")
        raise


def _nothing(example: Example) -> None: ...
