"""Ten thousand inputs of the fuzzer, and everything that failed once: no foreign exception, no traceback, no hang."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import veilstream
from fuzz.calls import ESTIMATORS, MECHANISMS
from fuzz.case import Case
from fuzz.commands import BASES, model
from fuzz.generating import case_of
from fuzz.recipes import RECIPES
from veilstream.errors import VeilstreamError

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).parent / "corpus"


def fuzz(*words: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own, whose memory is limited and whose server serves nobody."""
    command = [sys.executable, "-m", "fuzz", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("seed", [1, 2])
def test_five_thousand_inputs_do_no_harm(seed: int, tmp_path: Path) -> None:
    done = fuzz("--inputs", 5_000, "--seed", seed, "--workers", 1, "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5,000 inputs, 0 failures" in done.stdout


def test_what_failed_once_does_not_fail_again(tmp_path: Path) -> None:
    kept = [case for path in CORPUS.glob("*.json") for case in json.loads(path.read_text())]
    assert len(kept) > 60
    done = fuzz("--replay", CORPUS, "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(kept)} inputs, 0 failures" in done.stdout


def test_every_command_and_every_public_name_is_tried() -> None:
    assert set(BASES) == set(model())
    public = {
        name
        for name in veilstream.__all__
        if not name.startswith("__")
        and not (isinstance(kind := getattr(veilstream, name), type) and issubclass(kind, VeilstreamError))
    }
    assert public == {*RECIPES, *MECHANISMS, *ESTIMATORS}


def test_inputs_can_be_made_and_kept_again() -> None:
    kinds = set()
    for number in range(300):
        case = case_of(5, number)
        kinds.add(case.kind)
        assert case == case_of(5, number)
        assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case
    assert kinds == {"call", "command", "damage"}
