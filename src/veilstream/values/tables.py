"""Small public tables as notebooks show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any


def html_table(caption: str, columns: Mapping[str, Sequence[Any] | Any], most: int) -> str:
    """The first rows of some columns of equal length under a caption.

    >>> html_table("a < b", {"x": [1, 2, 3]}, most=1)
    '<table><caption>a &lt; b</caption><tr><th>x</th></tr><tr><td>1</td></tr><tr><td>... and 2 more</td></tr></table>'
    """
    length = len(next(iter(columns.values()))) if columns else 0
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = [
        "".join(f"<td>{escape(_text(column[row]))}</td>" for column in columns.values())
        for row in range(min(length, most))
    ]
    if length > most:
        rows.append(f"<td>... and {length - most:,} more</td>")
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
