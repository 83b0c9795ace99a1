"""What a ledger keeps, on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from veilstream.errors import InvalidInputError, LedgerError, LedgerMismatchError, LedgerVersionError, OutOfOrderError
from veilstream.privacy.charge import Charge, Span
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.exporting import export
from veilstream.values.differences import differing
from veilstream.values.values import NoiseLaw, Values

from .support import FIFTH, SPEC, charge, publish, same, state, values

NewLedger = Callable[[], str]


@pytest.fixture
def url(new_ledger: NewLedger) -> str:
    return new_ledger()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url, timeout=5) as opened:
        opened.register(SPEC)
        yield opened


def engine_of(url: str) -> sa.Engine:
    return sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool)


def sql(url: str, statement: str) -> list[Any]:
    """What a second program sees of, or does to, the tables."""
    with engine_of(url).begin() as connection:
        result = connection.execute(sa.text(statement))
        return [tuple(row) for row in result] if result.returns_rows else []


def test_a_release_returns_as_it_was_committed(ledger: Ledger, url: str) -> None:
    made = [publish(ledger, t) for t in (3, 4, 9)]
    with Ledger.open(url) as again:
        assert all(map(same, again.releases(), made))
        assert same(again.release_at("visits", 4), made[1])
        assert again.release_at("visits", 5) is None
        assert again.streams() == [SPEC]
    assert [r.seq for r in made] == [1, 2, 3]


@pytest.mark.parametrize(
    "given",
    [
        Values(np.array([1.5, np.nan, np.inf, -0.0]), np.array([1.0, 2.0, 0.0, 4.0]), NoiseLaw.GAUSSIAN, fresh=False),
        Values(np.zeros(0, np.int64), float("nan")),
        Values(np.array([2**62, -(2**62), 0, 1]), float("inf"), NoiseLaw.MIXED),
        Values(np.arange(8)[::2], 0.0, NoiseLaw.LAPLACE),
    ],
)
def test_values_keep_every_bit(ledger: Ledger, given: Values) -> None:
    made = publish(ledger, 0, given=given)
    assert made.values.tobytes() == given.numbers.tobytes()
    assert same(ledger.release_at("visits", 0), made)


def test_a_release_cannot_be_changed_by_its_reader(ledger: Ledger) -> None:
    source = values(1)
    made = publish(ledger, 1, given=source)
    source.numbers[:] = 0
    stored = ledger.release_at("visits", 1)
    assert same(stored, made)
    for release in (made, stored):
        assert release is not None
        with pytest.raises(ValueError, match="read-only"):
            release.values[0] = 1


def test_pages_follow_each_other_without_gap(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veilstream.storage.ledger.PAGE", 3)
    for t in range(8):
        publish(ledger, t)
    assert [r.t for r in ledger.releases("visits")] == list(range(8))
    assert [r.seq for r in ledger.releases(after=2, limit=4)] == [3, 4, 5, 6]
    assert list(ledger.releases(limit=0)) == []
    assert [row.t for row in ledger.charges("visits")] == list(range(8))
    later = [row.id for row in ledger.charges("visits")][5]
    assert [row.t for row in ledger.charges("visits", after=later)] == [6, 7]


def test_streams_share_one_numbering_and_nothing_else(ledger: Ledger) -> None:
    ledger.register(replace(SPEC, name="other"))
    publish(ledger, 0)
    with ledger.transaction("other") as step:
        assert step.head is None
        assert step.state() is None
        assert step.charges(after=0) == []
        step.commit_step(7, [], state(np.full(4, 0)), values(0), Fraction(0), Fraction(1))
    publish(ledger, 1)
    assert [(r.seq, r.stream, r.t) for r in ledger.releases()] == [
        (1, "visits", 0),
        (2, "other", 7),
        (3, "visits", 1),
    ]
    assert [r.t for r in ledger.releases("other")] == [7]


def test_leaving_without_commit_leaves_no_trace(ledger: Ledger, url: str) -> None:
    publish(ledger, 0)
    with ledger.transaction("visits") as step:
        assert step.head == 0
    with pytest.raises(ZeroDivisionError), ledger.transaction("visits"):
        _ = 1 / 0
    assert sql(url, "SELECT count(*) FROM steps") == [(1,)]
    assert publish(ledger, 1).seq == 2


def test_one_transaction_commits_once(ledger: Ledger) -> None:
    with ledger.transaction("visits") as step:
        step.commit_step(0, [charge(0)], state(), values(0), FIFTH, FIFTH)
        for again in (lambda: step.charges(0), step.state, lambda: step.commit_failure(1, [], "x")):
            with pytest.raises(LedgerError, match="it has ended"):
                again()


def test_steps_go_forward_only(ledger: Ledger) -> None:
    publish(ledger, 5)
    for t in (5, 4):
        with pytest.raises(OutOfOrderError, match=rf"t={t} .* last released step is 5; nothing was released"):
            publish(ledger, t)
    with pytest.raises(InvalidInputError, match="nothing was released"):
        publish(ledger, 2**70, state(), values(1))
    assert [r.t for r in ledger.releases()] == [5]


def test_a_failed_step_keeps_its_charges_and_nothing_else(ledger: Ledger, url: str) -> None:
    publish(ledger, 0, state(np.array([1, 2])))
    with ledger.transaction("visits") as step:
        step.commit_failure(1, [charge(1), charge(1)], "ValueError")
    with ledger.transaction("visits") as step:
        assert step.head == 0
        kept = step.state()
        assert kept is not None
        assert kept.arrays[0].tolist() == [1, 2]
        assert [(row.t, row.outcome) for row in step.charges(0)] == [
            (0, "released"),
            (1, "failed"),
            (1, "failed"),
        ]
    assert sql(url, "SELECT t, reason FROM failures") == [(1, "ValueError")]
    publish(ledger, 1)
    assert [row.outcome for row in ledger.charges("visits")] == ["released", "failed", "failed", "released"]


def test_charges_keep_exact_numbers_and_their_bins(ledger: Ledger) -> None:
    exact = Charge(
        Fraction(10**40 + 1, 3**60),
        Span(-3, 4),
        "a 'quoted' purpose; ε",
        Fraction(1, 7),
        block=12,
        bins=np.arange(1000),
        starts=np.arange(1000) - 3,
    )
    with ledger.transaction("visits") as step:
        step.commit_step(4, [exact, charge(4), exact], state(), values(4), FIFTH, FIFTH)
    first, second, third = (row.charge for row in ledger.charges("visits"))
    assert (first, second, third) == (exact, charge(4), exact)
    assert first.bins is not None
    assert third.starts is not None
    assert first.bins.dtype == np.int64
    assert first.bins.tolist() == list(range(1000))
    assert third.starts.tolist() == list(range(-3, 997))
    assert second.bins is None
    assert second.starts is None


def test_bins_named_by_truth_values_come_back_as_positions(ledger: Ledger, url: str) -> None:
    named = replace(charge(0), bins=np.arange(1000) % 10 > 0)
    with ledger.transaction("visits") as step:
        step.commit_step(0, [named], state(), values(0), FIFTH, FIFTH)
    expected = [b for b in range(1000) if b % 10]
    with Ledger.open(url) as again:
        read = next(again.charges("visits")).charge
        assert read.positions is not None
        assert read.positions.tolist() == expected
        assert export(again, "visits")[0]["bins"] == expected


def test_the_state_is_that_of_the_last_step_and_writable(ledger: Ledger, url: str) -> None:
    publish(ledger, 0, state(np.array([1.5, np.nan]), np.array(True), np.zeros((0, 3), np.uint64)))
    with Ledger.open(url) as again, again.transaction("visits") as step:
        kept = step.state()
    assert kept is not None
    assert kept.header == state(np.array([1.5, np.nan]), np.array(True), np.zeros((0, 3), np.uint64)).header
    assert [x.shape for x in kept.arrays] == [(2,), (), (0, 3)]
    kept.arrays[0][:] = 0


def test_repeated_arrays_cost_no_new_bytes(ledger: Ledger, url: str) -> None:
    first = values(3)
    publish(ledger, 0, state(first.numbers), first)
    counts = "SELECT (SELECT count(*) FROM arrays), (SELECT count(*) FROM secret_arrays)"
    assert sql(url, counts) == [(1, 1)]
    for t in range(1, 20):
        publish(ledger, t, state(first.numbers), first.repeated())
    assert sql(url, counts) == [(1, 1)]


def test_old_states_are_dropped_but_never_a_release_or_charge(ledger: Ledger, url: str) -> None:
    bins = np.arange(3)
    with ledger.transaction("visits") as step:
        named = replace(charge(0), bins=bins)
        step.commit_step(0, [named], state(bins, np.full(5, 9)), values(7), FIFTH, FIFTH)
    publish(ledger, 1, state(values(7).numbers, np.full(6, 9), np.full(6, 9)), values(8))
    publish(ledger, 2, state(), values(9))
    assert sql(url, "SELECT count(*) FROM arrays") == [(4,)]
    assert sql(url, "SELECT count(*) FROM secret_arrays") == [(0,)]
    assert [r.values.tolist() for r in ledger.releases()] == [values(i).numbers.tolist() for i in (7, 8, 9)]
    assert next(ledger.charges("visits")).charge.bins is not None


def test_large_and_incompressible_arrays_survive(ledger: Ledger) -> None:
    words = np.frombuffer(np.arange(100_000).tobytes(), np.uint8)
    noise = (np.arange(30_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ** np.uint64(3)
    publish(ledger, 0, state(words, noise))
    with ledger.transaction("visits") as step:
        kept = step.state()
    assert kept is not None
    assert np.array_equal(kept.arrays[0], words)
    assert np.array_equal(kept.arrays[1], noise)


@pytest.mark.parametrize(
    ("field", "value"),
    [("guarantee", "{}"), ("mechanism", '{"name":"sample"}'), ("bins", 5), ("domain", "ab12"), ("max_contribution", 2)],
)
def test_another_stream_of_the_same_name_is_refused(ledger: Ledger, field: str, value: Any) -> None:
    ledger.register(SPEC)
    changed: dict[str, Any] = {field: value}
    with pytest.raises(LedgerMismatchError) as caught:
        ledger.register(replace(SPEC, **changed))
    recorded, given = differing(getattr(SPEC, field), value)
    assert recorded != given
    assert f"{field} is recorded as {recorded}, given {given}; nothing was changed" in str(caught.value)
    assert ledger.streams() == [SPEC]


def test_an_unknown_stream_is_named(ledger: Ledger) -> None:
    for use in (
        lambda: ledger.release_at("none", 1),
        lambda: list(ledger.releases("none")),
        lambda: list(ledger.charges("none")),
        lambda: ledger.transaction("none").__enter__(),
    ):
        with pytest.raises(LedgerError, match=r"stream 'none': .* no such stream; .*nothing was released"):
            use()


def test_a_changed_array_is_detected(ledger: Ledger, url: str) -> None:
    made = publish(ledger, 0)
    publish(ledger, 1)
    where = f"WHERE id = (SELECT values_array FROM steps WHERE seq = {made.seq})"
    sql(url, f"UPDATE arrays SET shape = '[2, 2]' {where}")
    with pytest.raises(LedgerError, match=r"does not match its digest; it was altered or damaged"):
        ledger.release_at("visits", 0)
    other = "SELECT b.bytes FROM arrays b ORDER BY b.id DESC LIMIT 1"
    sql(url, f"UPDATE arrays SET shape = '[4]', bytes = ({other}) {where}")
    with pytest.raises(LedgerError, match="does not match its digest"):
        list(ledger.releases())
    assert ledger.release_at("visits", 1) is not None


def test_a_newer_schema_or_step_is_refused(ledger: Ledger, url: str) -> None:
    publish(ledger, 0)
    sql(url, "UPDATE steps SET format = 2")
    with pytest.raises(LedgerVersionError, match=r"format 2.*up to 1.*newer veilstream; nothing was read"):
        ledger.release_at("visits", 0)
    sql(url, "UPDATE ledger_version SET version_num = '0999'")
    with pytest.raises(LedgerVersionError, match=r"schema is 0999, this version reads 0007; nothing was read"):
        Ledger.open(url)


def test_a_foreign_database_is_left_alone(new_ledger: NewLedger) -> None:
    url = new_ledger()
    sql(url, "CREATE TABLE steps (walked integer)")
    with pytest.raises(LedgerError, match="other tables and no ledger; nothing was changed"):
        Ledger.open(url)
    assert sql(url, "SELECT count(*) FROM steps") == [(0,)]


def test_history_is_readable_by_a_person(ledger: Ledger, url: str) -> None:
    publish(ledger, 3)
    rows = sql(url, 'SELECT stream, t, purpose, epsilon, epsilon_decimal, outcome, spent, "left" FROM history')
    assert rows == [("visits", 3, "publish", "1/5", 0.2, "released", "1/5", "4/5")]


def test_an_export_holds_releases_and_charges_alone(ledger: Ledger) -> None:
    publish(ledger, 0, state(np.array([424_242_424_242])))
    with ledger.transaction("visits") as step:
        step.commit_failure(1, [charge(1)], "ValueError")
    rows = export(ledger, "visits")
    assert [(row["kind"], row["t"]) for row in rows] == [("charge", 0), ("release", 0), ("charge", 1)]
    assert rows[1]["values"] == values(0).numbers.tolist()
    assert "424242424242" not in repr(rows)


def test_a_ledger_in_memory_works_alike() -> None:
    with Ledger.open(None) as ledger, closing(Ledger.open(None)) as apart:
        ledger.register(SPEC)
        made = publish(ledger, 0)
        with ledger.transaction("visits") as step:
            assert same(ledger.release_at("visits", 0), made)
            step.commit_failure(1, [charge(1)], "ValueError")
        with ledger.transaction("visits"):
            pass
        assert [row.outcome for row in ledger.charges("visits")] == ["released", "failed"]
        assert apart.streams() == []
