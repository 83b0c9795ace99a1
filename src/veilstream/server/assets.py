"""The page's own files, read once: each is sent when a browser does not have it yet."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Final
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

SCRIPT: Final = "text/javascript"
ASSETS: Final = {
    "app.js": SCRIPT,
    "charts.js": SCRIPT,
    "guide.js": SCRIPT,
    "heat.js": SCRIPT,
    "operate.js": SCRIPT,
    "plan.js": SCRIPT,
    "series.js": SCRIPT,
    "stream.js": SCRIPT,
    "views.js": SCRIPT,
    "words.js": SCRIPT,
    "style.css": "text/css",
    "uplot.js": SCRIPT,
    "uplot.css": "text/css",
    "uplot-license.txt": "text/plain",
    "icon.svg": "image/svg+xml",
}
PAGES: Final = ("/", "/streams/{name}", "/embed/{name}", "/operate", "/guide")
FIRST_RELEASES: Final = "releases?newest=true&limit=10000&numbers=240000&format=columns"
"""What the page of a stream asks for first; stream.js asks for the same."""


def add_page(app: FastAPI) -> None:
    """The routes of the page and of its files. They take no parameters that need checking, so they are plain ones."""
    folder = files("veilstream") / "server" / "page"
    html = (folder / "index.html").read_bytes()
    bodies = {name: (folder / name).read_bytes() for name in ASSETS}
    tags = {name: f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"' for name, body in bodies.items()}

    async def page(request: Request) -> Response:
        name = request.path_params.get("name")
        headers = {} if name is None else {"link": early(name)}
        return Response(html, media_type="text/html; charset=utf-8", headers=headers)

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ASSETS:
            raise HTTPException(404)
        headers = {"cache-control": "no-cache", "etag": tags[name]}
        if request.headers.get("if-none-match") == tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(bodies[name], media_type=ASSETS[name], headers=headers)

    for path in PAGES:
        app.add_route(path, page, include_in_schema=False)
    app.add_route("/assets/{name}", asset, include_in_schema=False)


def early(name: str) -> str:
    """The header by which a browser asks for a stream's numbers before the page's scripts are there.

    >>> early("visits").partition(",")[0]
    '</v1/streams/visits>; rel=preload; as=fetch; crossorigin=anonymous'
    """
    base = f"/v1/streams/{quote(name, safe='')}"
    return ", ".join(
        f"<{path}>; rel=preload; as=fetch; crossorigin=anonymous" for path in (base, f"{base}/{FIRST_RELEASES}")
    )
