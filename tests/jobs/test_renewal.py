"""A presence that is chosen anew: recorded, resumable, and within the promise of all streams together."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from veilstream.data import Calendar
from veilstream.errors import InvalidInputError
from veilstream.jobs.published import PublishedJob
from veilstream.jobs.renewal import publish_renewed
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence_renewal import Renewal
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.verifying import verify

LOUD = Renewal(block=4, blocks=2, first=1, budget=1000, most=4)
"""With so large a budget the choice is that of the exact numbers."""


def visits(days: int) -> dict[str, list[Any]]:
    """A thousand people come daily in the first epoch, and once in a block later."""
    rows = [(who, day) for day in range(days) for who in range(1000) if day < 8 or day % 4 == who % 4]
    return {"id": [who for who, _ in rows], "day": [f"2024-01-{day + 1:02d}" for _, day in rows]}


def published(folder: Path, days: int) -> list[PublishedJob]:
    calendar = Calendar("2024-01-01", f"2024-01-{days + 1:02d}", "1d")
    return publish_renewed(
        visits(days),
        LOUD,
        calendar,
        user="id",
        time="day",
        epsilon=1,
        ledger=folder / "b.db",
        stream="visits",
        mechanism="uniform",
    )


def test_c_follows_what_people_do_and_is_recorded(tmp_path: Path) -> None:
    first = published(tmp_path, 16)
    # Daily visitors ask for all of a block; a choice takes effect in the next epoch.
    assert [job.prepared.guarantee.presence for job in first] == [1, 4]
    again = published(tmp_path, 25)
    assert [job.prepared.guarantee.presence for job in again] == [1, 4, 1]
    for old, new in zip(first, again, strict=False):
        assert [one.values.tolist() for one in old.releases] == [one.values.tolist() for one in new.releases]
    with Ledger.open(tmp_path / "b.db") as ledger:
        specs = {spec.name: spec for spec in ledger.streams()}
        assert [name for name in specs if "choice" in name] == [f"visits.choice.{epoch}" for epoch in range(3)]
        recorded = [Guarantee.from_json(specs[f"visits.{epoch}"].guarantee) for epoch in range(3)]
        assert [guarantee.presence for guarantee in recorded] == [1, 4, 1]
        assert verify(ledger) == []


@pytest.mark.parametrize("wrong", [{"block": 0}, {"blocks": 1.5}, {"first": 0}, {"budget": 0}, {"most": 0}])
def test_renewals_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Renewal(**{"block": 4, "blocks": 2, "first": 1, **wrong})
    assert caught.value.name == next(iter(wrong))


def test_the_promise_says_what_both_cost() -> None:
    assert str(1 + Fraction(1, 10)) in Renewal(block=7, blocks=4, first=2).promise(1)
