"""A bill of materials in CycloneDX: the package, what it needs, and what each extra needs, as installed here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE: Final = "veilstream"
NOT_SHIPPED: Final = ("test", "bench", "docs")
"""Extras of developers, which no user runs."""


def bill(date: str) -> dict[str, Any]:
    """The bill as of a date; a dependency that is not installed here is listed without its version."""
    extras = [name for name in metadata.metadata(PACKAGE).get_all("Provides-Extra") or [] if name not in NOT_SHIPPED]
    found: dict[str, list[str]] = {}
    _walk(PACKAGE, frozenset(extras), found)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": date, "component": _component(PACKAGE) | {"type": "library"}},
        "components": [_component(name) for name in sorted(found) if name != PACKAGE],
        "dependencies": [
            {"ref": _reference(name), "dependsOn": sorted(map(_reference, set(found[name])))} for name in sorted(found)
        ],
    }


def write(out: Path, date: str) -> Path:
    """Write the bill beside the files of a release."""
    path = out / f"{PACKAGE}-{metadata.version(PACKAGE)}.cdx.json"
    path.write_text(json.dumps(bill(date), indent=2) + "\n", encoding="utf-8")
    return path


def _walk(name: str, extras: frozenset[str], found: dict[str, list[str]]) -> None:
    needed = list(_needed(name, extras))
    new = name not in found
    found.setdefault(name, []).extend(one for one, _ in needed)
    for one, wanted in needed:
        if one not in found or (wanted and new):
            _walk(one, wanted, found)


def _needed(name: str, extras: Iterable[str]) -> Iterator[tuple[str, frozenset[str]]]:
    try:
        listed = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return
    for text in listed:
        requirement = Requirement(text)
        given = [*({"extra": extra} for extra in extras), {"extra": ""}]
        if requirement.marker is None or any(requirement.marker.evaluate(one) for one in given):
            other = canonicalize_name(requirement.name)
            if other != name:
                yield other, frozenset(requirement.extras)


def _component(name: str) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "library", "bom-ref": _reference(name), "name": name, "purl": _reference(name)}
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return made
    made["version"] = metadata.version(name)
    licence = "".join(about.get_all("License-Expression") or []) or _from_classifiers(about.get_all("Classifier") or [])
    if licence:
        made["licenses"] = [{"license": {"name": licence}}]
    return made


def _from_classifiers(classifiers: list[str]) -> str:
    named = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License :: ")]
    return ", ".join(re.sub(r" License$", "", name) for name in named)


def _reference(name: str) -> str:
    try:
        return f"pkg:pypi/{name}@{metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return f"pkg:pypi/{name}"
