"""The page in a real browser: a step arrives and the page shows it; keyboard, phones, the dark, no foreign script."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.server.conftest import Running, StartServer, definition
from tests.server.test_ingest import CSV, body, frame, send
from veilstream.server.assets import FIRST_RELEASES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "no Chromium here: apt-get install chromium"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page on which any error of a script, or of the security policy, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.problems = problems
    opened.set_default_timeout(20_000)
    yield opened
    context.close()
    foreign = [text for text in problems if "ERR_CONNECTION" not in text and "Failed to load resource" not in text]
    assert foreign == []


def published(server: Running, steps: int, name: str = "visits") -> None:
    with server.client("ingest") as client:
        send(client, body(frame(*range(9)), CSV))
    server.until_visible(name, steps - 1)


def test_a_step_arrives_and_the_page_shows_it(start_server: StartServer, page: Any) -> None:
    server = start_server(definition(public=True, title="Visits"))
    published(server, 3)
    page.goto(f"{server.url}/streams/visits")
    page.wait_for_selector("[data-head='2']")
    assert page.title() == "Visits · veilstream"
    server.until_visible("visits", 3)
    page.wait_for_selector("[data-head='3']")
    expect(page.locator("#announce")).to_contain_text("New release of Visits")
    assert page.locator("canvas").count() >= 2


def test_streams_at_a_glance_and_from_there_to_one(start_server: StartServer, page: Any) -> None:
    server = start_server(definition(public=True, title="Visits"), definition("hidden"))
    published(server, 3)
    page.goto(server.url)
    page.wait_for_selector("a.card svg.spark path")
    assert page.locator("a.card").count() == 1
    server.until_visible("visits", 6)
    expect(page.locator("a.card")).to_contain_text("08:00")
    page.click("a.card")
    page.wait_for_selector("[data-head='6']")
    assert urlsplit(page.url).path == "/streams/visits"
    page.go_back()
    page.wait_for_selector("a.card")


def test_the_page_reconnects_by_itself(start_server: StartServer, page: Any) -> None:
    server = start_server(definition(public=True))
    published(server, 2)
    page.goto(f"{server.url}/streams/visits")
    page.wait_for_selector("#connection[data-state='live']")
    server.stop()
    page.wait_for_selector("#connection[data-state='connecting']")
    again = start_server(definition(public=True), clock=server.clock, port=urlsplit(server.url).port)
    again.until_visible("visits", 4)
    page.wait_for_selector("[data-head='4']")


@pytest.mark.parametrize("kind", ["chart", "multiples", "heat", "table"])
def test_every_view_draws(start_server: StartServer, page: Any, kind: str) -> None:
    bins = {"place": [f"place {n}" for n in range(40)]}
    server = start_server(definition(public=True, domain=bins))
    server.until_visible("visits", 40)
    page.goto(f"{server.url}/streams/visits#{kind}")
    page.wait_for_selector("[data-head='40']")
    page.wait_for_selector("table tbody tr" if kind == "table" else ".card canvas")
    assert page.locator(f"button[data-kind='{kind}']").get_attribute("aria-pressed") == "true"
    page.click("button[data-kind='chart']")
    page.wait_for_selector(".uplot")
    page.click(".picker summary")
    page.fill(".picker input[type=search]", "place 39")
    page.check(".picker label:visible input")
    expect(page.locator(".key span").nth(4)).to_have_text("place 39")


def test_the_chart_obeys_the_keyboard_and_the_mouse(start_server: StartServer, page: Any) -> None:
    server = start_server(definition(public=True))
    server.until_visible("visits", 60)
    page.goto(f"{server.url}/streams/visits#chart")
    page.wait_for_selector("[data-head='60']")
    chart = page.locator(".chart").first
    chart.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    assert "±" in page.locator(".tip").first.inner_text()
    page.keyboard.press("+")
    page.keyboard.press("0")
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 100)
    page.mouse.up()
    page.get_by_role("button", name="Show all").click()


@pytest.mark.parametrize("path", ["/", "/streams/visits", "/streams/visits#table", "/guide"])
def test_nothing_overflows_on_a_phone(start_server: StartServer, page: Any, path: str) -> None:
    server = start_server(definition(public=True, title="Visits to a place with a rather long name"))
    published(server, 3)
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(server.url + path)
    page.wait_for_selector("h1")
    page.wait_for_load_state("load")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_light_and_dark(start_server: StartServer, page: Any) -> None:
    server = start_server(definition(public=True))
    published(server, 3)
    page.emulate_media(color_scheme="dark")
    page.goto(f"{server.url}/streams/visits")
    page.wait_for_selector("[data-head]")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_signing_in_opens_streams_and_the_operators_view(start_server: StartServer, page: Any) -> None:
    server = start_server(definition())
    published(server, 2)
    token, _ = server.service.tokens.create("operator", ("operate",))
    page.goto(f"{server.url}/streams/visits")
    page.get_by_text("Sign in to see this").wait_for()
    page.click("#sign")
    page.fill("#login-token", "wrong")
    page.click("#login-form button[type=submit]")
    expect(page.locator("#login-error")).to_contain_text("not valid")
    page.fill("#login-token", token)
    page.click("#login-form button[type=submit]")
    page.wait_for_selector("[data-head='1']")
    page.click("#nav-operate")
    page.get_by_text("Steps are being closed on time").wait_for()
    assert "9" in page.locator("table tbody tr").first.inner_text()
    page.click("#sign")
    page.get_by_text("This cannot be shown").or_(page.get_by_text("Sign in to see this")).first.wait_for()
    assert page.locator("#nav-operate").is_hidden()


def test_titles_and_names_are_text_and_never_script(start_server: StartServer, page: Any) -> None:
    evil = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
    server = start_server(definition(public=True, title=evil, description=evil, domain={"place": [evil, "b"]}))
    server.until_visible("visits", 40)
    for view in ("", "#chart", "#table", "#heat"):
        page.goto(f"{server.url}/streams/visits{view}")
        page.reload()
        page.wait_for_selector("[data-head='40']")
        assert page.locator("h1").inner_text() == evil
        assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
    page.goto(server.url)
    page.wait_for_selector("a.card")
    assert "owned" not in page.title()


def test_a_chart_can_be_embedded_and_the_page_cannot(start_server: StartServer, browser: Any, tmp_path: Path) -> None:
    server = start_server(definition(public=True))
    published(server, 3)
    frames = [f"<iframe src='{server.url}{path}'></iframe>" for path in ("/embed/visits", "/streams/visits")]
    (tmp_path / "index.html").write_text("".join(frames))
    other = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=other.serve_forever)
    thread.start()
    page = browser.new_page()
    try:
        page.goto(f"http://localhost:{other.server_port}/")
        page.frame_locator("iframe").first.locator("[data-head='2']").wait_for()
        expect(page.frame_locator("iframe").first.locator("header#top")).to_be_hidden()
        assert page.frame_locator("iframe").nth(1).locator("#main").count() == 0
    finally:
        page.close()
        other.shutdown()
        other.server_close()
        thread.join()


class Quiet(SimpleHTTPRequestHandler):
    """A page of another origin."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        del format


