"""Long books of charges and long lives of people lose no more than was promised, by definition and by real bounding."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.privacy.far_books import Attack
from tests.privacy.far_people import population_losses, unit_losses
from tests.privacy.far_populations import PopulationAttack

QUICK, SHARES = 20_000, 8
DEEP, DEEP_SHARES = 1_000_000, 200
PEOPLE, DEEP_PEOPLE = 60, 500
POPULATIONS, DEEP_POPULATIONS = range(20, 60), 200


@pytest.mark.parametrize("share", range(SHARES))
def test_no_book_of_twenty_thousand_loses_more_than_its_guarantee(share: int) -> None:
    found = Attack().on(range(share * QUICK // SHARES, (share + 1) * QUICK // SHARES))
    assert found.books == QUICK // SHARES
    assert found.full > found.books // 5
    assert found.broken == [], "python -m tests.privacy.far_books SEED shows a book again"


@pytest.mark.audit
@pytest.mark.parametrize("share", range(DEEP_SHARES))
def test_no_book_of_a_million_loses_more_than_its_guarantee(share: int) -> None:
    """Of fresh seeds: those that fail are in the message."""
    first = int.from_bytes(os.urandom(7))
    found = Attack().on(range(first, first + DEEP // DEEP_SHARES))
    assert found.books == DEEP // DEEP_SHARES
    assert found.broken == [], f"share {share}: python -m tests.privacy.far_books SEED shows a book again"


def attack_people(seeds: range) -> None:
    units, windows = [unit_losses(seed) for seed in seeds], [population_losses(seed) for seed in seeds]
    broken = [seed for seed, (share, beyond) in zip(seeds, units, strict=True) if share > 1 or beyond > 0]
    broken += [seed for seed, shares in zip(seeds, windows, strict=True) if max(shares) > 1]
    assert broken == [], "python -m tests.privacy.far_people SEED shows a batch again"
    # The bounds are reached, so that a person who moves one step more is seen.
    assert max(beyond for _, beyond in units) == 0
    assert max(share for share, _ in windows) > 0.8


def test_no_person_of_a_long_time_moves_more_steps_than_are_charged() -> None:
    attack_people(range(PEOPLE))


@pytest.mark.audit
@pytest.mark.parametrize("share", range(20))
def test_no_person_of_many_loses_more_than_is_charged(share: int) -> None:
    """Of fresh seeds: those that fail are in the message."""
    first = int.from_bytes(os.urandom(7)) + share
    attack_people(range(first, first + DEEP_PEOPLE))


def test_no_population_loses_more_than_its_promise_or_refuses_what_has_room(tmp_path: Path) -> None:
    found = PopulationAttack().on(POPULATIONS, tmp_path)
    assert found.broken == [], "python -m tests.privacy.far_populations SEED shows one again"
    assert found.charges > 10 * len(POPULATIONS)
    assert found.refused > 10 * len(POPULATIONS)
    assert found.full > len(POPULATIONS) // 4


@pytest.mark.audit
@pytest.mark.parametrize("share", range(20))
def test_no_population_of_many_loses_more_than_its_promise(share: int, tmp_path: Path) -> None:
    """Of fresh seeds: those that fail are in the message."""
    first = int.from_bytes(os.urandom(7)) + share
    found = PopulationAttack().on(range(first, first + DEEP_POPULATIONS), tmp_path)
    assert found.broken == [], "python -m tests.privacy.far_populations SEED shows one again"
