"""``veilstream compare`` on a public file."""

from __future__ import annotations

import json
from pathlib import Path

from .support import overridden, veilstream


def write_stream(folder: Path) -> Path:
    path = folder / "public.csv"
    rows = [f"{day},{place},{50 + 10 * (place == 'b')}" for day in range(12) for place in ("a", "b")]
    path.write_text("\n".join(["day,place,visits", *rows]) + "\n", encoding="utf-8")
    return path


def options(path: Path, *more: object) -> list[object]:
    place = path.parent / "comparison"
    columns = ["--time", "day", "--every", 1, "--by", "place", "--value", "visits", "--window", 4]
    speed = ["--mechanism", "uniform", "--mechanism", "sample", "--runs", 2, "--workers", 1, "--epsilon", 1]
    return ["compare", path, *overridden([*columns, *speed, "--out", place], *more)]


def test_private_files_are_refused_and_not_read(tmp_path: Path) -> None:
    refused = veilstream(*options(tmp_path / "nowhere.csv"))
    assert refused.code == 2
    assert "not declared public" in refused.err
    assert "nothing was read" in refused.err


def test_table_picture_and_advice(tmp_path: Path) -> None:
    path = write_stream(tmp_path)
    told = veilstream(*options(path, "--public"))
    assert told.code == 0, told.err
    assert "recommended: sample" in told.out
    assert (tmp_path / "comparison" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    lines = (tmp_path / "comparison" / "comparison.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 2
    answer = json.loads(veilstream(*options(path, "--public", "--json")).out)
    assert answer["recommended"] == "sample"
    assert answer["parameters"].startswith("Sample(")
    assert "--mechanism sample" in answer["command"]
    assert "--value COUNTS --per-person 1" in told.out
    assert "--epsilon 1 --window 4" in told.out


def test_a_measured_column_is_compared_by_its_own_error(tmp_path: Path) -> None:
    told = veilstream(*options(write_stream(tmp_path), "--public", "--measure", "mean=0..100"))
    assert told.code == 0, told.err
    assert "error of mean=0..100" in told.out
    assert "--user ID --mean visits --between 0 100" in told.out


def test_a_wrong_window_is_named(tmp_path: Path) -> None:
    wrong = veilstream(*options(write_stream(tmp_path), "--public", "--window", "week"))
    assert wrong.code == 2
    assert "window 'week'" in wrong.err
