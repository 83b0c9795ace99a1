"""The Meter charges before it draws, scales noise to derived sensitivities, and comparisons cost what they say."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_ndtr
from scipy.stats import chi2

from veilstream.audit.exact.dice import Dice
from veilstream.errors import BudgetExceededError, ChargeError, InvalidBudgetError, InvalidInputError
from veilstream.noise import ExactSampler
from veilstream.noise.spread import laplace_std
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee, gaussian_budget, gaussian_delta
from veilstream.privacy.rationals import GRID
from veilstream.testing.batch import BatchMeter
from veilstream.testing.fakes import NoNoise
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.trusted.opening import opened
from veilstream.trusted.statistics import JointScores, Scores, quantile_scores
from veilstream.trusted.threshold import SealedThreshold


def meter_at(t: int, guarantee: Guarantee, bins: int = 3) -> tuple[Meter, NoNoise]:
    noise = NoNoise()
    return Meter(Accountant(guarantee, bins), noise, t), noise


@pytest.mark.parametrize(("w", "times"), [(1, 1), (2, 2), (3, 3), (50, 3), (None, 3)])
def test_noise_is_scaled_to_what_one_unit_can_move_within_the_guarantee(w: int | None, times: int) -> None:
    meter, noise = meter_at(2, Guarantee(1, w=w))
    three_steps = (
        seal(np.array([1, 2]), 0, max_contribution=2)
        + seal(np.array([1, 2]), 1, max_contribution=2)
        + seal(np.array([1, 2]), 2, max_contribution=2)
    )
    values = meter.laplace(three_steps, Fraction(1, 4), "publish")
    assert noise.asked == [("laplace", Fraction(2 * times * 4))]
    assert values.numbers.tolist() == [3, 6]
    assert meter.charges == [Charge(Fraction(1, 4), Span(0, 2), "publish")]


def test_real_valued_queries_are_noised_on_their_grid() -> None:
    meter, noise = meter_at(0, Guarantee(1, w=1), bins=4)
    spectrum = seal(np.array([4, 4, 4, 4]), 0).fourier()
    values = meter.laplace(spectrum.select([0, 1]), Fraction(1), "spectrum")
    assert values.numbers.tolist() == [8.0, 0.0]
    (kind, scale), *_ = noise.asked
    assert kind == "laplace"
    assert math.sqrt(2) <= scale / 2**20 <= math.sqrt(2) * 1.01


def test_nothing_is_drawn_when_the_charge_is_refused() -> None:
    meter, noise = meter_at(0, Guarantee("1/2", w=3))
    with pytest.raises(
        BudgetExceededError, match=r"charge 2/3 for 'publish' at t=0: window of 3 would cost 2/3, budget is 1/2"
    ):
        meter.laplace(seal(np.array([1]), 0), Fraction(2, 3), "publish")
    assert noise.asked == []
    assert meter.charges == []


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1)])
def test_a_charge_is_positive(epsilon: Fraction) -> None:
    meter, _ = meter_at(0, Guarantee(1, w=1))
    with pytest.raises(InvalidBudgetError, match="above 0"):
        meter.laplace(seal(np.array([1]), 0), epsilon, "publish")


def test_an_epsilon_too_small_for_exact_noise_is_refused_before_it_is_charged() -> None:
    meter, _ = meter_at(0, Guarantee(1, w=1))
    with pytest.raises(InvalidBudgetError, match="scale 1e\\+13 is above"):
        meter.laplace(seal(np.array([1]), 0), Fraction(1, 10**13), "publish")
    assert meter.left == 1


def test_data_from_the_future_are_refused() -> None:
    meter, _ = meter_at(0, Guarantee(1, w=1))
    with pytest.raises(InvalidInputError, match="not past yet"):
        meter.laplace(seal(np.array([1]), 1), Fraction(1, 2), "publish")


def test_at_event_level_disjoint_bins_are_charged_in_parallel() -> None:
    meter, _ = meter_at(0, Guarantee(1, w=1), bins=4)
    x = seal(np.array([1, 2, 3, 4]), 0)
    meter.laplace(x.select([0, 1]), Fraction(1), "left")
    meter.laplace(x.select([2, 3]), Fraction(1), "right")
    with pytest.raises(BudgetExceededError):
        meter.laplace(x.select([3]), Fraction(1, 100), "again")
    wide, _ = meter_at(0, Guarantee(1, w=2), bins=4)
    wide.laplace(x.select([0, 1]), Fraction(1), "left")
    with pytest.raises(BudgetExceededError):
        wide.laplace(x.select([2, 3]), Fraction(1), "right")


# --- Gaussian -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["0.05", "0.5", "1", "4"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-9"])
def test_gaussian_budget_agrees_with_an_independent_accountant(epsilon: str, delta: str) -> None:
    import dp_accounting
    from dp_accounting import pld

    guarantee = Guarantee(epsilon, w=3, delta=delta, pure_share="1/4")
    mu = math.sqrt(guarantee.mu_squared)
    rest = float(guarantee.epsilon - guarantee.pure)
    accountant = pld.PLDAccountant(value_discretization_interval=1e-4 * rest)
    accountant.compose(dp_accounting.GaussianDpEvent(1 / mu))
    # The PLD accountant rounds up: its delta may exceed ours by its own resolution, never fall far below.
    assert accountant.get_delta(rest) == pytest.approx(float(delta), rel=5e-3)
    assert gaussian_delta(rest, mu) <= float(delta)


def test_the_gaussian_budget_is_never_more_than_delta_affords() -> None:
    """In sixty digits and more, from the smallest epsilon that leaves any budget to the largest."""
    import mpmath

    def exact(number: Fraction) -> Any:
        return mpmath.mpf(number.numerator) / number.denominator

    def uniform(low: float, high: float) -> float:
        return low + (high - low) * dice.below(1 << 30) / (1 << 30)

    dice = Dice(3)
    with mpmath.workdps(130):
        for _ in range(600):
            epsilon = Fraction(10 ** uniform(-9, 3)) + Fraction(dice.choice([0, 1]), GRID)
            delta = Fraction(10 ** dice.choice([uniform(-99, 0), uniform(-9, -0.005)]))
            usable, squared = (
                exact(epsilon - Fraction(1, GRID)),
                gaussian_budget(epsilon, min(delta, Fraction(99, 100))),
            )
            if usable <= 0:
                assert squared == 0
                continue
            mu = mpmath.sqrt(exact(squared))
            lost = mpmath.ncdf(mu / 2 - usable / mu) - mpmath.exp(usable) * mpmath.ncdf(-mu / 2 - usable / mu)
            assert 0.99999 < lost / min(exact(delta), mpmath.mpf(99) / 100) < 1


def test_per_timestamp_every_timestamp_is_paid_for_by_itself() -> None:
    """A sum over three steps then has the noise of one, at a share of the budget, and no charge is rewritten."""
    accountant, noise = Accountant(Guarantee(1, w=4), bins=2, per_timestamp=True), NoNoise()
    steps = [seal(np.array([5, 5]), t) for t in range(3)]
    for t in range(3):
        meter = Meter(accountant, noise, t)
        assert (meter.guarantee.epsilon, meter.left) == (Fraction(1, 4), Fraction(1, 4))
        meter.laplace(steps[t], Fraction(1, 8), "watch")
        assert meter.charges[0].bins is None
        assert accountant.left == Fraction(1, 2)
    meter = Meter(accountant, noise, 2)
    meter.laplace((steps[0].with_starts() + steps[1] + steps[2]).select([0]), Fraction(1, 8), "group")
    assert noise.asked == [("laplace", Fraction(8))] * 4
    with pytest.raises(BudgetExceededError, match="one timestamp"):
        meter.laplace(steps[1].select([0]), Fraction(1, 100), "again")
    smooth = Meter(Accountant(Guarantee(1, w=4, delta="1e-6"), bins=2, per_timestamp=True), noise, 2)
    with pytest.raises(ChargeError, match="is Gaussian"):
        smooth.gaussian(steps[0] + steps[1] + steps[2], Fraction(1, 10**6), "sum")


def test_gaussian_delta_is_the_analytic_formula() -> None:
    epsilon, mu = 0.7, 0.4
    expected = math.exp(log_ndtr(mu / 2 - epsilon / mu)) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    assert gaussian_delta(epsilon, mu) == pytest.approx(expected, rel=1e-12)


def test_gaussian_noise_is_wider_than_its_charge_says_by_the_rounding_only() -> None:
    guarantee = Guarantee(1, w=10, delta="1e-6")
    meter, noise = meter_at(0, guarantee)
    share = guarantee.mu_squared / 10
    values = meter.gaussian(seal(np.array([5, 6]), 0, max_contribution=3), share, "publish")
    (_, sigma), *_ = noise.asked
    needed = 3 / math.sqrt(share)
    assert sigma >= 2**10
    assert needed <= values.std <= needed * (1 + 1e-4)
    assert values.numbers.tolist() == [5.0, 6.0]
    for _ in range(9):
        meter.gaussian(seal(np.array([5, 6]), 0), share, "publish")
    with pytest.raises(BudgetExceededError, match="Gaussian budget"):
        meter.gaussian(seal(np.array([5, 6]), 0), share, "publish")


def test_discrete_gaussian_on_the_fine_grid_loses_no_more_than_the_continuous_one() -> None:
    """Exact sums over the grid: delta of the discrete law at several epsilons against the analytic formula."""
    h, mu = 2.0**-10, 0.5
    sigma = math.sqrt(1 / mu**2 + 3 * (h / mu) ** 2)
    step = h / mu
    x = np.arange(-12_000, 12_001) * step
    log_p = -(x**2) / (2 * sigma**2)
    log_norm = np.log(np.exp(log_p).sum())
    shifted = -((x - round(1 / step) * step) ** 2) / (2 * sigma**2)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        loss = np.exp(log_p - log_norm) - np.exp(epsilon + shifted - log_norm)
        assert loss[loss > 0].sum() <= gaussian_delta(epsilon, mu) * (1 + 1e-9)


# --- Exponential mechanism ----------------------------------------------------------------------------------


def test_questions_about_disjoint_bins_are_answered_for_one_charge() -> None:
    meter, noise = meter_at(0, Guarantee(1, w=5))
    scores = JointScores(np.array([0, 7, 3, 5, -1]), Span(0, 0), Fraction(2), np.array([3, 2]))
    assert meter.select_each(scores, Fraction(1, 3), "splits").tolist() == [1, 0]
    assert noise.asked == [("select", Fraction(1, 3) / 4)] * 2
    assert meter.charges == [Charge(Fraction(1, 3), Span(0, 0), "splits")]
    with pytest.raises(InvalidInputError, match="at least 1"):
        JointScores(np.array([1, 2]), Span(0, 0), Fraction(1), np.array([2, 0]))
    with pytest.raises(InvalidInputError, match="at least 1"):
        JointScores(np.zeros(0, dtype=np.int64), Span(0, 0), Fraction(1), np.zeros(0, dtype=np.int64))


def test_choices_of_many_simulated_runs_need_a_source_that_makes_many() -> None:
    many = BatchMeter(Accountant(Guarantee(1, w=1), 3), NoNoise(), 0, batch=(4,))
    with pytest.raises(InvalidInputError, match="run by run"):
        many.select(quantile_scores(seal(np.array([1, 1, 10]), 0)), Fraction(1, 3), "median")


class Seen(BatchMeter):
    """Keeps what each of many runs chose, and goes on with the first."""

    def branch(self, decision: NDArray[Any]) -> NDArray[Any]:
        self.decisions = decision
        return np.asarray(decision[0])


@pytest.mark.parametrize("lengths", [None, np.array([3, 1, 2, 1, 5])], ids=["one each", "runs of equals"])
def test_every_simulated_run_chooses_by_the_same_law_for_one_charge(lengths: NDArray[np.int64] | None) -> None:
    """Chi-square on 40,000 runs of two questions; false alarm 1e-7 each."""
    runs, exact = 40_000, np.array([0, 7, 3, 5, -1])
    weight = np.ones(5, dtype=np.int64) if lengths is None else lengths
    sizes = np.array([weight[:3].sum(), weight[3:].sum()])
    scores = JointScores(exact, Span(0, 0), Fraction(2), sizes, lengths=lengths)
    meter = Seen(Accountant(Guarantee(1, w=1), 3), ExactSampler(SeededSource(3)), 0, batch=(runs,))
    assert meter.select_each(scores, Fraction(1, 2), "splits").shape == (2,)
    assert meter.charges == [Charge(Fraction(1, 2), Span(0, 0), "splits")]
    listed = np.split(np.repeat(np.exp(exact / 8), weight), [sizes[0]])
    pairs = meter.decisions[:, 0] * sizes[1] + meter.decisions[:, 1]
    expected = np.outer(listed[0] / listed[0].sum(), listed[1] / listed[1].sum()).ravel() * runs
    statistic = ((np.bincount(pairs, minlength=expected.size) - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-7, expected.size - 1)


def test_every_simulated_run_selects_by_the_law_of_one() -> None:
    """Five candidates, 40,000 runs; false alarm 1e-7."""
    runs, exact = 40_000, np.array([4, 0, 9, 9, 2])
    meter = Seen(Accountant(Guarantee(1, w=1), 3), ExactSampler(SeededSource(4)), 0, batch=(runs,))
    meter.select(Scores(exact, Span(0, 0), Fraction(3)), Fraction(1), "choice")
    expected = np.exp(exact / 6) / np.exp(exact / 6).sum() * runs
    found = np.bincount(meter.decisions[:, 0], minlength=5)
    assert ((found - expected) ** 2 / expected).sum() < chi2.isf(1e-7, 4)
    assert meter.left == 0


def test_a_decision_is_that_of_all_runs_or_refused() -> None:
    alone, _ = meter_at(0, Guarantee(1, w=1))
    assert bool(alone.branch(np.asarray(True)))
    many = BatchMeter(Accountant(Guarantee(1, w=1), 3), NoNoise(), 0, batch=(4,))
    assert int(many.branch(np.full(4, 7))) == 7
    assert many.branch(np.tile([True, False], (4, 1))).tolist() == [True, False]
    with pytest.raises(InvalidInputError, match="decisions of 4"):
        many.branch(np.array([1, 1, 2, 1]))
    with pytest.raises(InvalidInputError, match="truth values or whole numbers"):
        many.branch(np.zeros(4))  # type: ignore[type-var]


def test_select_uses_twice_the_sensitivity_and_prefers_the_best() -> None:
    meter, noise = meter_at(0, Guarantee(1, w=1), bins=5)
    best = meter.select(quantile_scores(seal(np.array([1, 1, 10, 1, 1]), 0)), Fraction(1, 3), "median")
    assert noise.asked == [("select", Fraction(1, 6))]
    assert best in (1, 2)
    assert meter.charges[0].epsilon == Fraction(1, 3)


def test_select_has_the_law_of_the_exponential_mechanism() -> None:
    """Chi-square with 4 degrees of freedom on 20,000 draws; false alarm below 1e-7 at 40."""
    counts, epsilon, draws = np.array([3, 0, 1, 0, 2]), Fraction(1, 2), 20_000
    noise = ExactSampler(SeededSource(5))
    seen = np.zeros(5)
    for _ in range(draws):
        meter = Meter(Accountant(Guarantee(1, w=1), 5), noise, 0)
        seen[meter.select(quantile_scores(seal(counts, 0)), epsilon, "median")] += 1
    below = np.cumsum(counts)
    weights = np.exp(-float(epsilon) / 2 * np.abs(2 * below - below[-1]))
    expected = draws * weights / weights.sum()
    assert ((seen - expected) ** 2 / expected).sum() < 40


# --- Sparse vector ------------------------------------------------------------------------------------------


def compare_all(
    guarantee: Guarantee,
    answers: list[bool],
    *,
    rho: Fraction,
    nu: Fraction,
    fresh: int | None,
    most: int = 10**9,
) -> Meter:
    """Compare once a step; open a new block every ``fresh`` steps, or after each positive if None.

    No comparison is made while ``most`` positives lie in the last w - 1 steps.
    """
    positives: list[int] = []
    accountant = Accountant(guarantee, 1)
    threshold: SealedThreshold | None = None
    meter: Meter | None = None
    for t, positive in enumerate(answers):
        meter = Meter(accountant, NoNoise(), t)
        if guarantee.w is not None and sum(p > t - guarantee.w for p in positives) >= most:
            continue
        if threshold is not None and fresh is not None and t - threshold.opened >= fresh:
            meter.close(threshold)
            threshold = None
        if threshold is None:
            threshold = meter.open_threshold(rho, nu, Fraction(1), "decide")
        assert meter.above(threshold, seal(np.array([10 if positive else 0]), t).total(), level=5.0) == positive
        if positive:
            positives.append(t)
        if positive and fresh is None:
            meter.close(threshold)
            threshold = None
    assert meter is not None
    return meter


def test_user_level_costs_rho_plus_twice_nu_per_positive_and_negatives_are_free() -> None:
    rho, nu, c = Fraction(1, 5), Fraction(1, 50), 3
    guarantee = Guarantee(rho + 2 * c * nu, w=None)
    answers = [False] * 40 + [True, False, True] + [False] * 40 + [True]
    meter = compare_all(guarantee, answers, rho=rho, nu=nu, fresh=1_000)
    assert meter.left == 0
    with pytest.raises(BudgetExceededError):
        compare_all(guarantee, [*answers, False], rho=rho, nu=nu, fresh=1_000)


def test_a_fresh_block_after_each_positive_costs_rho_plus_twice_nu_per_release_in_a_window() -> None:
    w, rho, nu = 10, Fraction(1, 6), Fraction(1, 6)
    for pattern in ([t % 5 == 4 for t in range(60)], [True] * 60, [t % 3 == 0 for t in range(60)]):
        for most in (1, 2, 3):
            guarantee = Guarantee(most * (rho + 2 * nu), w=w)
            compare_all(guarantee, pattern, rho=rho, nu=nu, fresh=None, most=most)
            with pytest.raises(BudgetExceededError):
                compare_all(guarantee, [True] * 60, rho=rho, nu=nu, fresh=None, most=most + 1)


def test_a_fresh_block_every_w_steps_costs_two_rho_and_three_c_nu() -> None:
    w, c = 8, 2
    rho, nu = Fraction(1, 10), Fraction(1, 20)
    guarantee, less = (Guarantee(2 * rho + 3 * c * nu - spared, w=w) for spared in (0, Fraction(1, 1000)))
    for answers in ([t % 4 == 0 for t in range(64)], [True] * 64, [t % 8 < c for t in range(64)]):
        compare_all(guarantee, answers, rho=rho, nu=nu, fresh=w, most=c)
    with pytest.raises(BudgetExceededError):
        compare_all(less, answers, rho=rho, nu=nu, fresh=w, most=c)


def test_earlier_positives_of_an_open_block_are_charged_to_windows_that_begin_after_them() -> None:
    """A unit that comes later can move the secret, and then every positive of the block makes good for it."""
    rho, nu = Fraction(1, 4), Fraction(1, 8)
    accountant = Accountant(Guarantee(1, w=1), 1)
    for t, count in enumerate([10, 10, 0]):
        meter = Meter(accountant, NoNoise(), t)
        if t == 0:
            threshold = meter.open_threshold(rho, nu, Fraction(1), "decide")
        assert meter.above(threshold, seal(np.array([count]), t).total(), 5.0) == (count == 10)
    assert meter.left == 1 - rho - 2 * nu


@pytest.mark.parametrize("w", [1, 2])
def test_data_older_than_the_block_pay_for_its_secret(w: int) -> None:
    rho, nu = Fraction(1, 2), Fraction(1, 8)
    accountant = Accountant(Guarantee(1, w=w), 1)
    old = seal(np.array([3]), 0)
    Meter(accountant, NoNoise(), 0).laplace(old, Fraction(1, 2), "publish")
    for t in range(1, 4):
        meter = Meter(accountant, NoNoise(), t)
    threshold = meter.open_threshold(rho, nu, Fraction(1), "decide")
    with pytest.raises(BudgetExceededError):
        meter.above(threshold, old.total(), 5.0)
    assert not meter.above(threshold, seal(np.array([3]), 3).total(), 5.0)


def test_a_closed_block_is_not_compared_with() -> None:
    meter, _ = meter_at(0, Guarantee(1, w=4))
    threshold = meter.open_threshold(Fraction(1, 10), Fraction(1, 10), Fraction(1), "decide")
    assert meter.is_open(threshold)
    meter.close(threshold)
    assert not meter.is_open(threshold)
    with pytest.raises(InvalidInputError, match="was closed"):
        meter.above(threshold, seal(np.array([1]), 0).total(), 1.0)


def test_the_sparse_vector_loses_exactly_what_it_is_charged() -> None:
    """By exact sums over ρ: the worst pattern n·negative, one positive loses ε_ρ + 2ε_ν in the limit, never more."""
    rho, nu = 0.8, 0.4
    x = np.arange(-400, 401)

    def law(scale: float) -> NDArray[np.float64]:
        q = math.exp(-1 / scale)
        return (1 - q) / (1 + q) * q ** np.abs(x)

    p_rho, p_nu = law(1 / rho), law(1 / nu)
    at_least = np.cumsum(p_nu[::-1])[::-1]

    def tail(level: NDArray[np.int64]) -> NDArray[np.float64]:
        return at_least[np.clip(level + 400, 0, 800)]

    def probability(negatives: int, below: int, positive: int) -> float:
        level = 3 + x
        return float((p_rho * (1 - tail(level - below)) ** negatives * tail(level - positive)).sum())

    losses = [math.log(probability(n, 0, 1) / probability(n, 1, 0)) for n in (1, 5, 50, 500)]
    assert max(losses) <= rho + 2 * nu + 1e-9
    assert losses[-1] >= 0.95 * (rho + 2 * nu)


def test_a_comparison_beyond_the_sensitivity_of_its_block_is_refused() -> None:
    meter, _ = meter_at(0, Guarantee(1, w=4))
    threshold = meter.open_threshold(Fraction(1, 10), Fraction(1, 10), Fraction(1), "decide")
    with pytest.raises(InvalidInputError, match="sensitivity 2"):
        meter.above(threshold, seal(np.array([1]), 0, max_contribution=2).total(), 1.0)
    with pytest.raises(InvalidInputError, match="2 values"):
        meter.above(threshold, seal(np.array([1, 1]), 0), 1.0)


def test_secrets_do_not_print() -> None:
    meter = Meter(Accountant(Guarantee(1, w=4), 1), ExactSampler(SeededSource(1)), 0)
    threshold = meter.open_threshold(Fraction(1, 10**6), Fraction(1, 10), Fraction(1), "decide")
    assert str(int(opened(threshold)[0])) not in repr(threshold)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 1000.0])
def test_declared_standard_deviation_is_that_of_the_law(scale: float) -> None:
    x = np.arange(1, int(60 * scale) + 60)
    q = math.exp(-1 / scale)
    variance = 2 * ((1 - q) / (1 + q) * q**x * x**2.0).sum()
    assert laplace_std(scale) == pytest.approx(math.sqrt(variance), rel=1e-9)


def test_a_release_leaves_the_sealed_values_and_earlier_releases_as_they_were() -> None:
    meter, _ = meter_at(0, Guarantee(1, w=1))
    x = seal(np.array([5, 7]), 0)
    first, second = (meter.laplace(x, Fraction(1, 4), "publish") for _ in range(2))
    assert first.numbers.tolist() == second.numbers.tolist() == [5, 7]
    assert not np.shares_memory(first.numbers, second.numbers)
