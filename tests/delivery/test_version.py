"""The version stands in one place; everything else that names it agrees; the changelog keeps its form."""

from __future__ import annotations

import re
import tomllib
from datetime import date

import veilstream
from delivery.building import ROOT


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_written_once() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/veilstream/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", veilstream.__version__)
    assert f"\nversion: {veilstream.__version__}\n" in text_of("CITATION.cff")


def test_the_changelog_keeps_a_changelog() -> None:
    text = text_of("CHANGELOG.md")
    headings = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
    kinds = re.findall(r"^### (.+)$", text, flags=re.MULTILINE)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_citation_is_complete() -> None:
    text = text_of("CITATION.cff")
    for field in ("cff-version", "message", "title", "authors", "license", "date-released", "abstract"):
        assert re.search(rf"^{field}:", text, flags=re.MULTILINE), field
    (day,) = re.findall(r"^date-released: (.+)$", text, flags=re.MULTILINE)
    assert date.fromisoformat(day).year >= 2026
    released = dict(re.findall(r"^## \[([\d.]+)\] - (.+)$", text_of("CHANGELOG.md"), flags=re.MULTILINE))
    assert released.get(veilstream.__version__, day) == day
    assert tomllib.loads(text_of("pyproject.toml"))["project"]["license"] in text
