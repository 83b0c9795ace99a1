"""Long attacks on the known-bad mechanisms and on ours by the same pairs: ``make audit``, and the table it writes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from veilstream.audit.attack import AttackResult, attack
from veilstream.evaluate.pages import markdown_table, with_section

from .known_bad import KnownBad
from .twins import TWINS

pytestmark = pytest.mark.audit
DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "privacy_known_bad.md"
COLUMNS = (
    "mechanism",
    "what is wrong",
    "the person",
    "claimed ε",
    "true loss",
    "bound found",
    "trials",
    "ours",
    "trials",
)
SEED = 12


def test_known_bad_mechanisms_are_caught_and_ours_are_not() -> None:
    """Bounds at 99.9 %, ours at 1 − 1e-6 (the false-alarm probability of each); the table goes into the page."""
    rows: list[list[str]] = []
    for twin in TWINS:
        example = twin.example
        bad = attack(example.claim(), example.deep, seed=SEED)
        ours = attack(twin.claim(), twin.deep, seed=SEED, confidence=1 - 1e-6)
        assert example.claimed < bad.bound.epsilon <= example.loss, bad
        ours.require()
        rows.append(row(example, bad, ours))
    assert rows
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_section(text, "known-bad", markdown_table(COLUMNS, rows)), encoding="utf-8")


def row(example: KnownBad, bad: AttackResult, ours: AttackResult) -> list[str]:
    loss = "∞" if math.isinf(example.loss) else f"{example.loss:.2f}"
    return [
        example.name,
        example.mistake,
        example.pair,
        f"{example.claimed:g}",
        loss,
        f"**{bad.bound.epsilon:.2f}**",
        f"{bad.bound.trials:,}",
        f"{ours.bound.epsilon:.2f}",
        f"{ours.bound.trials:,}",
    ]
