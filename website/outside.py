"""Pages of the site that lie outside its folder, and links that lead there."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
OUTSIDE: Final = {
    "CONTRIBUTING.md": "maintain/contributing.md",
    "CHANGELOG.md": "maintain/changelog.md",
    "SECURITY.md": "security.md",
    "src/veilstream/privacy/PROOF.md": "proof.md",
    "src/veilstream/privacy/PROOF_presence.md": "proof-presence.md",
    "src/veilstream/cli/bundled/README.md": "bundled-data.md",
    "README.md": "index.md",
}
"""File of the repository -> the page of the site that holds it, or says the same."""
_LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE: Final = re.compile(r"(^ {0,3}```.*?^ {0,3}```$)", re.MULTILINE | re.DOTALL)


def copied_pages() -> dict[str, str]:
    """Page of the site -> Markdown of the file that it holds, with links as the site has them."""
    return {
        page: with_links((ROOT / source).read_text(encoding="utf-8"), page, folder=posixpath.dirname(source))
        for source, page in OUTSIDE.items()
        if page != "index.md"
    }


def with_links(text: str, page: str, folder: str) -> str:
    """Links that leave the folder of the site lead to their pages, or become plain text where there are none.

    ``page`` is where the text stands in the site, ``folder`` where its file lies in the repository.

    >>> with_links("[design](../CONTRIBUTING.md#habits), [code](../LICENSE)", "design.md", "docs")
    '[design](maintain/contributing.md#habits), code'
    """

    def changed(match: re.Match[str]) -> str:
        target = match["target"]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        file = posixpath.normpath(posixpath.join(folder, target))
        if file in OUTSIDE:
            return f"{match['image']}[{match['text']}]({_relative(OUTSIDE[file], page)}{match['anchor'] or ''})"
        if file.startswith("docs/"):
            wanted = "index.md" if file == "docs" else file.removeprefix("docs/")
            return f"{match['image']}[{match['text']}]({_relative(wanted, page)}{match['anchor'] or ''})"
        return match["text"] if (ROOT / file).exists() else match[0]

    parts = _FENCE.split(text)
    return "".join(part if number % 2 else _LINK.sub(changed, part) for number, part in enumerate(parts))


def _relative(target: str, page: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page) or ".")
