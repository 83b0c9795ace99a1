"""The auditor catches every known-bad mechanism, and finds nothing on veilstream's own versions by the same pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from veilstream.audit.attack import attack
from veilstream.errors import CheckFailedError

from .known_bad import KNOWN_BAD, KnownBad
from .twins import TWINS, Twin

SEED = 11


@pytest.mark.parametrize("example", KNOWN_BAD, ids=lambda example: example.name)
def test_a_known_bad_mechanism_is_caught(example: KnownBad) -> None:
    """At 99.9 %: were its claim true, the audit would fail it with probability below 1e-3."""
    result = attack(example.claim(), example.trials, seed=SEED)
    with pytest.raises(CheckFailedError, match="FAIL on"):
        result.require()
    assert example.claimed < result.bound.epsilon <= example.loss


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.example.name)
def test_the_same_pair_finds_nothing_on_our_version(twin: Twin) -> None:
    """False alarm below 1e-6: the confidence of the bound."""
    attack(twin.claim(), twin.trials, seed=SEED, confidence=1 - 1e-6).require()


def test_every_known_bad_mechanism_has_its_twin_and_its_row_in_the_docs() -> None:
    assert [twin.example for twin in TWINS] == list(KNOWN_BAD)
    page = Path(__file__).resolve().parents[2] / "docs" / "privacy_known_bad.md"
    rows = [line.split(" | ") for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    table = {cells[0].removeprefix("| "): cells for cells in rows}
    for example in KNOWN_BAD:
        claimed, found = table[example.name][3], table[example.name][5].strip("*")
        assert float(claimed) == example.claimed < float(found)
