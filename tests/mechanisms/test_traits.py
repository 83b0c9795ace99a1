"""Traits stand in the classes of mechanisms, and what a mechanism says of itself is so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream
from veilstream import Guarantee, simulate
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS
from veilstream.mechanisms.traits import HasVariants, Traits
from veilstream.release.records import RecordMechanism

PACKAGE = Path(veilstream.__file__).parent
CATALOGUES = ("mechanisms/streams/__init__.py", "mechanisms/histograms/__init__.py", "audit/stream_entries.py",
              "audit/histogram_entries.py", "audit/presence_entries.py", "audit/measure_entries.py")  # fmt: skip
"""Where names of mechanisms belong: the catalogues themselves, and the claims that are audited."""


def lists_of_names(tree: ast.AST) -> Iterator[set[str]]:
    """The texts of every literal list, tuple, set or mapping."""
    for node in ast.walk(tree):
        items = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        texts = {item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}
        if texts:
            yield texts


def test_no_module_keeps_a_list_of_mechanisms() -> None:
    known = {*STREAMS, *HISTOGRAMS}
    files = [path for path in PACKAGE.rglob("*.py") if str(path.relative_to(PACKAGE)) not in CATALOGUES]
    assert len(files) > 100
    for path in files:
        for texts in lists_of_names(ast.parse(path.read_text(encoding="utf-8"))):
            assert len(texts & known) < 2, (path, texts & known)


def test_a_class_without_traits_has_the_defaults() -> None:
    assert Traits.of(object()) == Traits()
    assert {trait.name for trait in fields(Traits)} == {
        "oblivious", "batchable", "per_timestamp", "window_sums", "cumulative", "needs_weights", "sparse",
        "gaussian_only", "modelled", "unbiased",
    }  # fmt: skip


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_sparse_histograms_take_records(name: str) -> None:
    assert Traits.of(HISTOGRAMS[name]).sparse == isinstance(HISTOGRAMS[name](), RecordMechanism)


@pytest.mark.parametrize("name", STREAMS)
def test_window_sums_are_sums_of_the_last_steps(name: str) -> None:
    """With an enormous budget a growing stream gives the sum of the last three steps, or no more than the last one."""
    kind = STREAMS[name]
    sums = Traits.of(kind).window_sums
    # Noise of scale below 1e-3 moves an integer with probability below e^-1000.
    guarantee = Guarantee(Fraction(10**5), w=4)
    counts = np.array([[100 * (t + 1)] for t in range(6)])
    released = simulate(kind(**({"window": 3} if sums else {})), guarantee, counts, seed=1)
    last = float(np.asarray(released)[-1, 0])
    if Traits.of(kind).cumulative:
        assert last == pytest.approx(2100, abs=1)
    else:
        assert last == pytest.approx(400 + 500 + 600, abs=1) if sums else last <= 601


@pytest.mark.parametrize("name", [name for name, kind in STREAMS.items() if issubclass(kind, HasVariants)])
def test_variants_are_mechanisms(name: str) -> None:
    kind: Any = STREAMS[name]
    variants = kind.variants(16)
    assert len(variants) > 1
    assert len({repr(kind(**settings)) for settings in variants}) == len(variants)
