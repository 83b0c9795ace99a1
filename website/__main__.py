"""``python -m website COMMAND``: build the site, or write again what it shows.

build     the site, strictly and offline, into build/site
measure   errors and pictures of every mechanism on the bundled counts
draw      the pictures that explain
gallery   runs the examples and keeps their pictures and what they print
compare   the measured rows of the page that compares libraries
links     asks every page outside of the project that we link to whether it is there; needs a network
screenshots  the live page for the README; needs Chromium
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Final

COMMANDS: Final = {
    "build": "website.building:build",
    "measure": "website.measure:measure",
    "draw": "website.drawings:draw",
    "gallery": "website.gallery:run_all",
    "compare": "website.comparison:write",
    "links": "website.links:follow",
    "screenshots": "website.screenshots:take",
}
"""Command -> the function that does it, imported when it is asked for."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m website", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("names", nargs="*", metavar="name", help="of examples; all by default")
    given = parser.parse_args()
    module, _, function = COMMANDS[given.command].partition(":")
    getattr(importlib.import_module(module), function)(*given.names)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main()
