"""The API reference: a page per part of the public surface, written from signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

import veilstream
from veilstream import errors
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS
from website.docstrings import blocks, code_cell, markdown, text_cell, text_of
from website.members import Member

MECHANISMS: Final = {kind.__name__ for kind in (*STREAMS.values(), *HISTOGRAMS.values())}
PROTOCOL: Final = {"start", "step", "estimate", "estimate_records", "control", "check", "oblivious", "variants"}
"""Methods that every mechanism has; a page of their own explains them."""
INNER: Final = PROTOCOL | {"size", "get_params", "set_params"}
"""Methods that the package itself or scikit-learn calls."""


@dataclass(frozen=True, slots=True)
class Part:
    """A page of the reference: its title, the names that it documents, and the modules that they are imported from."""

    title: str
    names: tuple[str, ...]
    module: str = "veilstream"
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of this page that are imported from elsewhere -> their module."""

    def module_of(self, name: str) -> str:
        return self.others.get(name, self.module)

    def value(self, name: str) -> Any:
        found = getattr(import_module(self.module_of(name)), name)
        # A function may share its name with the module that holds it; which one is found depends on what was imported.
        return getattr(found, name, found) if inspect.ismodule(found) else found


PARTS: Final[dict[str, Part]] = {
    "publishing": Part("Publish tables and counts", ("publish", "advise", "Publisher", "Release", "Values")),
    "guarantees": Part("Guarantees and budgets", ("Guarantee", "Charge", "Span", "Population", "Membership")),
    "data": Part("Domains and calendars", ("Domain", "Categories", "Edges", "Grid", "Calendar")),
    "ledger": Part("The ledger", ("Ledger",)),
    "live": Part("Live streams", ("StreamDefinition", "open_stream", "open_async_stream", "Client")),
    "simulation": Part("Simulation and noise", ("simulate", "simulate_many", "noise")),
    "streams": Part("Stream mechanisms", ("STREAMS", *(kind.__name__ for kind in STREAMS.values()))),
    "histograms": Part("Histogram mechanisms", ("HISTOGRAMS", *(kind.__name__ for kind in HISTOGRAMS.values()))),
    "errors": Part("Errors", tuple(name for name in veilstream.__all__ if name.endswith("Error"))),
}
"""Page -> the names of the package itself that it documents."""
FURTHER: Final[dict[str, Part]] = {
    "results": Part(
        "What calls return",
        ("PublishedJob", "Advice", "LiveStream", "AsyncLiveStream"),
        "veilstream.live",
        {"PublishedJob": "veilstream.jobs.published", "Advice": "veilstream.jobs.advice"},
    ),
    "reading": Part(
        "Rows and bounding",
        ("read_events", "read_counts", "ReadOptions", "bound", "Bounded"),
        "veilstream.data",
        {"bound": "veilstream.data.bounding", "Bounded": "veilstream.data.bounding"},
    ),
    "tables": Part(
        "Synthetic tables",
        ("fit", "TableDomain", "MarginalGraph", "DPCopula", "TablePublisher", "CopulaModel", "GraphModel"),
        "veilstream.synthesis",
    ),
    "people": Part(
        "People with their own ε",
        (
            "Roster", "count_people", "release_counts", "LedgerAccounts", "PersonalisedPublisher", "Stretching",
            "Sampling", "Minimum", "Checked", "PrivateSVM", "PrivateLogisticRegression",
        ),
        "veilstream.personalised",
    ),
    "points": Part(
        "Points that move little",
        (
            "MetricGuarantee", "Space", "release_points", "HatGrid", "GridRanges", "SortedPoints", "SmoothMedian",
            "ChosenMedian", "cost_of_stay",
        ),
        "veilstream.metric",
    ),
    "clusters": Part("Spark", ("publish_closed", "snapshots", "records", "local_session"), "veilstream.spark"),
    "duckdb": Part("DuckDB", ("snapshots",), "veilstream.data.engines.duckdb"),
    "checks": Part(
        "Attacks and checks",
        ("attack", "Claim", "AttackResult", "stream_claim", "check_stream", "check_histogram"),
        "veilstream.audit",
        {"check_stream": "veilstream.testing.checks", "check_histogram": "veilstream.testing.checks"},
    ),
}  # fmt: skip
"""Page -> the names that guides import from modules of the package."""
RETURNED: Final = {
    "PublishedJob", "Advice", "LiveStream", "AsyncLiveStream", "CopulaModel", "GraphModel", "GridRanges",
    "AttackResult", "Bounded",
}  # fmt: skip
"""Classes that users get from a call and never make."""
_INDEX: Final = """# API reference

Everything here is covered by the [deprecation policy](../maintain/deprecation.md). Modules and names that are not
listed may change in any release. Each example runs in the test suite.

## The package

These names are imported as `from veilstream import NAME`.
"""
_FURTHER: Final = """## Modules

These are imported from the module that their page names.
"""
_VALUES: Final = {
    "STREAMS": "Name of each stream mechanism -> its class, as `--mechanism` takes it.",
    "HISTOGRAMS": "Name of each histogram mechanism -> its class, as `--histogram` takes it.",
}


def pages() -> dict[str, str]:
    """Path below the folder of the reference -> Markdown."""
    made = {f"{name}.md": page(part) for name, part in {**PARTS, **FURTHER}.items()}
    made["index.md"] = "\n".join([_INDEX, _listed(PARTS), _FURTHER, _listed(FURTHER)])
    return made


def _listed(parts: dict[str, Part]) -> str:
    rows = [
        f"| [{part.title}]({page}.md) | {', '.join(f'[`{name}`]({page}.md#{_anchor(name)})' for name in part.names)} |"
        for page, part in parts.items()
    ]
    return "\n".join(["| part | names |", "|---|---|", *rows, ""])


def page(part: Part) -> str:
    """One page of the reference."""
    return "\n\n".join([f"# {part.title}", *(entry(part, name) for name in part.names)]) + "\n"


def entry(part: Part, name: str) -> str:
    """All that the reference says about one public name."""
    value = part.value(name)
    heading = f"## {name} {{ #{_anchor(name)} }}"
    if name in _VALUES:
        listed = "\n".join(f"- `{key}`: [`{kind.__name__}`](#{_anchor(kind.__name__)})" for key, kind in value.items())
        return "\n\n".join([heading, _VALUES[name], listed])
    if inspect.ismodule(value):
        return "\n\n".join([heading, markdown(text_of(value))])
    member = Member(name, value)
    module = part.module_of(name)
    parts = [heading]
    if name in RETURNED:
        parts.append(markdown(member.text))
    else:
        parts += [] if module == "veilstream" else [f"`from {module} import {name}`"]
        parts += _described(member, name)
    for method in shown_methods(member):
        parts += [f"### {name}.{method.name} {{ #{_anchor(name)}-{_anchor(method.name)} }}"]
        parts += _described(method, f"{name}.{method.name}")
    return "\n\n".join(parts)


def shown_methods(member: Member) -> list[Member]:
    """The methods that a user calls."""
    public = member.name in veilstream.__all__
    hidden = (PROTOCOL if member.name in MECHANISMS else set[str]()) if public else INNER
    return [method for method in member.methods() if method.name not in hidden]


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
