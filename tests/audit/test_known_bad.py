"""The auditor catches every known-bad mechanism, and finds nothing on veilstream's own versions by the same pairs."""

from __future__ import annotations

import pytest

from .known_bad import KNOWN_BAD, KnownBad
from .known_bad.attack import attack


@pytest.mark.parametrize("example", KNOWN_BAD, ids=lambda example: example.name)
def test_known_bad_mechanisms_lose_more_than_they_claim(example: KnownBad) -> None:
    """At 99.9 %: for a mechanism that kept its claim, this would pass with probability below 1e-3."""
    bound = attack(example, example.trials, seed=11)
    assert bound.epsilon > example.claimed, bound
    assert bound.epsilon <= example.loss
