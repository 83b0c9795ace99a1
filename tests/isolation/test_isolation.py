"""One person's rows reach nobody else, through every door."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.isolation.doors import DOORS
from tests.isolation.harness import Case, Door, Seen, check
from tests.isolation.live_doors import LIVE_DOORS
from veilstream.errors import UnreadableFileError

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


def _invented(both: list[list[int]], public: str = "same", movement: int = 1) -> Door[Any]:
    """A door of which everything is known: with the person it gives these counts and says this."""
    others = Seen(np.array([[2, 2]]), Fraction(1), {"said": "same"})
    made = {"others": others, "both": Seen(np.array(both), Fraction(movement), {"said": public})}
    return Door("invented", st.just(Case("others", "both")), lambda name, _: made[name])


@pytest.mark.parametrize(
    ("door", "why"),
    [
        (_invented([[3, 1]]), "are lost"),
        (_invented([[3, 3]]), "moves a step by 2, sealed is 1"),
        (_invented([[3, 2]], "somebody"), "the outside sees"),
        (_invented([[3, 2]], movement=2), "the seal tells"),
    ],
)
def test_the_check_sees_what_reaches_others(door: Door[Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=why):
        check(door, Case("others", "both"), tmp_path)


def test_the_check_lets_a_door_pass_that_isolates(tmp_path: Path) -> None:
    check(_invented([[3, 2]]), Case("others", "both"), tmp_path)


def test_the_check_takes_a_refusal_only_where_the_format_leaves_no_other_way(tmp_path: Path) -> None:
    def refuse(name: str, _: Path) -> Seen:
        if name == "both":
            raise UnreadableFileError("the file: it cannot be read")
        return Seen(np.array([[2, 2]]), Fraction(1))

    door: Door[str] = Door("refusing", st.just(Case("others", "both")), refuse)
    check(door, Case("others", "both", whole=True), tmp_path)
    with pytest.raises(AssertionError, match="refuse everybody's"):
        check(door, Case("others", "both"), tmp_path)
