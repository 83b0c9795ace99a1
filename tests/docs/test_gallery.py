"""Every example of the gallery runs from an empty folder and draws its picture; what the site shows is there."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot

from website import gallery

mpl.use("Agg")
NAMES = [name for name in gallery.names() if name != "spark"]
"""The example of Spark runs in tests/spark, where there is a session."""


def test_the_gallery_shows_every_script() -> None:
    assert sorted(gallery.names()) == sorted(path.stem for path in gallery.SCRIPTS.glob("*.py"))
    assert len(gallery.names()) >= 8
    for name in gallery.names():
        assert (gallery.SHOWN / f"{name}.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")
        assert (gallery.SHOWN / f"{name}.txt").exists()


@pytest.mark.parametrize("name", gallery.names())
def test_a_script_becomes_a_page(name: str) -> None:
    example = gallery.Example.read(gallery.SCRIPTS / f"{name}.py")
    page = example.markdown()
    assert page.startswith(f"# {example.title}\n")
    assert page.count("```python") >= 2
    assert "# %%" not in page


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(gallery.SCRIPTS / f"{name}.py"), run_name="__main__")
    pyplot.close("all")
    assert (tmp_path / "picture.svg").stat().st_size > 5_000
