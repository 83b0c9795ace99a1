"""Docstrings of the package as Markdown, and what they say about each parameter."""

from __future__ import annotations

import inspect
import re
from typing import Final

_ROLE: Final = re.compile(r":(?:class|func|meth|mod|attr):`~?\.?([^`]+)`")
_SENTENCE: Final = re.compile(r"(?<=[.;])\s+(?=[A-Z`*\[(ε])")


def text_of(documented: object) -> str:
    """The docstring of an object without its indentation; empty if it has none of its own."""
    return inspect.cleandoc(getattr(documented, "__doc__", None) or "")


def markdown(text: str) -> str:
    """A docstring as Markdown: examples become code blocks, double backticks single ones.

    >>> markdown("Adds ``a`` to :class:`Sum`.")
    'Adds `a` to `Sum`.'
    """
    return "\n\n".join(_block(block) for block in blocks(text))


def blocks(text: str) -> list[str]:
    """The paragraphs, examples and formulas of a docstring, in their order."""
    return [block.strip("\n") for block in re.split(r"\n[ \t]*\n", text) if block.strip()]


def prose(text: str) -> str:
    """A docstring without its examples, as one line."""
    return " ".join(" ".join(block.split()) for block in blocks(text) if not is_example(block))


def examples(text: str) -> list[str]:
    """The examples of a docstring."""
    return [block for block in blocks(text) if is_example(block)]


def is_example(block: str) -> bool:
    return block.lstrip().startswith(">>>")


def sentences_about(name: str, text: str) -> str:
    """The sentences of a docstring that speak of a parameter.

    >>> sentences_about("w", "A promise. ``w`` is the window; ``w=1`` one step. More.")
    '`w` is the window; `w=1` one step.'
    """
    spoken = re.compile(rf"(?:``|\*){re.escape(name)}(?:``|\*|=|\b)")
    found = [sentence for sentence in _SENTENCE.split(prose(text)) if spoken.search(sentence)]
    return _inline(" ".join(found)).strip()


def _block(block: str) -> str:
    if is_example(block):
        return f"```pycon\n{inspect.cleandoc(block)}\n```"
    if all(line.startswith("    ") for line in block.splitlines()):
        return block
    return _inline(block)


def _inline(text: str) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", _ROLE.sub(r"``\1``", text))


def code_cell(text: str) -> str:
    """Code in a cell of a table, where a bar needs no escape; empty for nothing."""
    return f"`{text}`" if text else ""


def text_cell(text: str) -> str:
    """Text in a cell of a table, where a bar outside of code would end the cell.

    >>> text_cell("a | b, or `a | b`")
    'a \\\\| b, or `a | b`'
    """
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("|", "\\|") for part in parts)
