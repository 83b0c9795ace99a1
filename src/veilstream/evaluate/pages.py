"""Sections of Markdown pages that programs write, each between two markers of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from veilstream.errors import InvalidInputError

_SECTION: Final = re.compile(r"<!-- begin (?P<name>\S+) -->\n(?P<body>.*?)\n<!-- end (?P=name) -->", re.DOTALL)


def section(name: str, body: str) -> str:
    """The body between the markers of ``name``.

    >>> print(section("audit", "All passed."))
    <!-- begin audit -->
    All passed.
    <!-- end audit -->
    """
    return f"<!-- begin {name} -->\n{body}\n<!-- end {name} -->"


def sections(text: str) -> dict[str, str]:
    """The bodies of all sections of a page, by name and in the order of the page.

    >>> sections(section("b", "two") + " and " + section("a", "one"))
    {'b': 'two', 'a': 'one'}
    """
    return {match["name"]: match["body"] for match in _SECTION.finditer(text)}


def with_section(text: str, name: str, body: str) -> str:
    """The page with a new body in the section ``name``, which must be there.

    >>> with_section(f"Before. {section('a', 'old')} After.", "a", "new")
    'Before. <!-- begin a -->\\nnew\\n<!-- end a --> After.'
    """
    for match in _SECTION.finditer(text):
        if match["name"] == name:
            return text[: match.start()] + section(name, body) + text[match.end() :]
    raise InvalidInputError(
        name="section", value=name, limit="the page lacks its markers", outcome="nothing was written"
    )


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are ready to print.

    >>> print(markdown_table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = ["| " + " | ".join(cells) + " |" for cells in (columns, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])
