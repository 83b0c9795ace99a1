"""The site builds strictly, loads nothing from elsewhere, can be searched on a disk, and works in a browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.docs.running import ROOT
from website import hooks, navigation
from website.building import loaded_from_elsewhere

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.xdist_group("site")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    program = f"from website.building import build; build({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def open_page(browser: Browser, site: Path, name: str) -> tuple[Page, list[str]]:
    """The page as a file, offline, with the errors that it reports."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto((site / name).as_uri())
    return page, errors


def test_every_page_is_built_and_in_the_navigation(site: Path) -> None:
    sources = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    generated = {Path(path).with_suffix(".html") for path in hooks.generated()}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert sources | generated <= built
    assert len(generated) > 50
    assert all((site / Path(page).with_suffix(".html")).exists() for page in navigation.MAINTAIN)


def test_blocks_of_code_are_shown_as_code(site: Path) -> None:
    """A fence that the site does not understand swallows the text below it."""
    pages = list(site.rglob("*.html"))
    assert not [page.name for page in pages if "```" in page.read_text(encoding="utf-8")]


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    assert not list(loaded_from_elsewhere(site))
    planted = site / "planted.html"
    planted.write_text(
        '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="//fonts.example/a">'
    )
    assert len(list(loaded_from_elsewhere(site))) == 2
    planted.unlink()


def test_the_search_works_on_a_disk(browser: Browser, site: Path) -> None:
    page, errors = open_page(browser, site, "guides/csv.html")
    page.click("input.md-search__input")
    page.keyboard.type("sliding window")
    page.wait_for_selector(".md-search-result__item a", timeout=30_000)
    assert "retroactive" in page.inner_text(".md-search-result__list").lower()
    assert not errors


def test_the_page_of_noise_answers_its_sliders(browser: Browser, site: Path) -> None:
    page, errors = open_page(browser, site, "noise.html")
    # The scale is rows · w / ε; 95 % of two-sided geometric noise of scale 24 are within 72.
    assert "Noise scale 24; 95 % of releases are within ±72" in page.inner_text("#noise-says")
    points = page.locator("#noise-chart circle")
    assert points.count() == 24
    drawn = page.inner_html("#noise-chart")
    page.click("#noise-draw")
    assert page.inner_html("#noise-chart") != drawn
    page.fill("#noise-window", "48")
    assert "Noise scale 48" in page.inner_text("#noise-says")
    page.fill("#noise-counts", "10, 20; 30")
    assert points.count() == 3
    assert "mostly noise" in page.inner_text("#noise-says")
    page.fill("#noise-counts", "nothing")
    assert "at least one count" in page.inner_text("#noise-says")
    assert not errors


def test_pages_fit_a_phone_and_a_desk(browser: Browser, site: Path) -> None:
    for name in ("index.html", "noise.html", "mechanisms/model.html", "comparison.html", "examples/index.html"):
        page, errors = open_page(browser, site, name)
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 844})
            # Scripts of the theme put wide tables into boxes that scroll, some time after the page has loaded.
            page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth", timeout=60_000)
            assert page.evaluate("window.innerWidth") == width, name
        assert not errors
        page.context.close()