def test_nothing_is_loaded_from_elsewhere(start_server: StartServer, page: Any) -> None:
    server = start_server(definition(public=True))
    published(server, 3)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{server.url}/streams/visits")
    page.wait_for_selector("[data-head='2']")
    assert asked
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(server.url).netloc}
    # What the page's header announced is what its script asked for: once, and before the scripts.
    assert [url.endswith(FIRST_RELEASES) for url in asked].count(True) == 1
    assert asked.index(f"{server.url}/v1/streams/visits/{FIRST_RELEASES}") < asked.index(f"{server.url}/assets/app.js")


def test_two_numeric_attributes_are_a_map(start_server: StartServer, page: Any) -> None:
    """North is up, cells have their true sizes, and a slider goes back in time."""
    domain = {"lat": {"edges": [48.0, 48.5, 49.0, 51.0]}, "lon": {"low": 2.0, "high": 3.0, "cells": 5}}
    server = start_server(definition(public=True, time=None, domain=domain))
    with server.client("ingest") as client:
        rows = "id,lat,lon\n" + "".join(f"{who},50.1,2.1\n" for who in range(30))
        assert client.post("/v1/streams/visits/events", content=rows, headers={"content-type": CSV}).status_code == 202
    server.until_visible("visits", 6)
    page.goto(f"{server.url}/streams/visits")
    page.wait_for_selector("[data-head='6']")
    assert page.locator("button[data-kind='map']").get_attribute("aria-pressed") == "true"
    canvas = page.locator(".card canvas")
    expect(canvas).to_have_attribute("aria-label", re.compile("Map of 15 cells of lon and lat"))
    slider = page.locator("input[type='range']")
    slider.evaluate("one => { one.value = '0'; one.dispatchEvent(new Event('input')); }")
    box = canvas.bounding_box()
    # The north-west cell, in the first step.
    page.mouse.move(box["x"] + 70, box["y"] + 30)
    expect(page.locator(".tip")).to_contain_text("30 ±")
    server.until_visible("visits", 7)
    page.wait_for_selector("[data-head='7']")
    assert slider.input_value() == "0"


def test_named_cells_are_a_map(start_server: StartServer, page: Any) -> None:
    """Every cell is in its place, and pointing at it tells its name."""
    domain = {"geohash": ["u09t", "u09w", "u09v"]}
    server = start_server(definition(public=True, time=None, domain=domain))
    with server.client("ingest") as client:
        rows = "id,geohash\n" + "".join(f"{who},u09w\n" for who in range(30))
        assert client.post("/v1/streams/visits/events", content=rows, headers={"content-type": CSV}).status_code == 202
    server.until_visible("visits", 0)
    page.goto(f"{server.url}/streams/visits")
    page.wait_for_selector("[data-head='0']")
    assert page.locator("button[data-kind='map']").get_attribute("aria-pressed") == "true"
    canvas = page.locator(".card canvas")
    expect(canvas).to_have_attribute("aria-label", re.compile("Map of 3 cells of longitude and latitude"))
    box = canvas.bounding_box()
    # u09w lies north of u09t.
    page.mouse.move(box["x"] + 70, box["y"] + box["height"] - 50)
    expect(page.locator(".tip")).to_contain_text("u09t: 0 ±")
    page.mouse.move(box["x"] + 70, box["y"] + 20)
    expect(page.locator(".tip")).to_contain_text("u09w: 30 ±")
