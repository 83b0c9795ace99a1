"""Pictures of the live page for the README: ``python -m website screenshots`` (needs Chromium)."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from website.outside import ROOT

FOLDER: Final = ROOT / "docs" / "figures"
PORT: Final = 8797
SECONDS: Final = (2, 30, 60)
"""The moments of the strip, counted from the first picture of the page."""


def take() -> None:
    """The live page of the demo at three moments side by side, and the last one large."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("no Chromium here: apt-get install chromium")
    with _server() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 760})
        page.goto(url)
        page.click("text=Influenza by age", timeout=60_000)
        page.wait_for_selector("canvas", timeout=60_000)
        began = time.monotonic()
        shots: list[bytes] = []
        for moment in SECONDS:
            page.wait_for_timeout(max(0.0, 1_000 * (began + moment - time.monotonic())))
            shots.append(page.screenshot())
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "live.png").write_bytes(shots[-1])
        _strip(browser, shots, FOLDER / "live-strip.png")
        browser.close()


def _strip(browser: Browser, shots: list[bytes], path: Path) -> None:
    images = "".join(
        f'<img src="data:image/png;base64,{base64.b64encode(shot).decode()}" style="width:400px;border:1px solid #999">'
        for shot in shots
    )
    page = browser.new_page(viewport={"width": 1224, "height": 280})
    page.set_content(f'<body style="margin:0;display:flex;gap:6px;background:#fff">{images}</body>')
    page.wait_for_timeout(300)
    page.screenshot(path=str(path))


@contextmanager
def _server() -> Generator[str]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-m", "veilstream", "serve", "--demo", "--port", str(PORT)]
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            url = f"http://127.0.0.1:{PORT}/"
            for _ in range(600):
                try:
                    urllib.request.urlopen(url + "health/ready", timeout=2)
                    break
                except OSError:
                    time.sleep(0.2)
            yield url
        finally:
            process.terminate()
            process.wait(30)
