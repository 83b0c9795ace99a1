"""Every kind of picture in every format; colours that tell noise from counts; a page that needs no network."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from veilstream.data import Domain
from veilstream.errors import InvalidInputError
from veilstream.release.measure import Measure
from veilstream.release.plots import MOST_ROWS, SUFFIXES, PlotOptions, bins_drawn, plot_releases
from veilstream.release.plots.heat import BELOW, NOISE, NOISE_BELOW, Colours
from veilstream.release.plots.table import arrange
from veilstream.release.sinks import NOISE_ENDS

from .support import table

BEGINS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml", ".html": b"<!doctype html>"}


def walk(steps: int, bins: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    rng = np.random.default_rng(1)  # noqa: TID251 (data)
    return np.cumsum(rng.integers(-3, 4, (steps, bins)), axis=0).astype(np.float64)


def grid_table(steps: int) -> pl.DataFrame:
    lat = [f"[{i}, {i + 1})" for i in range(8)]
    cells = [(a, b) for a in lat for b in lat]
    frame = table(walk(steps, 64), ["x"] * 64).drop("place")
    names = pl.DataFrame(cells * steps, schema=["lat", "lon"], orient="row")
    return pl.concat([frame, names], how="horizontal")


TABLES = {
    "few": table(walk(30, 2), ["a", "b"]),
    "repeated": table(walk(30, 2), ["a", "b"], fresh=np.arange(30) % 5 == 0),
    "long": table(walk(2000, 1)),
    "numbers": table(walk(2000, 1), hours=False),
    "many": table(walk(20, 30), [f"place {i}" for i in range(30)]),
    "once": table(walk(1, 20), [f"place {i}" for i in range(20)], hours=False),
    "plane": grid_table(3),
    "one value": table(walk(1, 1)),
    "all noise": table(np.zeros((20, 15)), [f"place {i}" for i in range(15)]),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_shape_of_table_is_drawn(name: str, tmp_path: Path) -> None:
    path = plot_releases(TABLES[name], tmp_path / "a.png", measure=Measure("people", "1h"))
    assert path.read_bytes().startswith(BEGINS[".png"])
    assert [file.name for file in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_is_written(suffix: str, tmp_path: Path) -> None:
    path = plot_releases(TABLES["repeated"], tmp_path / f"a{suffix}", title="A <title>")
    assert path.read_bytes().startswith(BEGINS[suffix])


@pytest.mark.parametrize("kind", ["lines", "map", "bars", "grid"])
def test_the_kind_can_be_chosen(kind: str, tmp_path: Path) -> None:
    options = PlotOptions(kind=kind, size=(5, 4), value_range=(-5, 50))  # type: ignore[arg-type]
    assert plot_releases(TABLES["plane"], tmp_path / "a.svg", options=options).exists()


def test_words_of_the_picture_name_measure_dates_and_freshness(tmp_path: Path) -> None:
    """SVG keeps text as outlines, so its source is asked for the text that was drawn."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        picture = plot_releases(TABLES["repeated"], tmp_path / "a.svg", measure=Measure.of_events(20, "1h"))
        heat = plot_releases(TABLES["many"], tmp_path / "b.svg", measure="visits").read_text(encoding="utf-8")
        again = plot_releases(TABLES["repeated"], tmp_path / "d.svg", options=PlotOptions(kind="map"))
        long = plot_releases(TABLES["long"], tmp_path / "c.svg").read_text(encoding="utf-8")
    text = picture.read_text(encoding="utf-8")
    for words in ("rows, at most 20 per person, per hour", "released afresh", "repeated", "95% interval", "UTC"):
        assert words in text
    assert re.search(r"\d\d Jan|\d\d:00", text)
    for words in ("visits (square-root scale)", "cannot be told from zero", "value below zero"):
        assert words in heat
    for words in ("mean of", "lowest to highest step in it", "95% interval, one step"):
        assert words in long
    assert "released afresh; between, repeated as of then" in again.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["few", "many", "once", "plane"])
def test_pictures_of_biased_methods_claim_nothing_about_counts(kind: str, tmp_path: Path) -> None:
    import matplotlib as mpl

    biased = TABLES[kind].rename(NOISE_ENDS)
    with mpl.rc_context({"svg.fonttype": "none"}):
        drawn = plot_releases(biased, tmp_path / "a.svg").read_text(encoding="utf-8")
    page = plot_releases(biased, tmp_path / "a.html").read_text(encoding="utf-8")
    for text in (drawn, page):
        assert "interval of the noise alone, not of the count" in text
    for claim in ("cannot be told from zero", "by chance"):
        assert claim not in drawn


