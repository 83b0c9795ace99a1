"""The API reference: a page per part of the public surface, written from signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final

import veilstream
from veilstream import errors
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS
from website.docstrings import blocks, code_cell, markdown, text_cell, text_of
from website.members import Member

MECHANISMS: Final = {kind.__name__ for kind in (*STREAMS.values(), *HISTOGRAMS.values())}
PROTOCOL: Final = {"start", "step", "estimate", "estimate_records", "control", "check", "oblivious", "variants"}
"""Methods that every mechanism has; a page of their own explains them."""

PARTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "publishing": ("Publish tables and counts", ("publish", "advise", "Publisher", "Release", "Values")),
    "guarantees": ("Guarantees and budgets", ("Guarantee", "Charge", "Span", "Population", "Membership")),
    "data": ("Domains and calendars", ("Domain", "Categories", "Edges", "Grid", "Calendar")),
    "ledger": ("The ledger", ("Ledger",)),
    "live": ("Live streams", ("StreamDefinition", "open_stream", "open_async_stream", "Client")),
    "simulation": ("Simulation and noise", ("simulate", "simulate_many", "noise")),
    "streams": ("Stream mechanisms", ("STREAMS", *(kind.__name__ for kind in STREAMS.values()))),
    "histograms": ("Histogram mechanisms", ("HISTOGRAMS", *(kind.__name__ for kind in HISTOGRAMS.values()))),
    "errors": ("Errors", tuple(name for name in veilstream.__all__ if name.endswith("Error"))),
}
"""Page -> its title and the public names that it documents."""
_INDEX: Final = """# API reference

Everything here is imported as `from veilstream import NAME` and is covered by the
[deprecation policy](../maintain/deprecation.md). Modules and names that are not listed may change in any release. Each
example runs in the test suite.
"""
_VALUES: Final = {
    "STREAMS": "Name of each stream mechanism -> its class, as `--mechanism` takes it.",
    "HISTOGRAMS": "Name of each histogram mechanism -> its class, as `--histogram` takes it.",
}


def pages() -> dict[str, str]:
    """Path below the folder of the reference -> Markdown."""
    made = {f"{part}.md": page(part) for part in PARTS}
    rows = [
        f"| [{title}]({part}.md) | {', '.join(f'[`{name}`]({part}.md#{_anchor(name)})' for name in names)} |"
        for part, (title, names) in PARTS.items()
    ]
    made["index.md"] = "\n".join([_INDEX, "| part | names |", "|---|---|", *rows, ""])
    return made


def page(part: str) -> str:
    """One page of the reference."""
    title, names = PARTS[part]
    return "\n\n".join([f"# {title}", *(entry(name) for name in names)]) + "\n"


def entry(name: str) -> str:
    """All that the reference says about one public name."""
    value = getattr(veilstream, name)
    heading = f"## {name} {{ #{_anchor(name)} }}"
    if name in _VALUES:
        listed = "\n".join(f"- `{key}`: [`{kind.__name__}`](#{_anchor(kind.__name__)})" for key, kind in value.items())
        return "\n\n".join([heading, _VALUES[name], listed])
    if inspect.ismodule(value):
        return "\n\n".join([heading, markdown(text_of(value))])
    member = Member(name, value)
    parts = [heading, *_described(member, name)]
    hidden = PROTOCOL if name in MECHANISMS else set[str]()
    for method in member.methods():
        if method.name not in hidden:
            parts += [f"### {name}.{method.name} {{ #{_anchor(name)}-{_anchor(method.name)} }}"]
            parts += _described(method, f"{name}.{method.name}")
    return "\n\n".join(parts)


def raised(member: Member) -> list[str]:
    """The errors of a callable; every mechanism refuses parameters outside their limits."""
    if member.name in MECHANISMS and not member.owner and member.parameters:
        return member.raises or ["InvalidInputError"]
    return member.raises


def _described(member: Member, called: str) -> list[str]:
    parts = [] if member.is_error else [f"```python\n{_signature(member, called)}\n```"]
    parts.append(markdown(member.text))
    if not member.is_error and member.parameters:
        rows = [
            f"| `{one.name}` | {code_cell(one.kind)} | {code_cell(one.default) or 'required'} | {text_cell(one.says)} |"
            for one in member.parameters
        ]
        parts.append("\n".join(["| parameter | type | default | meaning |", "|---|---|---|---|", *rows]))
    if member.returns and member.returns != "None":
        parts.append(f"**Returns** `{member.returns}`.")
    if raised(member):
        parts.append(
            "**Raises** "
            + "; ".join(f"[`{name}`](errors.md#{_anchor(name)}): {_first(name)}" for name in raised(member))
        )
    return parts


def _signature(member: Member, called: str) -> str:
    words = [*_words(member)]
    line = f"{called}({', '.join(words)})"
    return line if len(line) <= 100 else f"{called}(\n" + "".join(f"    {word},\n" for word in words) + ")"


def _words(member: Member) -> Iterator[str]:
    """The parameters as they stand in a definition, with the star before those that have to be named."""
    kinds = {} if member.signature is None else {name: one.kind for name, one in member.signature.parameters.items()}
    starred = False
    for one in member.parameters:
        kind = kinds[one.name]
        if kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        star = (
            "**" if kind is inspect.Parameter.VAR_KEYWORD else "*" if kind is inspect.Parameter.VAR_POSITIONAL else ""
        )
        yield f"{one.name}={one.default}" if one.default not in {"", "any"} else f"{star}{one.name}"


def _first(error: str) -> str:
    sentence = " ".join(blocks(text_of(getattr(errors, error)))[0].split())
    return sentence[:1].lower() + sentence[1:]


def _anchor(name: str) -> str:
    return name.replace("_", "-").lower()
