"""Choosing c anew by exact numbers gives people away, and the auditor finds it."""

from __future__ import annotations

from dataclasses import replace

from veilstream.audit.attack import attack
from veilstream.audit.renewal_entries import CLOSE, REGULARS, RENEWAL_CLAIMS, renewed_outputs

SURE = 1 - 1e-9


def test_a_choice_by_exact_visits_is_caught() -> None:
    """The same data and the same attack as of the claim; only the histogram is neither noisy nor published."""
    (kept, *_) = RENEWAL_CLAIMS["Renewal"]()
    assert attack(kept, 20_000, confidence=SURE).passed
    exact = replace(kept, draw=renewed_outputs(range(6), REGULARS, CLOSE, noisy=False))
    assert not attack(exact, 20_000, confidence=SURE).passed
