"""Every public name is documented: what it is, its parameters, what it returns and raises, and an example that runs."""

from __future__ import annotations

import inspect

import pytest

import veilstream as vs
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


def described(name: str) -> list[Member]:
    member = Member(name, getattr(vs, name))
    hidden = reference.PROTOCOL if name in reference.MECHANISMS else set[str]()
    return [member, *(method for method in member.methods() if method.name not in hidden)]


def test_the_reference_holds_the_public_names_and_no_others() -> None:
    listed = [name for _, names in reference.PARTS.values() for name in names]
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
    used = {one.name for name in CALLABLES for member in described(name) for one in member.parameters}
    protocol = {"meter", "now", "state", "x", "records", "t"}
    assert set(PARAMETERS) <= used | protocol


@pytest.mark.parametrize("part", list(reference.PARTS))
def test_a_page_of_the_reference_has_an_entry_per_name(part: str) -> None:
    page = reference.page(part)
    for name in reference.PARTS[part][1]:
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