def test_noise_and_negatives_have_colours_of_their_own() -> None:
    released = arrange(table(np.array([[3.0, -3.0, -9.0, 9.0, 90.0]]), list("abcde")))
    cells = Colours(released, None).paint(released.value, released.low, released.high)[:, 0]
    shades = ["#" + "".join(f"{round(float(part) * 255):02x}" for part in cell) for cell in cells]
    assert shades[:3] == [NOISE, NOISE_BELOW, BELOW]
    assert len(set(shades)) == 5


def test_a_plane_needs_two_attributes(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as refused:
        plot_releases(TABLES["many"], tmp_path / "a.png", options=PlotOptions(kind="grid"))
    assert refused.value.name == "kind"
    with pytest.raises(InvalidInputError) as refused:
        plot_releases(TABLES["many"], tmp_path / "a.gif")
    assert refused.value.name == "plot"
    assert not list(tmp_path.iterdir())


def test_the_page_stands_alone_and_cannot_be_broken_by_a_name(tmp_path: Path) -> None:
    names = ["</script><script>alert(1)</script>", "@script@"]
    page = plot_releases(table(walk(30, 2), names), tmp_path / "a.html", title="<b>bold</b>", measure="people & dogs")
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"https?://|src=|@import|url\(", text)
    assert "default-src 'none'" in text
    assert "alert(1)</script>" not in text
    assert "<b>bold" not in text
    embedded = re.search(r'id="data">(.*?)</script>', text, re.S)
    assert embedded is not None
    shown = json.loads(embedded[1])
    assert shown["steps"] == 30
    assert "@script@" in str(shown["names"])
    assert not re.search(r"@[a-z]+@", text.replace(embedded[1], ""))


def test_a_page_of_too_many_cells_keeps_the_largest_bins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veilstream.release.plots.page.MOST_CELLS", 100)
    text = plot_releases(TABLES["many"], tmp_path / "a.html").read_text(encoding="utf-8")
    assert "5 of 30 bins" in text


@pytest.mark.parametrize(
    ("axes", "path", "kind", "drawn"),
    [
        ({"x": {"low": 0, "high": 1, "cells": 30}, "y": {"low": 0, "high": 1, "cells": 30}}, "a.png", "auto", 900),
        ({"x": {"low": 0, "high": 1, "cells": 30}, "y": {"low": 0, "high": 1, "cells": 30}}, "a.png", "map", MOST_ROWS),
        ({"x": list("abcdefgh"), "y": {"low": 0, "high": 1, "cells": 30}}, "a.png", "auto", MOST_ROWS),
        ({"x": list("abcdefgh"), "y": {"low": 0, "high": 1, "cells": 30}}, "a.html", "auto", 40_000),
    ],
)
def test_planes_and_pages_take_more_bins(axes: dict[str, Any], path: str, kind: Any, drawn: int) -> None:
    assert bins_drawn(Domain.from_json(axes), 10, path, kind) == drawn


def test_the_page_runs_in_a_browser(tmp_path: Path) -> None:
    browser = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next((Path(place) for place in ("/usr/bin/chromium",) if Path(place).exists()), None)
    if program is None:
        pytest.skip("chromium is not installed")
    path = plot_releases(TABLES["repeated"], tmp_path / "a.html")
    with browser.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=str(program), args=["--no-sandbox"])
        page = chromium.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.goto(path.as_uri())
        page.locator("#chart").press("ArrowRight")
        page.locator("#chart").press("ArrowRight")
        told = page.locator("#told").inner_text()
        page.locator("#find").fill("b")
        chosen = page.locator("#bin").input_value()
        no_plane = page.locator("#plane").is_hidden()
        page.goto(plot_releases(TABLES["plane"], tmp_path / "plane.html").as_uri())
        before = page.locator("#bin").input_value()
        page.locator("#when").press("ArrowRight")
        moment = page.locator("#moment").inner_text()
        page.locator("#ground").click(position={"x": 100, "y": 40})
        clicked = page.locator("#bin").input_value()
        chromium.close()
    assert no_plane
    assert "step 2 of 3" in moment
    assert clicked != before
    assert problems == []
    assert "repeated" in told
    assert "2024-01-01 02:00" in told
    assert chosen == "1"
