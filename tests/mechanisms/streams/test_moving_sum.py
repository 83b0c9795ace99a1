"""Moving sums: right on average, as exact as they say, within every guarantee, and the same after a restart."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import veilstream as vs
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.streams import MovingSum
from veilstream.testing.checks import check_stream

EVENT = vs.Guarantee(1, w=1, delta="1e-6")
CASES = {
    "rows": (MovingSum(window=12), EVENT),
    "rows of a window": (MovingSum(window=7, detail=4), vs.Guarantee(1, w=5, delta="1e-6")),
    "rows of people in few steps": (MovingSum(window=5), vs.Guarantee(1, w=None, delta="1e-6", presence=3)),
    "noisy counts": (MovingSum(window=12), vs.Guarantee(1, w=3)),
}
RUNS = 2_000


def moving(counts: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    running = np.cumsum(counts, axis=0)
    running[window:] -= running[:-window].copy()
    return running


@pytest.mark.parametrize("mechanism", [MovingSum(window=3), MovingSum(window=2, detail=2)], ids=str)
def test_moving_sums_obey_every_rule(mechanism: MovingSum) -> None:
    check_stream(mechanism)


@pytest.mark.parametrize("case", CASES)
def test_sums_are_unbiased_with_the_noise_that_they_declare(case: str) -> None:
    mechanism, guarantee = CASES[case]
    counts = np.arange(60)[:, None] % 7
    found = vs.simulate_many(mechanism, guarantee, counts, seed=3, runs=RUNS)
    noise = np.asarray(found)[:, :, 0] - moving(counts, mechanism.window)[:, 0]
    declared = np.ravel(np.asarray(found.noise_std))
    # Six standard deviations of a mean, and of a variance for laws of a kurtosis up to 6.
    assert (np.abs(noise.mean(axis=0)) < 6 * declared / math.sqrt(RUNS)).all()
    ratio = noise.var(axis=0) / declared**2
    assert (np.abs(ratio - 1) < 6 * math.sqrt(5 / RUNS)).all()


def test_long_windows_have_little_noise() -> None:
    """Against sums of noisy counts, whose noise has 64 times the variance of one: less than a seventh of it here."""
    quiet = np.zeros((200, 40), dtype=np.int64)
    found = np.asarray(vs.simulate(MovingSum(window=64), EVENT, quiet, seed=4))[100:]
    sigma = 1 / math.sqrt(float(EVENT.with_pure_share("1/1048576").mu_squared))
    # Expected 0.13 of it; 40 independent bins leave a chance below 1e-6 of reaching 0.3.
    assert float((found**2).mean()) < 0.3 * 64 * sigma**2


def test_a_stream_goes_on_after_a_restart_and_a_skipped_step(tmp_path: Path) -> None:
    guarantee = vs.Guarantee(2_000, w=1, delta="1e-6")
    counts = np.arange(1, 9)
    with vs.Publisher(1, guarantee, MovingSum(window=3), tmp_path / "ledger.db") as publisher:
        first = [publisher.feed(np.array([count])).values[0] for count in counts[:4]]
    with vs.Publisher(1, guarantee, MovingSum(window=3), tmp_path / "ledger.db") as publisher:
        publisher.skip()
        rest = [publisher.feed(np.array([count]), t).values[0] for t, count in enumerate(counts[5:], start=5)]
    # What was skipped has added nothing; noise far below a half.
    assert np.rint(first).tolist() == [1, 3, 6, 9]
    assert np.rint(rest).tolist() == [4 + 0 + 6, 0 + 6 + 7, 6 + 7 + 8]


@pytest.mark.parametrize(
    ("guarantee", "name"), [(vs.Guarantee(1, w=None), "window"), (vs.Guarantee(1, w=None, delta="1e-6"), "window")]
)
def test_everybody_in_all_steps_is_refused(guarantee: vs.Guarantee, name: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        MovingSum().start(guarantee, 1)
    assert refused.value.name == name


@pytest.mark.parametrize("window", [0, 1.5, 1 << 20])
def test_windows_that_make_no_sense_are_refused(window: int) -> None:
    with pytest.raises(InvalidInputError):
        MovingSum(window=window)
