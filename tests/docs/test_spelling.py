"""Documents, docstrings and comments are spelt right, as far as codespell and our word list know."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.docs.running import ROOT


def test_nothing_is_misspelt() -> None:
    checked = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs", "src", "examples", "website"]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *checked], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_checker_finds_a_mistake() -> None:
    command = [sys.executable, "-m", "codespell_lib", "-"]
    done = subprocess.run(command, input="recieve\n", cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0


AVOIDED = (
    "utilize", "utilise", "leverage", "simply", "obviously", "trivially", "basically", "in order to", "prior to",
    "performant", "seamless", "seamlessly", "cutting-edge", "state-of-the-art", "blazing", "please note", "and/or",
    "whitelist", "blacklist",
)  # fmt: skip
"""Words that say nothing, or that plainer ones say."""
LONGEST = 50
"""Words of a sentence; longer ones want to be two."""


def prose(path: Path) -> str:
    """The running text of a page, without code, tables, headings and addresses of links."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith(("|", "#", "<", "!["))]
    return re.sub(r"\]\([^)]*\)", "]", "\n".join(lines))


def test_pages_use_plain_words() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    words = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, AVOIDED))})(?![\w-])", re.IGNORECASE)
    assert len(pages) > 50
    found = {str(page.relative_to(ROOT)): words.findall(prose(page)) for page in pages}
    assert not {page: said for page, said in found.items() if said}


def test_sentences_of_guides_are_short() -> None:
    guides = [ROOT / "README.md", *(ROOT / "docs" / "guides").glob("*.md"), *(ROOT / "docs" / "maintain").glob("*.md")]
    assert len(guides) > 15
    long = [
        (guide.name, sentence)
        for guide in guides
        for paragraph in re.split(r"\n\s*\n|\n- |\n\d\. ", prose(guide))
        for sentence in re.split(r"(?<=[.;:?])\s", paragraph)
        if len(sentence.split()) > LONGEST
    ]
    assert not long
