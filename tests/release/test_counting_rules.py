"""A publisher takes counts by its own rule alone: any other would be charged for another movement than theirs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from veilstream import STREAMS, Guarantee, Population, Publisher
from veilstream.data import Calendar, Domain, read_events
from veilstream.data.bounding import bound
from veilstream.data.measures import ValueMeasures
from veilstream.errors import InvalidInputError, LedgerMismatchError
from veilstream.trusted.counts import Sealed

KEY = bytes(32)
ONE = Domain({})
DAYS = Calendar(0, 10, 1)
PLAIN: dict[str, Any] = {}
FOREVER = Guarantee(1, w=None, presence=1)
SUMS = ValueMeasures.of({"sum": {"fare": (0, 100)}})
MEANS = ValueMeasures.of({"mean": {"fare": (0, 100)}})
BOUNDED: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "for ever": {"presence": FOREVER},
    "of a window": {"presence": Guarantee(1, w=5, presence=2)},
    "people": {"distinct": 4},
    "sums": {"measures": SUMS},
    "bounded sums": {"measures": SUMS, "most": Fraction(50)},
    "means": {"measures": MEANS},
    "another key": {"key": bytes(31) + b"1"},
    "two rows": {"counts_per_user": 2},
}
STREAM: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "for ever": {"guarantee": FOREVER},
    "of a window": {"guarantee": Guarantee(1, w=5, presence=2)},
    "people": {"distinct": 4},
    "sums": {"measures": SUMS},
    "bounded sums": {"measures": SUMS, "most": Fraction(50)},
    "means": {"measures": MEANS},
    "another key": {"key": bytes(31) + b"1"},
    "two rows": {"max_contribution": 2},
}


def snapshot(**how: Any) -> Sealed:
    events = read_events({"id": [1], "t": [0], "fare": [1.0]}, user="id", time="t", by=["fare"])
    with bound(events, ONE, DAYS, **{"key": KEY, **how}) as bounded:
        return next(bounded.snapshots())


def publisher(**how: Any) -> Publisher[Any]:
    given = {"guarantee": Guarantee(1, w=5), "key": KEY, **how}
    return Publisher(ONE, given.pop("guarantee"), STREAMS["sample"](), **given)


@pytest.mark.parametrize("counted", BOUNDED)
@pytest.mark.parametrize("promised", STREAM)
def test_counts_by_another_rule_than_the_streams_are_refused(promised: str, counted: str) -> None:
    stream, now = publisher(**STREAM[promised]), snapshot(**BOUNDED[counted])
    if promised == counted:
        assert stream.feed(now).t == 0
        return
    with pytest.raises(InvalidInputError, match="snapshot"):
        stream.feed(now)
    assert stream.ledger.head("default") is None


def test_people_of_several_steps_need_a_promise_that_holds_for_them() -> None:
    for how in (
        {"guarantee": Guarantee(1, w=3)},
        {"guarantee": FOREVER},
        {"calendar": DAYS, "population": Population("p", 1, window=1, every=1)},
    ):
        with pytest.raises(InvalidInputError) as refused:
            publisher(distinct=4, **how)
        assert refused.value.name == "distinct"
    with pytest.raises(InvalidInputError) as refused:
        snapshot(distinct=4, presence=FOREVER)
    assert refused.value.name == "distinct"


def test_a_stream_records_over_how_many_steps_people_are_counted(tmp_path: Any) -> None:
    ledger = tmp_path / "b.db"
    with publisher(ledger=ledger, distinct=4) as stream:
        stream.feed(snapshot(distinct=4))
    with pytest.raises(LedgerMismatchError, match="payload"):
        publisher(ledger=ledger)
