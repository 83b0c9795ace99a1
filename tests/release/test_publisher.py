"""One feed is one transaction: releases are durable, repeated feeds are free, failures keep their charges."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import (
    BudgetExceededError,
    InvalidBudgetError,
    InvalidInputError,
    LedgerMismatchError,
    LedgerVersionError,
    OutOfOrderError,
)
from veilstream.mechanisms.streams import FixedRate, Sample, Uniform
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.meter import Meter

COUNTS = np.array([100, 20, 0, 3])


def publisher(ledger: str | Path | None = None, **changes: Any) -> vs.Publisher[Any]:
    options: dict[str, Any] = {
        "bins": 4,
        "guarantee": vs.Guarantee("1", w=3),
        "mechanism": Uniform(),
        "ledger": ledger,
    }
    return vs.Publisher(**(options | changes))


def test_a_release_tells_its_values_noise_and_budget(tmp_path: Path) -> None:
    p = publisher(f"sqlite:///{tmp_path}/budget.db")
    r = p.feed(COUNTS, t=17)
    assert (r.t, r.fresh, r.spent, r.left) == (17, True, Fraction(1, 3), Fraction(2, 3))
    assert r.values.dtype == np.int64
    assert r.std == pytest.approx(3 * np.sqrt(2), rel=0.02)
    low, high = r.interval(0.95)
    assert (low < r.values).all()
    assert (r.values < high).all()
    assert np.allclose(high - low, (high - low)[0])


def test_feeding_a_step_again_returns_what_was_released(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with publisher(path) as p:
        first = [p.feed(COUNTS, t=t) for t in range(5)]
    with publisher(path) as p:
        for t, release in enumerate(first):
            again = p.feed(COUNTS * 0, t=t)
            assert np.array_equal(again.values, release.values)
            assert (again.seq, again.spent) == (release.seq, release.spent)
        assert p.feed(COUNTS).t == 5
        charges = list(p.ledger.charges("default"))
    assert len(charges) == 6


def test_a_resumed_stream_knows_its_state_and_what_is_spent(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    options = {"mechanism": FixedRate(interval=2), "guarantee": vs.Guarantee(1, w=4)}
    with publisher(path, **options) as p:
        first = p.feed(COUNTS)
    with publisher(path, **options) as p:
        second = p.feed(COUNTS + 1000)
        assert not second.fresh
        assert np.array_equal(first.values, second.values)
        assert (second.spent, second.left) == (Fraction(0), Fraction(1, 2))
    with publisher(path, **options) as p:
        assert p.feed(COUNTS).fresh


def test_two_publishers_on_one_ledger_take_turns_without_overspending(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with publisher(path) as one, publisher(path) as two:
        for t in range(0, 12, 2):
            one.feed(COUNTS, t=t)
            two.feed(COUNTS, t=t + 1)
        rows = list(one.ledger.charges("default"))
    assert [row.t for row in rows] == list(range(12))
    assert all(row.charge.epsilon == Fraction(1, 3) for row in rows)


@dataclass(frozen=True)
class Empty:
    pass


@dataclass(frozen=True)
class FailsAfterCharging:
    def start(self, guarantee: vs.Guarantee, bins: int) -> Empty:
        return Empty()

    def step(self, state: Empty, now: Sealed, meter: Meter) -> tuple[Empty, vs.Values]:
        meter.laplace(now, Fraction(1, 2), "publish")
        raise RuntimeError("after the draw")


def test_charges_of_a_failed_step_stay(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with publisher(path, mechanism=FailsAfterCharging()) as p:
        for _ in range(2):
            with pytest.raises(RuntimeError):
                p.feed(COUNTS, t=0)
        with pytest.raises(BudgetExceededError, match="would cost 3/2"):
            p.feed(COUNTS, t=0)
        assert list(p.ledger.releases()) == []
        rows = list(p.ledger.charges("default"))
        assert [(row.charge.epsilon, row.outcome) for row in rows] == [(Fraction(1, 2), "failed")] * 2
    with publisher(path, mechanism=FailsAfterCharging()) as p, pytest.raises(BudgetExceededError):
        p.feed(COUNTS, t=0)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([1, 2, 3], r"shape \(3,\)"),
        ([[1, 2, 3, 4]], "shape"),
        ([1, 2, 3, -4], "between 0"),
        ([1, 2, 3, float("nan")], "whole numbers"),
        ([1, 2, 3, 0.5], "whole numbers"),
        ([1, 2, 3, 1 << 50], "between 0"),
        (["a", "b", "c", "d"], "type"),
    ],
)
def test_bad_snapshots_are_refused_and_nothing_is_lost(counts: list[Any], words: str) -> None:
    p = publisher()
    p.feed(COUNTS)
    with pytest.raises(InvalidInputError, match=words):
        p.feed(np.array(counts))
    assert p.feed(COUNTS).t == 1


def test_whole_numbers_stored_as_floats_are_taken() -> None:
    assert publisher().feed(COUNTS.astype(float)).values.dtype == np.int64


def test_time_that_skips_or_runs_back_is_refused() -> None:
    p = publisher()
    p.feed(COUNTS, t=5)
    with pytest.raises(OutOfOrderError, match="step 7 after 5: step 6 is missing"):
        p.feed(COUNTS, t=7)
    with pytest.raises(OutOfOrderError, match=r"steps 6\.\.8 are missing"):
        p.feed(COUNTS, t=9)
    with pytest.raises(OutOfOrderError, match="step 3: the stream is at 5"):
        p.feed(COUNTS, t=3)
    with pytest.raises(InvalidInputError, match="whole number"):
        p.feed(COUNTS, t=6.0)  # type: ignore[arg-type]
    assert p.feed(COUNTS).t == 6


def test_a_ledger_of_another_stream_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    publisher(path).feed(COUNTS)
    changes: list[dict[str, Any]] = [
        {"guarantee": vs.Guarantee("2", w=3)},
        {"guarantee": vs.Guarantee("1", w=4)},
        {"mechanism": Sample()},
        {"bins": 5},
        {"max_contribution": 2},
    ]
    for change in changes:
        with pytest.raises(LedgerMismatchError):
            publisher(path, **change)
    assert publisher(path, stream="another", bins=5).feed(np.zeros(5, dtype=np.int64)).t == 0


def test_a_state_of_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from veilstream.mechanisms.streams import uniform

    path = tmp_path / "budget.db"
    monkeypatch.setattr(uniform.State, "version", 2, raising=False)
    publisher(path).feed(COUNTS)
    monkeypatch.setattr(uniform.State, "version", 1, raising=False)
    with pytest.raises(LedgerVersionError, match="newer"):
        publisher(path).feed(COUNTS)


def test_sealed_snapshots_bring_their_own_time_and_bound() -> None:
    p = publisher()
    assert p.feed(seal(COUNTS, 4)).t == 4
    with pytest.raises(InvalidInputError, match="max_contribution=2"):
        p.feed(seal(COUNTS, 5, max_contribution=2))
    with pytest.raises(InvalidInputError, match="t=6 for a snapshot of step 5"):
        p.feed(seal(COUNTS, 5), t=6)
    with pytest.raises(InvalidInputError, match="over 2 steps"):
        p.feed(seal(COUNTS, 5) + seal(COUNTS, 6))


def test_a_larger_bound_per_person_means_more_noise() -> None:
    assert publisher(max_contribution=5).feed(COUNTS).std == pytest.approx(5 * publisher().feed(COUNTS).std, rel=0.05)


@pytest.mark.parametrize("make", [vs.Publisher, vs.noise.SecureNoise])
def test_a_real_release_cannot_be_seeded(make: Callable[..., Any]) -> None:
    assert not [name for name in inspect.signature(make).parameters if "seed" in name or "random" in name]


def test_two_publishers_draw_different_noise() -> None:
    big = np.full(4, 10**6)
    assert not np.array_equal(publisher().feed(big).values, publisher().feed(big).values)


@pytest.mark.parametrize("bins", [0, -1, 10**7 + 1, 2.5, "4"])
def test_absurd_numbers_of_bins_are_refused(bins: Any) -> None:
    with pytest.raises(InvalidInputError, match="bins"):
        publisher(bins=bins)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), 10**9, "x", True, None])
def test_absurd_budgets_are_refused(epsilon: Any) -> None:
    with pytest.raises(InvalidBudgetError, match="epsilon"):
        vs.Guarantee(epsilon, w=1)


@pytest.mark.parametrize("window", [0, -3, 2.0, True, "5", 10**10])
def test_absurd_windows_are_refused(window: Any) -> None:
    with pytest.raises(InvalidBudgetError, match="window"):
        vs.Guarantee(1, w=window)


@pytest.mark.parametrize("delta", [-0.1, 1, 2, float("nan")])
def test_absurd_deltas_are_refused(delta: Any) -> None:
    with pytest.raises(InvalidBudgetError, match="delta"):
        vs.Guarantee(1, w=1, delta=delta)


def test_a_float_is_taken_at_its_shortest_decimal() -> None:
    assert vs.Guarantee(0.1, w=1).epsilon == Fraction(1, 10)
    assert vs.Guarantee.from_json(vs.Guarantee(0.1, w=7, delta="1e-7").to_json()) == vs.Guarantee("1/10", 7, 1e-7)


def test_an_empty_stream_of_zeros_still_publishes() -> None:
    p = publisher()
    assert all(p.feed(np.zeros(4, dtype=np.int64)).fresh for _ in range(4))


def test_a_simulation_is_no_release() -> None:
    y = vs.simulate(Uniform(), vs.Guarantee(1, w=2), np.full((3, 4), 9), seed=1)
    assert vs.Release not in type(y).__mro__
    with pytest.raises(InvalidInputError):
        publisher().feed(y)


def test_a_step_that_cannot_be_paid_for_is_passed_by_repeating_the_last_release(tmp_path: Path) -> None:
    p = publisher(tmp_path / "budget.db", guarantee=vs.Guarantee(1, w=3))
    with pytest.raises(OutOfOrderError, match="nothing was released yet"):
        p.skip()
    first = p.feed(COUNTS)
    with p.ledger.transaction("default") as transaction:
        lost = vs.Charge(Fraction(1, 3), vs.Span(1, 1), "publish")
        transaction.commit_failure(1, [lost], "RuntimeError")
    second = p.feed(COUNTS, t=1)
    with pytest.raises(BudgetExceededError):
        p.feed(COUNTS, t=2)
    repeated = p.skip()
    assert (repeated.t, repeated.fresh, repeated.spent) == (2, False, Fraction(0))
    assert np.array_equal(repeated.values, second.values)
    assert not np.array_equal(first.values, second.values)
    assert p.skip().t == 3
    assert p.feed(COUNTS, t=4).fresh
    with publisher(tmp_path / "budget.db", guarantee=vs.Guarantee(1, w=3)) as again:
        assert again.feed(COUNTS).t == 5
