"""Links that leave the site: their form is checked by the tests, whether they answer by ``python -m website links``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from website.outside import ROOT

LINK: Final = re.compile(r"\]\((https?:[^)\s]*)[^)]*\)|<(https?:[^>\s]*)>")
CODE: Final = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
HOST: Final = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}")
SECONDS: Final = 20
REFUSES_PROGRAMS: Final = (401, 403, 405, 429)
"""Answers of hosts that are there but do not talk to programs."""


def external_links() -> dict[str, list[str]]:
    """Every address outside of the project that a page links to, with the pages that do."""
    pages = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")])
    found: dict[str, list[str]] = {}
    for page in pages:
        for one, other in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
            found.setdefault(one or other, []).append(str(page.relative_to(ROOT)))
    return found


def fault(address: str) -> str | None:
    """What is wrong with the form of an address, None if nothing is.

    >>> fault("https://docs.opendp.org"), fault("http://docs.opendp.org"), fault("https://opendp")
    (None, 'not https', 'no name of a host')
    """
    parts = urlsplit(address)
    if parts.scheme != "https":
        return "not https"
    if not HOST.fullmatch(parts.netloc):
        return "no name of a host"
    if re.search(r"[\s<>\"{}|\\^`]", address) or address[-1] in ".,;:":
        return "a character that no address has, or punctuation at its end"
    if re.search(r"//", parts.path) or re.search(r"[?&]utm_", address):
        return "an empty folder in its path, or a tracker"
    return None


def follow() -> None:
    """Ask every host whether its page is there; needs a network."""
    dead = [f"{address}: {why} (in {', '.join(pages)})" for address, pages in external_links().items()
            for why in _answers(address)]  # fmt: skip
    print(f"{len(external_links())} links, {len(dead)} do not answer")
    if dead:
        raise SystemExit("\n".join(dead))


def _answers(address: str) -> Iterator[str]:
    wrong = fault(address)
    if wrong is not None:
        yield wrong
        return
    try:
        with urlopen(Request(address, headers={"User-Agent": "link check"}), timeout=SECONDS):
            return
    except HTTPError as error:
        if error.code not in REFUSES_PROGRAMS:
            yield f"status {error.code}"
    except (URLError, OSError) as error:
        yield str(getattr(error, "reason", error))
