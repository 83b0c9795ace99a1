"""One person's rows reach nobody else, through every door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.isolation.doors import DOORS
from tests.isolation.harness import Door, check
from tests.isolation.live_doors import LIVE_DOORS

TIMES_LONGER = 50
"""The long run tries so many times as many cases, other ones each time."""


def tried(door: Door[Any], folder: Path, examples: int, *, fixed: bool) -> None:
    """Draw cases of the door and check them."""

    @settings(
        max_examples=examples,
        derandomize=fixed,
        database=None,
        phases=(Phase.generate,) if fixed else (Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(door, data.draw(door.cases), folder)

    run()


@pytest.mark.parametrize("door", [*DOORS, *LIVE_DOORS], ids=lambda door: door.name)
def test_rows_of_one_person_reach_nobody_else(door: Door[Any], tmp_path: Path) -> None:
    tried(door, tmp_path, door.examples, fixed=True)


@pytest.mark.audit
@pytest.mark.parametrize("door", [*DOORS, *LIVE_DOORS], ids=lambda door: door.name)
def test_many_rows_of_one_person_reach_nobody_else(door: Door[Any], tmp_path: Path) -> None:
    tried(door, tmp_path, door.examples * TIMES_LONGER, fixed=False)
