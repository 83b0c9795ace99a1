"""A short run over damaged bodies; `make audit` makes the long one, and that of requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.bodies import try_bodies
from fuzz.requests import serve_and_ask


def test_damaged_bodies_are_taken_or_refused() -> None:
    found = try_bodies(1, 0, 1_500)
    assert found.faults == []
    assert found.outcomes.total() == 1_500
    assert {name.partition(" ")[2] for name in found.outcomes} >= {"taken", "InvalidInputError"}


@pytest.mark.audit
def test_odd_requests_are_answered(tmp_path: Path) -> None:
    asked = serve_and_ask(tmp_path, 1, 2_000)
    assert asked.faults == []
    assert asked.answers.total() == 2_000
