"""Running totals: right on average, as exact as they say, within every guarantee, and the same after a restart."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.mechanisms.identity import rebuilt, recognises
from veilstream.mechanisms.session import StreamSession
from veilstream.mechanisms.streams import RunningTotal
from veilstream.mechanisms.streams.running.rows import RowsState, row_spread
from veilstream.mechanisms.streams.running.weights import Weights
from veilstream.noise import SecureNoise
from veilstream.privacy.kernels import Kernel
from veilstream.storage.ledger import Ledger
from veilstream.testing.checks import check_stream
from veilstream.trusted.counts import seal

EVENT = vs.Guarantee(1, w=1, delta="1e-6")
PURE = vs.Guarantee(1, w=1)
GROUPS = Weights.GROUPS
CASES = {
    "buffers": (RunningTotal(horizon=200), EVENT),
    "endless buffers": (RunningTotal(), EVENT),
    "decaying buffers": (RunningTotal(horizon=160, decay="19/20"), EVENT),
    "buffers of a window": (RunningTotal(horizon=200), vs.Guarantee(1, w=5, delta="1e-6")),
    "buffers of people in few steps": (RunningTotal(), vs.Guarantee(1, w=None, delta="1e-6", presence=3)),
    "groups": (RunningTotal(horizon=200, weights=GROUPS), EVENT),
    "endless groups": (RunningTotal(weights=GROUPS), EVENT),
    "tree": (RunningTotal(horizon=200), PURE),
    "doubling trees": (RunningTotal(), PURE),
    "tree of a window": (RunningTotal(horizon=200), vs.Guarantee(1, w=5)),
}
RUNS = 1_000


@pytest.mark.parametrize(
    "mechanism",
    [
        RunningTotal(),
        RunningTotal(horizon=12, nondecreasing=True),
        RunningTotal(decay="3/4"),
        RunningTotal(decay="3/4", weights=GROUPS),
    ],
    ids=str,
)
def test_running_totals_obey_every_rule(mechanism: RunningTotal) -> None:
    check_stream(mechanism)


@pytest.mark.parametrize("case", CASES)
def test_totals_are_unbiased_with_the_noise_that_they_declare(case: str) -> None:
    mechanism, guarantee = CASES[case]
    counts = np.arange(150)[:, None] % 7
    found = vs.simulate_many(mechanism, guarantee, counts, seed=3, runs=RUNS)
    beta = 1.0 if mechanism.decay is None else float(Fraction(mechanism.decay))
    totals = list(accumulate(counts[:, 0].tolist(), lambda total, count: beta * total + count))
    noise = np.asarray(found)[:, :, 0] - np.array(totals)
    declared = np.ravel(np.asarray(found.noise_std))
    # Six standard deviations of a mean, and of a variance for laws of a kurtosis up to 6.
    assert (np.abs(noise.mean(axis=0)) < 6 * declared / math.sqrt(RUNS)).all()
    ratio = noise.var(axis=0) / declared**2
    assert (np.abs(ratio - 1) < 6 * math.sqrt(5 / RUNS)).all()


@pytest.mark.parametrize(("weights", "least", "most"), [(Weights.BUFFERS, 0.95, 0.98), (GROUPS, 0.99, 1.05)])
def test_the_error_is_that_of_the_square_root_factorisation(weights: Weights, least: float, most: float) -> None:
    """Against σ·‖C‖·‖B‖ of the dense factorisation, computed here from its formula; a horizon makes it smaller."""
    steps, mechanism = 1000, RunningTotal(horizon=1000, weights=weights)
    found = vs.simulate_many(mechanism, EVENT, np.zeros((steps, 1), dtype=np.int64), seed=5, runs=400)
    squares = np.cumsum(np.cumprod(np.concatenate([[1.0], 1 - 1 / (2 * np.arange(1, steps))])) ** 2)
    mu = math.sqrt(float(EVENT.with_pure_share("1/1048576").mu_squared))
    formula = math.sqrt(squares[-1]) * math.sqrt(squares.mean()) / mu
    error = float(np.sqrt((np.asarray(found) ** 2).mean()))
    # The noise of one run is strongly correlated: its mean square has about steps/100 degrees of freedom, here 4000.
    assert error < formula * most * (1 + 6 / math.sqrt(2 * 4000))
    assert error > formula * least * (1 - 6 / math.sqrt(2 * 4000))


def test_decayed_totals_forget() -> None:
    counts = np.concatenate([np.full(40, 100), np.zeros(60)])[:, None].astype(np.int64)
    found = vs.simulate(RunningTotal(decay="4/5"), vs.Guarantee(50, w=1, delta="1e-6"), counts, seed=1)
    truth = np.zeros(100)
    for t in range(100):
        truth[t] = counts[t, 0] + (0.8 * truth[t - 1] if t else 0)
    # Noise below 1: off by 8 with a probability below 1e-12.
    assert np.abs(found[:, 0] - truth).max() < 8


def test_totals_that_may_not_fall_do_not() -> None:
    quiet = np.zeros((200, 3), dtype=np.int64)
    found = np.asarray(vs.simulate(RunningTotal(nondecreasing=True), EVENT, quiet, seed=2))
    assert (np.diff(found, axis=0) >= 0).all()
    assert (found >= 0).all()


@pytest.mark.parametrize("guarantee", [EVENT, PURE], ids=["rows", "trees"])
def test_a_stream_goes_on_after_a_restart_and_its_ledger_verifies(tmp_path: Path, guarantee: vs.Guarantee) -> None:
    path = tmp_path / "totals.db"
    with vs.Publisher(2, guarantee, RunningTotal(), path) as publisher:
        before = [publisher.feed(np.array([1000, 2000])) for _ in range(40)][-1]
        publisher.skip()
    with vs.Publisher(2, guarantee, RunningTotal(), path) as publisher:
        after = [publisher.feed(np.array([1000, 2000])) for _ in range(39)][-1]
    assert (before.t, after.t) == (39, 79)
    # One step was skipped: its counts are in no total. Six standard deviations and more.
    for release, steps in ((before, 40), (after, 79)):
        assert np.abs(release.values - steps * np.array([1000, 2000])).max() < 8 * float(np.max(release.std))
    with Ledger.open(str(path)) as ledger:
        assert len(list(ledger.releases("default"))) == 80


def test_a_horizon_ends_and_parameters_are_checked() -> None:
    with vs.Publisher(1, EVENT, RunningTotal(horizon=3)) as publisher:
        for _ in range(3):
            publisher.feed(np.array([5]))
        with pytest.raises(BudgetExceededError):
            publisher.feed(np.array([5]))
    wrong: list[dict[str, Any]] = [{"horizon": 0}, {"decay": 1}, {"decay": "3/2"}, {"detail": 0}, {"weights": "sums"}]
    for parameters in wrong:
        with pytest.raises(InvalidInputError):
            RunningTotal(**parameters)
    for mechanism, guarantee in (
        (RunningTotal(), vs.Guarantee(1, w=None, delta="1e-6")),
        (RunningTotal(decay="1/2"), PURE),
        (RunningTotal(), vs.Guarantee(1, w=None, presence=2)),
    ):
        with pytest.raises(InvalidInputError):
            mechanism.start(guarantee, 1)


def test_streams_of_the_first_version_go_on_in_groups() -> None:
    """By their state: what they were described by is the present default."""
    recorded = '{"name": "running-total", "set": {"horizon": 9}, "version": 1}'
    assert rebuilt(recorded) == RunningTotal(horizon=9)
    assert rebuilt('{"name": "moving-sum", "set": {}, "version": 1}') == vs.MovingSum()
    assert not recognises(recorded, RunningTotal(horizon=9, weights=GROUPS))
    session = StreamSession(RunningTotal(), EVENT, 1, SecureNoise())
    session.state = RunningTotal(weights=GROUPS).start(EVENT, 1)
    session.step(seal(np.array([3]), 0), 0)
    assert isinstance(session.state, RowsState)


def test_spreads_are_those_of_the_inverse() -> None:
    """Against the factorisation multiplied out, groups and all."""
    rows = 300
    for kernel in (Kernel(), Kernel(endless=True), Kernel(detail=2)):
        dense = np.zeros((rows, rows))
        for row in range(rows):
            firsts, weights = kernel.pieces(row)
            dense[row, : row + 1] = np.repeat(weights, np.diff(firsts, append=row + 1)) / 2**16
        exact = np.linalg.norm(np.tril(np.ones((rows, rows))) @ np.linalg.inv(dense), axis=1)
        declared = np.array([row_spread(kernel, row) for row in range(rows)])
        assert (declared > exact * 0.999).all()
        assert (declared < exact * 1.12).all()
