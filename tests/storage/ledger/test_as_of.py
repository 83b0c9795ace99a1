"""A repeated value and its interval are those of its last fresh step, and every output says which."""

from __future__ import annotations

import numpy as np
import polars as pl

from veilstream import Guarantee, Publisher
from veilstream.data import Calendar, Categories, Domain
from veilstream.mechanisms.streams import Fast, FixedRate, ModelBased, Uniform
from veilstream.release.sinks import release_tables
from veilstream.storage.ledger.as_of import with_as_of
from veilstream.storage.ledger.exporting import export

PLACES = Domain({"place": Categories(["a", "b"])})
STEPS = 7


def published(mechanism: FixedRate | Uniform | ModelBased | Fast) -> Publisher[object]:
    publisher: Publisher[object] = Publisher(PLACES, Guarantee(1, w=6), mechanism)  # type: ignore[arg-type]
    for _ in range(STEPS):
        publisher.feed(np.array([100, 200]))
    return publisher


def test_steps_of_repeated_values_are_those_of_the_last_look() -> None:
    publisher = published(FixedRate(interval=3))
    found = [step for _, step in with_as_of(publisher.ledger.releases("default"))]
    assert found == [0, 0, 0, 3, 3, 3, 6]


def test_a_page_that_begins_among_repeated_steps_asks_the_ledger() -> None:
    publisher = published(FixedRate(interval=3))
    later = list(publisher.ledger.releases("default", after=publisher.ledger.release_at("default", 3).seq))  # type: ignore[union-attr]
    assert [step for _, step in with_as_of(later, publisher.ledger)] == [3, 3, 6]
    assert [step for _, step in with_as_of(later)] == [4, 4, 6]


def test_what_is_fresh_or_of_a_model_is_of_its_own_step() -> None:
    for mechanism in (Uniform(), ModelBased()):
        releases = published(mechanism).ledger.releases("default")
        assert [step for _, step in with_as_of(releases)] == list(range(STEPS))


def test_an_export_says_it_of_every_release() -> None:
    rows = export(published(FixedRate(interval=3)).ledger, "default")
    assert [row["as_of"] for row in rows if row["kind"] == "release"] == [0, 0, 0, 3, 3, 3, 6]


def test_tables_say_it_row_by_row() -> None:
    publisher = published(FixedRate(interval=3))
    calendar = Calendar(0, STEPS, 1)
    table = pl.concat(release_tables(publisher.ledger, "default", PLACES, calendar, measure="people per step"))
    assert table["as_of"].to_list() == [step for step in (0, 0, 0, 3, 3, 3, 6) for _ in range(2)]
    repeated = table.filter(~pl.col("fresh"))
    looked = table.filter(pl.col("fresh")).select("place", "low", "high", as_of="step")
    joined = repeated.join(looked, on=["place", "as_of"], suffix="_then")
    assert len(joined) == len(repeated) == 8
    assert joined["low"].equals(joined["low_then"].alias("low"))


def test_what_a_filter_believes_is_about_the_count_of_its_own_step() -> None:
    """FAST follows the level between looks, and its bands widen: they are not of a value before noise."""
    releases = list(published(Fast(samples=1)).ledger.releases("default"))
    assert not all(release.fresh for release in releases)
    assert {release.covers for release in releases} == {"count"}
    assert [step for _, step in with_as_of(releases)] == list(range(STEPS))
    widths = [high[0] - low[0] for low, high in (release.interval(0.95) for release in releases)]
    assert widths[1] < widths[2] < widths[3]
