"""Promises of the model-based release: never absurd, honest widths, resumable, and charged as it says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)
from numpy.typing import NDArray

import veilstream as vs
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.protocols import accountant_for, divided
from veilstream.mechanisms.streams import ModelBased, Sample, Uniform
from veilstream.mechanisms.streams.model.looks import Reason
from veilstream.mechanisms.streams.model.mechanism import State
from veilstream.noise import ExactSampler
from veilstream.privacy.charge import Charge
from veilstream.privacy.windows import fullest_window
from veilstream.testing.simulation import SeededSource, simulate
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw, Values, half_width

Counts = NDArray[np.int64]


def walked(
    mechanism: ModelBased, guarantee: vs.Guarantee, counts: Counts, seed: int = 1
) -> tuple[list[Values], list[list[Charge]], list[State]]:
    bins = counts.shape[1]
    accountant = accountant_for(mechanism, guarantee, bins)
    noise, state = ExactSampler(SeededSource(seed)), mechanism.start(guarantee, bins)
    values, charges, states = list[Values](), list[list[Charge]](), list[State]()
    for t, row in enumerate(counts):
        meter = Meter(accountant, noise, t)
        state, released = mechanism.step(state, seal(row, t), meter)
        values.append(released)
        charges.append(meter.charges)
        states.append(state)
    return values, charges, states


def error(values: list[Values], counts: Counts) -> float:
    return float(np.abs(np.array([v.numbers for v in values]) - counts).mean())


def outbreak(bins: int = 10) -> Counts:
    mean = np.where(np.arange(160) < 100, 0, 900)[:, None]
    return default_rng(5).poisson(np.broadcast_to(mean, (160, bins))).astype(np.int64)


def alternating() -> Counts:
    return np.where(np.arange(120)[:, None] % 2 == 0, 1000, 0) * np.ones((1, 8), dtype=np.int64)


def one_shift() -> Counts:
    return np.where(np.arange(160)[:, None] < 90, 1000, 5000) * np.ones((1, 1), dtype=np.int64)


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("counts", [outbreak(), alternating(), one_shift()], ids=["outbreak", "alternating", "shift"])
def test_sudden_change_costs_no_more_than_uniform(counts: Counts, safe: bool) -> None:
    """Fixed seeds, so that the outcome never changes; the ratios seen are below 0.9."""
    guarantee = vs.Guarantee(1, w=40)
    errors = [error(walked(ModelBased(safe=safe), guarantee, counts, seed)[0], counts) for seed in (1, 2)]
    uniform = np.abs(np.asarray(simulate(Uniform(), guarantee, counts, seed=1)) - counts).mean()
    assert np.mean(errors) < 1.1 * uniform


def test_small_counts_that_stand_still_are_nearer_than_sample() -> None:
    counts = default_rng(3).poisson(2.0, (300, 12)).astype(np.int64)
    guarantee = vs.Guarantee(1, w=20)
    ours = error(walked(ModelBased(), guarantee, counts)[0], counts)
    assert ours < np.abs(np.asarray(simulate(Sample(), guarantee, counts, seed=1)) - counts).mean()


def test_a_season_of_the_calendar_helps() -> None:
    profile = default_rng(4).integers(0, 900, 12)
    counts = default_rng(6).poisson(np.tile(profile, 25)[:, None] * np.ones((1, 3))).astype(np.int64)
    guarantee = vs.Guarantee(1, w=60)
    with_season, without = (
        error(walked(ModelBased(periods=periods), guarantee, counts)[0][100:], counts[100:]) for periods in ((12,), ())
    )
    assert with_season < 0.8 * without


@pytest.mark.parametrize("delta", [0, "1e-6"])
def test_intervals_hold_the_true_count(delta: int | str) -> None:
    """A random walk in 20 bins; the seed is fixed, so that the share never changes."""
    rng = default_rng(8)
    counts = np.maximum(np.cumsum(rng.normal(0, 25, (250, 20)), axis=0) + 2000, 0).astype(np.int64)
    values = walked(ModelBased(), vs.Guarantee(1, w=40, delta=delta), counts)[0]
    assert all(v.law is NoiseLaw.MODEL for v in values)
    held = [
        np.abs(v.numbers - row) <= half_width(0.95, v.std, v.law, False) for v, row in zip(values, counts, strict=True)
    ]
    assert 0.92 < np.mean(held) < 0.98


@pytest.mark.parametrize("w", [1, 7, 30])
def test_no_window_costs_more_and_most_of_it_is_used(w: int) -> None:
    counts = alternating()
    _, charges, _ = walked(ModelBased(), vs.Guarantee(1, w=w), counts)
    pure, _ = fullest_window([charge for step in charges for charge in step], w)
    assert Fraction(9, 10) < pure <= 1


def test_quiet_streams_are_looked_at_seldom_and_an_alarm_brings_looks_at_once() -> None:
    counts = outbreak(6)
    _, charges, states = walked(ModelBased(), vs.Guarantee(1, w=40), counts)
    looked = [any(charge.purpose == "look" for charge in step) for step in charges]
    assert np.mean(looked[40:100]) < 0.4
    alarm = next(t for t in range(100, 160) if states[t].looks.reason is Reason.ALARM)
    assert alarm < 120
    assert all(looked[alarm : alarm + 5])


def test_one_bin_draws_noise_in_blocks() -> None:
    _, charges, _ = walked(ModelBased(), vs.Guarantee(1, w=40), one_shift())
    assert any(charge.block is not None and charge.span.steps > 4 for step in charges for charge in step)


def test_user_level_without_a_horizon_goes_on_within_one_budget() -> None:
    counts = default_rng(2).poisson(500, (200, 3)).astype(np.int64)
    _, charges, states = walked(ModelBased(), vs.Guarantee(1, w=None), counts)
    everything, _ = fullest_window([charge for step in charges for charge in step], None)
    assert Fraction(1, 3) < everything <= Fraction(1, 2)
    assert states[-1].belief is not None
    assert sum(bool(step) for step in charges[128:]) >= 1


def test_gaussian_streams_use_all_of_the_gaussian_budget() -> None:
    given = vs.Guarantee(1, w=40, delta="1e-6")
    used = divided(ModelBased(), given, 20)
    assert used.pure == 0
    assert float(used.mu_squared) > 1.15 * float(given.mu_squared)
    assert divided(ModelBased(), vs.Guarantee(1, w=3, delta="1e-6"), 20).mu_squared == 0
    chosen = vs.Guarantee(1, w=40, delta="1e-6", pure_share="1/2")
    assert divided(ModelBased(), chosen, 20) is chosen


def test_a_stream_resumes_bit_for_bit_from_a_ledger(tmp_path: object) -> None:
    counts = one_shift()[:30]
    publisher = vs.Publisher(1, vs.Guarantee(1, w=16), ModelBased(periods=(7,)), f"sqlite:///{tmp_path}/a.db")
    first = [publisher.feed(row) for row in counts[:20]]
    again = vs.Publisher(1, vs.Guarantee(1, w=16), ModelBased(periods=(7,)), f"sqlite:///{tmp_path}/a.db")
    assert np.array_equal(again.feed(counts[19], 19).values, first[-1].values)
    release = again.feed(counts[20])
    assert release.t == 20
    assert release.covers == "count"


@pytest.mark.parametrize("periods", [(1,), (0,), ("7",), (2.0,)])
def test_periods_are_whole_numbers_of_steps(periods: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError) as raised:
        ModelBased(periods=periods)
    assert raised.value.name == "periods"


def test_revisions_are_nearer_than_what_they_revise() -> None:
    rng = default_rng(9)
    counts = np.maximum(np.cumsum(rng.normal(0, 12, (200, 5)), axis=0) + 900, 0).astype(np.int64)
    mechanism, guarantee = ModelBased(revise=8), vs.Guarantee(1, w=40, delta="1e-6")
    values, _, states = walked(mechanism, guarantee, counts)
    first, second = list[float](), list[float]()
    for state in states[20:]:
        oldest = mechanism.revisions(state)[0]
        assert oldest.version == 8
        first.append(float(np.abs(values[oldest.step].numbers - counts[oldest.step]).mean()))
        second.append(float(np.abs(oldest.values.numbers - counts[oldest.step]).mean()))
    assert len(first) == 180
    assert np.mean(second) < 0.97 * np.mean(first)


def test_it_says_which_models_it_believes() -> None:
    profile = default_rng(4).integers(0, 3000, 6)
    counts = np.tile(profile, 30)[:, None].astype(np.int64)
    mechanism = ModelBased(periods=(6,))
    _, _, states = walked(mechanism, vs.Guarantee(1, w=24), counts)
    assert mechanism.explain(states[-1]).startswith("Believed: a season of 6 steps")
    assert mechanism.explain(State()) == "Nothing was looked at yet."


def test_a_sudden_change_between_looks_is_looked_at_after_all() -> None:
    """The total over bins is watched: a spike of a single step is seen though no look was due."""
    counts = np.full((200, 20), 30, dtype=np.int64)
    counts[150] = 20_000
    values, charges, _ = walked(ModelBased(), vs.Guarantee(1, w=40), counts)
    assert [charge.purpose for charge in charges[149]] == ["watch"]
    assert [charge.purpose for charge in charges[150]] == ["watch", "look"]
    assert float(np.abs(values[150].numbers - 20_000).mean()) < 500


@pytest.mark.parametrize("guarantee", [vs.Guarantee(1, w=9, presence=2), vs.Guarantee(1, w=None, presence=3)])
def test_people_who_count_in_few_steps_cost_as_much_as_they_can_meet(guarantee: vs.Guarantee) -> None:
    _, charges, _ = walked(ModelBased(), guarantee, alternating()[:40])
    assert guarantee.reach is not None
    assert {charge.epsilon for step in charges for charge in step} == {guarantee.pure / guarantee.reach}


@pytest.mark.parametrize("bins", [1, 20])
def test_looks_at_every_step_leave_nothing_of_a_window(bins: int) -> None:
    counts = np.zeros((40, bins), dtype=np.int64)
    _, charges, _ = walked(ModelBased(safe=True), vs.Guarantee("1/3", w=7), counts)
    assert fullest_window([charge for step in charges for charge in step], 7)[0] == Fraction(1, 3)


def test_seasons_keep_to_the_calendar_when_a_step_is_skipped() -> None:
    profile = np.array([100, 4000, 900], dtype=np.int64)
    publisher = vs.Publisher(1, vs.Guarantee(5, w=6), ModelBased(periods=(3,)))
    errors = list[float]()
    for t in range(90):
        if t == 40:
            publisher.skip()
            continue
        release = publisher.feed(profile[[t % 3]])
        errors.append(abs(float(release.values[0]) - float(profile[t % 3])))
    assert max(errors[40:43]) < 60
    assert "a season of 3 steps" in publisher.explain()


@pytest.mark.parametrize("revise", [-1, 1.5, 10_000])
def test_revise_is_a_number_of_steps(revise: int) -> None:
    with pytest.raises(InvalidInputError) as raised:
        ModelBased(revise=revise)
    assert raised.value.name == "revise"


@pytest.mark.parametrize("epsilon", [10, 1_000])
def test_a_jump_that_noise_cannot_explain_is_published_as_it_was_seen(epsilon: int) -> None:
    """Noise of scale 1/10 and less; it reaches 3 in a run of 12 with a chance below 1e-11."""
    counts = np.array([[0], [0], [0], [200], [0], [600], [0], [0], [30], [5], [0], [250]])
    published = np.asarray(simulate(ModelBased(), vs.Guarantee(epsilon, w=1), counts, seed=1))
    assert np.abs(published - counts).max() <= 3
