"""Builds the site: strictly, and so that it needs nothing from elsewhere."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs import config as mkdocs_config
from mkdocs.commands.build import build as mkdocs_build

from website.outside import ROOT

SITE: Final = ROOT / "build" / "site"
_LOADED: Final = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(https?:)?//"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|icon|preconnect))[^>]*\bhref=[\"']?(https?:)?//"
    r"|@import\s+(?:url\()?[\"']?(https?:)?//|url\([\"']?(https?:)?//"
)


def build(out: str | Path = SITE) -> None:
    """Build into ``out``; any warning, and anything that a page would load from elsewhere, is an error."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    shutil.rmtree(out, ignore_errors=True)
    reading: Any = mkdocs_config
    config = reading.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(out), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    try:
        mkdocs_build(config)
    finally:
        config.plugins.on_shutdown()
    loads = list(loaded_from_elsewhere(Path(out)))
    if loads:
        raise SystemExit("the site loads from elsewhere:\n" + "\n".join(loads))
    print(f"{sum(1 for _ in Path(out).rglob('*.html'))} pages in {out}")


def loaded_from_elsewhere(site: Path) -> Iterator[str]:
    """Pages and styles that make a browser ask another host."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for match in _LOADED.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: {match[0]}"
