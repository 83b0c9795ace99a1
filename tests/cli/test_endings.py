"""How a command ends when its surroundings fail: an exit code that says what was released, and one line."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from veilstream.cli.problems import MEANING, ExitCode

from .support import City, veilstream

COMMAND = [sys.executable, "-m", "veilstream"]
FIRST = "veilstream.interrupts"
"""What the command imports first; before that the interpreter alone decides what Ctrl-C does."""
MOMENTS = (1, 4, 17, 40, 90, 160, 240, 330, 420)
"""After so many further imports Ctrl-C comes: from the first line of the command to the loading of Polars."""


@pytest.fixture
def city(tmp_path: Path) -> City:
    return City.make(tmp_path)


@pytest.fixture(autouse=True)
def _ctrl_c_arrives() -> Iterator[None]:
    """Processes inherit that Ctrl-C is ignored, as it is after a command that another test ran in this one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def words(city: City, *more: object, **changes: object) -> list[str]:
    given = {"mechanism": "uniform", "out": None, **changes}
    return [*COMMAND, "publish", *map(str, [city.events, *city.options(**given), *more])]


def ended(process: subprocess.CompletedProcess[str]) -> str:
    """The one line that an error is."""
    assert "Traceback" not in process.stderr
    lines = process.stderr.splitlines()
    assert len(lines) == 1, process.stderr
    assert lines[0].startswith("error: ")
    assert ". Next: " in lines[0]
    return lines[0]


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_early_interrupt_is_one_line(tmp_path: Path, moment: int) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        city = City.make(tmp_path / str(number))
        code, said = interrupted(city, moment)
        if code != ExitCode.OK:
            break
    # Where this process had to wait, the command may have been done before.
    assert code == ExitCode.INTERRUPTED, said
    # The times of imports may share its line.
    assert said.count("error: interrupted; ") == 1
    assert "Traceback" not in said
    assert not city.ledger.exists()


def interrupted(city: City, moment: int) -> tuple[int, str]:
    """How the command ends, and what it says, if Ctrl-C comes after so many imports."""
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", *words(city)[1:]], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        imported = 0
        for line in process.stderr:
            imported += bool(imported) or FIRST in line
            if imported > moment:
                break
        os.kill(process.pid, signal.SIGINT)
        said = process.stderr.read()
    return process.returncode, said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_stdout_after_the_commit_has_an_exit_code_of_its_own(city: City) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words(city), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == ExitCode.UNREPORTED
        assert "released, but not reported" in ended(done)
        assert len(city.released()) == 6
        # The second time nothing is released, so nothing is unreported.
        again = subprocess.run(words(city), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert again.returncode == ExitCode.SYSTEM
        assert "nothing was released" in ended(again)


def test_a_closed_stdout_or_a_reader_that_has_gone(city: City) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        done = subprocess.run(words(city), stdout=gone, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == ExitCode.UNREPORTED
    assert "released, but not reported" in ended(done)
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *words(city, "--again", stream="other")],
        check=False,
        capture_output=True,
    )
    assert closed.returncode == ExitCode.UNREPORTED
    assert len(city.released("other")) == 6


def test_an_output_that_cannot_be_written_after_the_commit(city: City, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("veilstream.release.sinks.sync", full)
    done = city.publish("--json")
    assert done.code == ExitCode.UNREPORTED
    error = done.json["error"]
    assert (error["type"], error["name"]) == ("OutputError", "output")
    assert "costs nothing" in error["next_step"]
    assert len(city.released()) == 6
    assert not city.table.exists()
    assert city.publish("--json").code == ExitCode.SYSTEM
    monkeypatch.undo()
    assert city.publish().code == ExitCode.OK
    assert city.table.exists()


def limited(city: City, kind: int, limit: int, *more: object, **changes: object) -> subprocess.CompletedProcess[str]:
    command = words(city, *more, **changes)
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(kind, (limit, limit)),
    )


@pytest.mark.parametrize("files", [8, 10, 12, 14])
def test_too_few_open_files(city: City, files: int) -> None:
    done = limited(city, resource.RLIMIT_NOFILE, files)
    if done.returncode:
        assert done.returncode in (ExitCode.USAGE, ExitCode.LEDGER, ExitCode.SYSTEM), done.stderr
        assert ended(done)
        assert city.untouched()
    assert city.publish(mechanism="uniform").code == ExitCode.OK


@pytest.mark.parametrize("size", [0, 4_096, 20_000, 60_000])
def test_files_that_may_not_grow(city: City, size: int) -> None:
    done = limited(city, resource.RLIMIT_FSIZE, size, out=city.table)
    if done.returncode:
        assert done.returncode in (ExitCode.LEDGER, ExitCode.UNREPORTED, ExitCode.SYSTEM), done.stderr
        assert ended(done)
        assert not city.table.exists()
    after = city.publish(mechanism="uniform")
    assert after.code == ExitCode.OK, after.err
    assert len(city.released()) == 6


def test_exit_codes_are_documented_where_people_look() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "quickstart.md").read_text(encoding="utf-8")
    told = veilstream("--help").out
    assert set(MEANING) == set(ExitCode)
    for code, meaning in MEANING.items():
        assert f"| {code} | {meaning} |" in page
        assert re.search(rf"^ *{code} +{re.escape(meaning)}$", told, re.MULTILINE)
