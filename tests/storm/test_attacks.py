"""The attacks themselves: what is synced survives in every image, a disk that lies is caught, kills are resumed."""

from __future__ import annotations

import random  # noqa: TID251
import subprocess
import sys
from pathlib import Path

import pytest

from storm.__main__ import main
from storm.disk import Call
from storm.images import MODES, Disk, Recorder
from storm.power import lose_power
from storm.subjects import OneStream

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("mode", MODES)
def test_what_was_synced_is_in_every_image(mode: str, tmp_path: Path) -> None:
    source, image = tmp_path / "source", tmp_path / "image"
    image.mkdir()
    name = str(source / "file")
    disk, seen = Disk(source), set[bytes]()
    kept, lost = b"k" * 1500, b"l" * 1500
    for call in (
        Call("create", name),
        Call("write", name, 0, kept),
        Call("sync", name),
        Call("sync names", name),
        Call("write", name, 1500, lost),
    ):
        disk.make(call)
    for seed in range(20):
        disk.image(image, mode, random.Random(seed))  # noqa: S311
        content = (image / "file").read_bytes()
        assert content[:1500] == kept
        seen.add(content)
    assert len(seen) == 1 if mode in ("nothing", "everything") else len(seen) > 1


def test_a_name_is_there_or_not_until_its_folder_is_synced(tmp_path: Path) -> None:
    disk, there = Disk(tmp_path / "source"), set[bool]()
    disk.make(Call("create", str(tmp_path / "source" / "file")))
    for seed in range(20):
        image = tmp_path / str(seed)
        image.mkdir()
        disk.image(image, "everything", random.Random(seed))  # noqa: S311
        there.add((image / "file").exists())
    assert there == {True, False}


def test_a_disk_that_confirms_what_it_has_not_kept_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Recorder.after
    monkeypatch.setattr(Recorder, "after", lambda self, call: None if call.kind == "sync" else kept(self, call))
    outcome = lose_power(OneStream("uniform"), tmp_path, 20, random.Random(1))  # noqa: S311
    assert outcome.tried == 20
    assert outcome.resumed < 20
    assert any("was seen and is gone" in problem or "steps were seen" in problem for problem in outcome.problems)


def test_the_storm_finds_no_violation(tmp_path: Path) -> None:
    """300 kills, 500 losses of power, and one in 40 system calls failing; then nothing is left to do."""
    page = tmp_path / "page.md"
    page.write_text("<!-- begin storm -->\nold\n<!-- end storm -->\n", encoding="utf-8")
    command = [sys.executable, "-m", "storm", "--kills", "300", "--states", "500", "--calls-every", "40"]
    command += ["--state", str(tmp_path / "state"), "--page", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    table = page.read_text(encoding="utf-8")
    assert table.splitlines()[-2].endswith(" 0 |")
    tried = {line.split(" | ")[0]: line for line in done.stdout.splitlines() if line.startswith("| ")}
    assert len(tried) >= 14
    again = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert again.returncode == 0, again.stdout + again.stderr
    assert page.read_text(encoding="utf-8") == table


@pytest.mark.parametrize("given", [["--only", "no such row"], ["--only", "the service", "--page", "table.md"]])
def test_rows_that_are_run_alone_exist_and_write_no_table_of_all(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(given)
    assert f"error: {given[-2]}:" in capsys.readouterr().err
