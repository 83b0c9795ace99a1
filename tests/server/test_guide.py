"""The guided page: cost before data, a file published in a browser, and the same as a command and as Python."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
from playwright.sync_api import expect

from tests.server.conftest import StartServer, definition
from tests.server.test_page import browser, page

__all__ = ["browser", "page"]
REQUEST: dict[str, Any] = {
    "name": "visits-2023",
    "file": "visits.csv",
    "user": "id",
    "time": "ts",
    "domain": {"place": ["north", "south"]},
    "every": "1d",
    "start": "2023-03-01",
    "end": "2023-03-04",
    "epsilon": "1000000",
    "window": 1,
}


def visits(folder: Path) -> Path:
    days = [f"2023-03-0{1 + n % 3}T10:00" for n in range(30)]
    path = folder / "visits.csv"
    pl.DataFrame({"id": range(30), "ts": days, "place": ["north", "south"] * 15}).write_csv(path)
    return path


def test_cost_and_error_are_known_before_anything_is_read(start_server: StartServer) -> None:
    server = start_server(definition())
    with server.client() as client:
        seen = client.post(
            "/v1/guide/preview", json={**REQUEST, "epsilon": "1/2", "window": 7, "mechanism": "uniform"}
        ).json()
        assert (seen["bins"], seen["steps"], seen["epsilon_per_release"]) == (2, 3, "1/14")
        assert 10 < seen["mean_absolute_error"] < 20
        wrong = client.post("/v1/guide/preview", json={**REQUEST, "every": "1x"})
        assert (wrong.status_code, "1x" in wrong.json()["error"]["message"]) == (422, True)
        huge = {**REQUEST, "every": "1s", "domain": {"n": {"low": 0, "high": 1, "cells": 100000}}}
        assert client.post("/v1/guide/preview", json=huge).status_code in (413, 422)
        assert client.post("/v1/guide/streams", json=REQUEST).status_code == 401


def test_the_command_and_the_python_do_what_they_say(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(definition())
    visits(tmp_path)
    with server.client() as client:
        seen = client.post("/v1/guide/preview", json=REQUEST).json()
    (tmp_path / "domain.json").write_text(seen["domain_file"])
    words = shlex.split(seen["command"].replace("\\\n", " "))
    assert words[0] == "veilstream"
    command = [sys.executable, "-m", "veilstream.cli", *words[1:]]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    assert pl.read_csv(tmp_path / "releases.csv")["value"].to_list() == [5] * 6
    for file in tmp_path.glob("budget.db*"):
        file.unlink()
    done = subprocess.run(
        [sys.executable, "-c", seen["python"]], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.count("[5. 5.]") == 3


def test_a_file_is_published_in_the_browser(start_server: StartServer, page: Any, tmp_path: Path) -> None:
    server = start_server(definition())
    token, _ = server.service.tokens.create("admin", ("admin",))
    page.goto(f"{server.url}/guide")
    page.click("#sign")
    page.fill("#login-token", token)
    page.click("#login-form button[type=submit]")
    expect(page.locator("#sign")).to_have_text("Sign out")
    page.set_input_files("#g-file", visits(tmp_path))
    expect(page.locator("#g-user")).to_have_value("id")
    assert page.input_value("#g-time") == "ts"
    page.fill(".g-attribute", "place")
    page.fill(".g-bins", "north, south")
    for name in ("start", "end", "epsilon", "name"):
        page.fill(f"#g-{name}", REQUEST[name])
    page.fill("#g-window", "1")
    page.click("#g-preview")
    page.wait_for_selector("#g-publish")
    assert "veilstream publish visits.csv" in page.text_content("#g-command")
    page.click("#g-publish")
    page.wait_for_selector("[data-head='2']")
    with server.client("read") as client:
        assert client.get("/v1/streams/visits-2023/releases").json()["values"] == [[5, 5]] * 3
