"""DSFT: exact budgets in every window, first and last release, and the algorithm as one would write it by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import veilstream as vs
from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.mechanisms.histograms import Gaussian
from veilstream.mechanisms.streams import DSAT, DSFT
from veilstream.mechanisms.streams.decision import Plan, Renewal, make_plan, root_down
from veilstream.noise import ExactSampler
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.codec import encode
from veilstream.testing.checks import check_stream
from veilstream.testing.simulation import SeededSource

from .adaptive import BINS, hard_streams, walk

WINDOWS = [1, 7, 40, None]
MOST = [1, 5, 6]


@pytest.mark.parametrize("w", WINDOWS, ids=str)
@pytest.mark.parametrize("releases", MOST)
@pytest.mark.parametrize("kind", [DSFT, DSAT])
def test_no_window_ever_costs_more_than_epsilon(kind: Any, releases: int, w: int | None) -> None:
    """Recomputed from the charges alone by brute force over all windows; w=40 is longer than the stream."""
    guarantee = Guarantee("1/3", w=w)
    for stream in hard_streams(30).values():
        run = walk(kind(releases=releases, horizon=30), guarantee, stream)
        assert run.fullest(w) <= guarantee.pure


@pytest.mark.parametrize(
    ("guarantee", "releases"),
    [(Guarantee(1, w=10), 3), (Guarantee("1/7", w=20), 9), (Guarantee(2, w=None), 4)],
    ids=str,
)
def test_a_stream_that_always_changes_uses_the_whole_budget_and_never_more(guarantee: Guarantee, releases: int) -> None:
    run = walk(DSFT(releases=releases, horizon=60), guarantee, hard_streams(60)["growing"])
    spent = run.fullest(guarantee.w)
    assert spent <= guarantee.pure
    if guarantee.w is None:
        assert spent == guarantee.pure
        assert run.fresh == list(range(releases))
    else:
        for end in range(guarantee.w, 60):
            assert len([t for t in run.fresh if end - guarantee.w < t <= end]) == releases


@pytest.mark.parametrize("w", [None, 1, 3, 4, 40, 1000], ids=str)
@pytest.mark.parametrize("releases", [1, 2, 4, 5, 6, 50])
def test_plans_add_up_exactly(w: int | None, releases: int) -> None:
    guarantee = Guarantee("0.9", w=w)
    plan = make_plan(guarantee, w or 500, releases, None, 100)
    assert plan.releases * plan.share + plan.decision == guarantee.pure
    weights = {
        Renewal.NEVER: (1, 2 * (plan.releases - 1)),
        Renewal.AFTER_POSITIVE: (plan.releases, 2 * plan.releases),
        Renewal.EVERY_WINDOW: (2, 3 * plan.releases),
    }[plan.renewal]
    assert weights[0] * plan.epsilon_rho + weights[1] * plan.epsilon_nu == plan.decision
    assert (plan.renewal is Renewal.AFTER_POSITIVE) == (w is not None and plan.releases <= 5)


@pytest.mark.parametrize(("w", "releases"), [(None, 10), (100, 4), (100, 12)], ids=str)
def test_the_split_between_the_two_noises_is_the_best(w: int | None, releases: int) -> None:
    """Any other split of the same decision budget has a larger variance."""
    plan = make_plan(Guarantee(1, w=w), w or 300, releases, None, 100)
    rho, nu = float(plan.epsilon_rho), float(plan.epsilon_nu)
    weight_rho, weight_nu = {None: (1, 18), 4: (4, 8), 12: (2, 36)}[None if w is None else releases]
    best = 1 / rho**2 + 1 / nu**2
    for factor in (0.9, 1.1):
        other = nu * factor
        left = (float(plan.decision) - weight_nu * other) / weight_rho
        assert best < 1 / left**2 + 1 / other**2


@pytest.mark.parametrize("value", [1, 2, 7, 8, 27, 10**6, 10**18 + 1])
def test_cube_roots_are_rounded_down(value: int) -> None:
    root = root_down(value)
    assert root**3 <= value < (root + Fraction(1, 1 << 20)) ** 3


def by_hand(
    stream: NDArray[np.int64], plan: Plan, w: int | None, above: float, seed: int
) -> tuple[list[list[int]], list[int]]:
    """The algorithm in plain Python, on the same random words."""
    noise = ExactSampler(SeededSource(seed))
    grid = 256
    floor = (
        BINS * vs.simulate(vs.STREAMS["sample"](), Guarantee(plan.share, w=None), stream[:1], 0).noise_std[0] / 2**0.5
    )
    outputs: list[list[int]] = []
    fresh: list[int] = []
    rho: int | None = None
    block = 0
    last: list[int] = []

    def release(t: int) -> list[int]:
        fresh.append(t)
        return [int(c) + int(n) for c, n in zip(stream[t], noise.laplace(1 / plan.share, (BINS,)), strict=True)]

    for t, counts in enumerate(stream):
        recent = [f for f in fresh if w is None or f > t - w]
        if t == 0:
            last = release(t)
        elif len(recent) < plan.releases:
            if w is not None and plan.renewal is Renewal.EVERY_WINDOW and block != t // w:
                rho = None
            if rho is None:
                rho = int(noise.laplace(grid / plan.epsilon_rho, (1,))[0])
                block = t // w if w is not None else 0
            distance = sum(abs(int(c) - x) for c, x in zip(counts, last, strict=True))
            nu = int(noise.laplace(grid / plan.epsilon_nu, (1,))[0])
            if distance * grid + nu >= round((floor + above) * grid) + rho:
                if plan.renewal is Renewal.AFTER_POSITIVE:
                    rho = None
                last = release(t)
        outputs.append(last)
    return outputs, fresh


@pytest.mark.parametrize(("w", "releases"), [(12, 3), (12, 7), (25, 1), (None, 5)], ids=str)
def test_it_is_the_algorithm_written_by_hand(w: int | None, releases: int) -> None:
    """At user level without the last step, which spends what remains."""
    guarantee = Guarantee(2, w=w)
    rng = np.random.default_rng(3)  # noqa: TID251 (data)
    stream = np.cumsum(rng.integers(0, 40, (60, BINS)), axis=0)
    mechanism = DSFT(threshold=150, releases=releases, horizon=61)
    plan = mechanism.rule().plan(guarantee, BINS)
    outputs, fresh = by_hand(stream, plan, w, 150, seed=11)
    run = walk(mechanism, guarantee, stream, seed=11)
    assert run.fresh == fresh
    assert len(fresh) > 1
    assert [values.numbers.tolist() for values in run.values] == outputs


def test_the_last_step_of_a_horizon_spends_what_remains() -> None:
    guarantee = Guarantee(1, w=None)
    run = walk(DSFT(releases=4, horizon=30), guarantee, hard_streams(30)["constant"])
    assert run.fresh == [0, 29]
    plan = DSFT(releases=4, horizon=30).rule().plan(guarantee, BINS)
    assert [c.epsilon for c in run.charges[-1]] == [guarantee.pure - plan.share - plan.epsilon_rho]
    assert run.fullest(None) == 1
    with pytest.raises(BudgetExceededError, match="step 31 of a stream planned for 30"):
        walk(DSFT(releases=4, horizon=30), guarantee, hard_streams(31)["constant"])


def test_nothing_is_left_for_the_last_step_if_all_releases_were_made() -> None:
    run = walk(DSFT(releases=3, horizon=20), Guarantee(1, w=None), hard_streams(20)["alternating"])
    assert run.fresh == [0, 1, 2]
    assert run.charges[-1] == []


@pytest.mark.parametrize("releases", [1, 5])
def test_a_horizon_of_one_step_gets_everything(releases: int) -> None:
    run = walk(DSFT(releases=releases, horizon=1), Guarantee("1/2", w=None), hard_streams(1)["constant"])
    assert [[c.epsilon for c in step] for step in run.charges] == [[Fraction(1, 2)]]


def test_one_release_at_user_level_needs_no_decision() -> None:
    run = walk(DSFT(releases=1, horizon=20), Guarantee(1, w=None), hard_streams(20)["alternating"])
    assert [[c.epsilon for c in step] for step in run.charges] == [[Fraction(1)], *[[]] * 19]


def test_nothing_is_asked_during_the_burn_in() -> None:
    run = walk(DSFT(releases=4, burn_in=6), Guarantee(1, w=10), hard_streams(12)["alternating"])
    assert run.charges[1:6] == [[]] * 5
    assert [t for t in run.fresh if t < 8] == [0, 7]


def test_negative_answers_are_free_for_ever() -> None:
    """False alarm: the threshold is 10⁶ counts above noise of a few hundred."""
    run = walk(DSFT(threshold=10**6, releases=3), Guarantee(1, w=50), hard_streams(200)["constant"])
    assert run.fresh == [0]
    assert len(run.states[-1].releases) == 0
    plan = DSFT(threshold=10**6, releases=3).rule().plan(Guarantee(1, w=50), BINS)
    assert run.fullest(50) == plan.share + plan.epsilon_rho


def test_memory_does_not_grow() -> None:
    run = walk(DSFT(releases=3), Guarantee(1, w=9), hard_streams(400)["bursts"])
    sizes = [len(encode(state).header) for state in run.states]
    assert max(sizes[100:]) <= max(sizes[:100]) + 20


def test_the_default_threshold_is_quiet_when_nothing_changes_and_loud_when_much_does() -> None:
    """At most a few false alarms of 200 decisions: a margin of 4 deviations of the joint noise."""
    counts = np.full((200, 400), 500)
    assert vs.simulate(DSFT(releases=5), Guarantee(1, w=100), counts, seed=2).fresh.sum() <= 4
    counts[100:, :40] += 1_000
    assert vs.simulate(DSFT(releases=5), Guarantee(1, w=100), counts, seed=2).fresh[100]


def test_any_histogram_and_gaussian_noise_plug_in() -> None:
    guarantee = Guarantee(1, w=None, delta="1e-6", pure_share="1/4")
    stream = hard_streams(20)["growing"]
    run = walk(DSFT(releases=4, horizon=20, histogram=Gaussian()), guarantee, stream)
    squared = sum(c.mu_squared for step in run.charges for c in step)
    assert run.fresh == [0, 1, 2, 3]
    assert 0 < squared <= guarantee.mu_squared
    check_stream(DSFT(releases=2, horizon=12, histogram=Gaussian()))


def test_a_stream_resumes_in_the_middle_of_a_block(tmp_path: Path) -> None:
    """The secret of an open block and its charge come back from the ledger; the window stays within its budget."""
    options: dict[str, Any] = {
        "bins": BINS,
        "guarantee": Guarantee(1, w=8),
        "mechanism": DSFT(threshold=1000, releases=6),
        "ledger": tmp_path / "budget.db",
    }
    stream = hard_streams(40)["bursts"]
    charges = []
    for t, counts in enumerate(stream):
        with vs.Publisher(**options) as publisher:
            release = publisher.feed(counts, t=t)
            assert release.t == t
            charges = [row.charge for row in publisher.ledger.charges("default")]
    from veilstream.privacy.windows import fullest_window

    assert fullest_window(charges, 8, BINS)[0] <= 1
    assert len({charge.block for charge in charges if charge.block is not None}) == 5


@pytest.mark.parametrize(
    "bad",
    [
        {"releases": 0},
        {"releases": 1.5},
        {"horizon": -2},
        {"burn_in": -1},
        {"burn_in": 0.5},
        {"decision_share": Fraction(1)},
        {"decision_share": 0.1},
        {"margin": float("nan")},
        {"margin": "wide"},
        {"threshold": -1.0},
        {"spacing": 1.5},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=f"{next(iter(bad))}.*DSFT"):
        DSFT(**bad)


def test_user_level_needs_a_horizon() -> None:
    with pytest.raises(InvalidInputError, match="horizon of 'DSFT': missing"):
        DSFT().start(Guarantee(1, w=None), 4)


@pytest.mark.parametrize("mechanism", [DSFT(releases=3, horizon=12), DSFT(releases=7, horizon=40)], ids=str)
def test_it_conforms_at_user_level_too(mechanism: DSFT) -> None:
    check_stream(mechanism)
