"""Every public name is documented: what it is, its parameters, what it returns and raises, and an example that runs."""

from __future__ import annotations

import inspect
import re

import pytest

import veilstream as vs
from tests.docs.running import ROOT
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS
from website import mechanism_pages, reference
from website.docstrings import markdown, sentences_about
from website.glossary import PARAMETERS
from website.members import Member
from website.uses import HISTOGRAM_USES, STREAM_USES

NAMES = [name for name in vs.__all__ if name not in {"__version__", "STREAMS", "HISTOGRAMS", "noise"}]
CALLABLES = [name for name in NAMES if not name.endswith("Error")]
NO_ERRORS = {"Geometric", "Gaussian"}
"""Names that take nothing that could be refused."""


FURTHER = [(part, name) for part, found in reference.FURTHER.items() for name in found.names]
NO_EXAMPLE = {"publish_closed", "snapshots", "records", "local_session"}
"""Names that need a cluster or a database; guides and the gallery have examples that run."""


def described(name: str, value: object = None) -> list[Member]:
    member = Member(name, getattr(vs, name) if value is None else value)
    return [member, *reference.shown_methods(member)]


def test_the_reference_holds_the_public_names_and_no_others() -> None:
    listed = [name for part in reference.PARTS.values() for name in part.names]
    assert len(listed) == len(set(listed))
    assert set(listed) == set(vs.__all__) - {"__version__"}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_what_it_is(name: str) -> None:
    for member in described(name):
        assert member.text, f"{member.owner}.{member.name} has no docstring"


@pytest.mark.parametrize("name", CALLABLES)
def test_a_callable_explains_its_parameters_results_errors_and_shows_an_example(name: str) -> None:
    first, *methods = described(name)
    assert first.examples, "an example that runs"
    assert name in NO_ERRORS or reference.raised(first), "what it raises"
    for member in (first, *methods):
        silent = [one.name for one in member.parameters if not one.says]
        assert not silent, f"{member.owner}.{member.name}: nothing is said about {silent}"
        assert member.is_class or member.returns, f"{member.owner}.{member.name}: annotate what it returns"


def test_words_of_the_glossary_are_used() -> None:
    values = {name: getattr(vs, name) for name in CALLABLES}
    further = {f"{part}.{name}": reference.FURTHER[part].value(name) for part, name in FURTHER}
    everywhere = [member for name, value in {**values, **further}.items() for member in described(name, value)]
    used = {one.name for member in everywhere for one in member.parameters}
    protocol = {"meter", "now", "state", "x", "records", "t"}
    assert set(PARAMETERS) <= used | protocol


@pytest.mark.parametrize(("part", "name"), FURTHER)
def test_names_that_guides_import_from_modules_are_explained_too(part: str, name: str) -> None:
    first, *methods = described(name, reference.FURTHER[part].value(name))
    made = name not in reference.RETURNED
    assert first.examples or name in NO_EXAMPLE or not made, "an example that runs"
    for member in (first, *methods) if made else methods:
        assert member.text, f"{member.owner}.{member.name} has no docstring"
        silent = [one.name for one in member.parameters if not one.says]
        assert not silent, f"{member.owner}.{member.name}: nothing is said about {silent}"
        assert member.is_class or member.returns, f"{member.owner}.{member.name}: annotate what it returns"


def test_guides_import_what_the_reference_lists() -> None:
    """Whatever guides and the gallery import from veilstream is documented, or named here with a reason."""
    listed = {
        (part.module_of(name), name) for part in (reference.PARTS | reference.FURTHER).values() for name in part.names
    }
    listed |= {("veilstream.data", name) for name in reference.PARTS["data"].names}
    listed |= {("veilstream.cli.demo_data", "bundled_data"), ("veilstream.cli.demo_data", "DOMAIN")}  # bundled data
    guides = [path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "guides").glob("*.md")]
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    imports = re.compile(r"^from (veilstream[\w.]*) import (.+)$", re.MULTILINE)
    used = {
        (module, name.strip())
        for text in (*guides, *scripts)
        for module, names in imports.findall(text)
        for name in names.split(",")
    }
    assert len(used) > 8
    assert not used - listed


@pytest.mark.parametrize("part", [*reference.PARTS, *reference.FURTHER])
def test_a_page_of_the_reference_has_an_entry_per_name(part: str) -> None:
    found = (reference.PARTS | reference.FURTHER)[part]
    page = reference.page(found)
    for name in found.names:
        assert f"\n## {name} " in page


def test_every_mechanism_has_a_page_with_its_parts() -> None:
    assert set(STREAM_USES) == set(STREAMS)
    assert set(HISTOGRAM_USES) == set(HISTOGRAMS)
    pages = mechanism_pages.pages()
    for name in (*STREAMS, *HISTOGRAMS):
        for heading in ("When to use it", "Example", "Paper and corrections", "Measured", "Parameters"):
            assert f"\n## {heading}\n" in pages[f"{name}.md"], name
        assert (mechanism_pages.FOLDER / f"{name}.svg").exists()
    assert not [path.stem for path in mechanism_pages.FOLDER.glob("*.svg") if f"{path.stem}.md" not in pages]


def test_docstrings_become_markdown() -> None:
    text = inspect.cleandoc(
        """Adds ``a`` to :class:`Sum`. ``b`` is the other; ``c=1`` too.

        >>> 1 + 1
        2

            x = a + b
        """
    )
    assert markdown(text) == (
        "Adds `a` to `Sum`. `b` is the other; `c=1` too.\n\n```pycon\n>>> 1 + 1\n2\n```\n\n    x = a + b"
    )
    assert sentences_about("b", text) == "`b` is the other;"


def test_bars_in_types_do_not_cut_cells() -> None:
    row = next(line for line in reference.page(reference.PARTS["publishing"]).splitlines() if "`window`" in line)
    assert "`int | str | None`" in row
