"""Running totals: their error against formulas, trees, the lower bound and other implementations."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Table, progress
from veilstream import Guarantee, MovingSum, RunningTotal, simulate_many
from veilstream.mechanisms.session import StreamSession
from veilstream.mechanisms.streams.running.buffered import BufferedState, covariance_after
from veilstream.mechanisms.streams.running.rows import RowsState, row_variances
from veilstream.mechanisms.streams.running.weights import Weights
from veilstream.noise import SecureNoise
from veilstream.privacy.buffers import SCALE_BITS
from veilstream.storage.codec import encode
from veilstream.trusted.counts import seal

Reals = NDArray[np.float64]

LENGTHS: Final = (1_000, 10_000, 100_000, 1_000_000)
MEASURED: Final = {1_000: 400, 10_000: 60}
"""Lengths at which totals are drawn, and how many independent bins have them."""
DENSE: Final = 256
"""The longest stream for which a dense strategy is optimised: the optimiser takes minutes beyond."""
BUFFERS: Final = 4
GUARANTEE: Final = Guarantee(1, w=1, delta="1e-6", pure_share="1/1048576")
PURE_LENGTH: Final = 1_000
BINS: Final = 10_000


def run(quick: bool = False) -> Sequence[Table]:
    """The tables of the suite."""
    return [_gaussian(quick), *([] if quick else [_strategies()]), _moving(quick), _pure(quick), _steps(quick)]


def _root(length: int) -> Reals:
    k = np.arange(1, length)
    return np.asarray(np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)])), dtype=np.float64)


def square_root_error(length: int) -> float:
    """‖C‖·‖B‖_F/√n of the dense square root: the root of the mean variance of n totals at μ = 1."""
    squares = np.cumsum(_root(length) ** 2)
    return math.sqrt(squares[-1] * squares.mean())


def lower_bound(length: int) -> float:
    """‖A‖_*/n: no factorisation has a smaller root of the mean variance (Henzinger, Upadhyay, Upadhyay, SODA 2023)."""
    k = np.arange(1, length + 1)
    return float((0.5 / np.sin((2 * k - 1) * np.pi / (4 * length + 2))).mean())


def tree_error(length: int, refined: bool) -> float:
    """The same of a binary tree of Gaussian noises, plain or with Honaker's refinement from below."""
    levels = length.bit_length()
    variances = [1.0]
    for _ in range(levels - 1):
        variances.append(1 / (1 + 1 / (2 * variances[-1])) if refined else 1.0)
    steps = np.arange(1, length + 1)
    total = sum(variance * float((steps >> level & 1).mean()) for level, variance in enumerate(variances))
    return math.sqrt(levels * total)


def _declared(mechanism: RunningTotal, length: int) -> float:
    """The root of the mean of the variances that the mechanism declares."""
    buffers = mechanism.buffers
    if buffers.horizon is None:
        variances = row_variances(buffers.coefficients(length), np.ones(length))
        return math.sqrt(float(buffers.cost(None)) * float(variances.mean()))
    covariance, total = None, 0.0
    for row in range(length):
        covariance = covariance_after(covariance, buffers, 1.0, buffers.scale(row) / (1 << SCALE_BITS))
        total += float(covariance[-1, -1])
    return math.sqrt(float(buffers.cost(length)) * total / length)


def _measured(mechanism: RunningTotal, length: int, bins: int) -> float:
    found = simulate_many(mechanism, GUARANTEE, np.zeros((length, bins), dtype=np.int64), seed=length, runs=1)
    return float(np.sqrt((np.asarray(found) ** 2).mean())) * math.sqrt(float(GUARANTEE.mu_squared))


def _gaussian(quick: bool) -> Table:
    rows: list[list[str]] = []
    for length in LENGTHS[:2] if quick else LENGTHS:
        formula = square_root_error(length)
        bins = MEASURED.get(length)
        known = RunningTotal(horizon=length)
        drawn = _measured(known, length, bins // 4 if quick else bins) if bins else None
        cells = [
            f"{length:,}",
            f"{lower_bound(length):.3f}",
            f"{formula:.3f}",
            f"{_declared(known, length):.3f}",
            "" if drawn is None else f"{drawn:.3f} ({drawn / formula:.3f})",
            f"{_declared(RunningTotal(), length):.3f}",
            f"{tree_error(length, refined=True):.3f}",
            f"{tree_error(length, refined=False):.3f}",
        ]
        progress(" | ".join(cells))
        rows.append(cells)
    columns = [
        "steps", "lower bound", "dense square root", "ours, declared", "ours, drawn (of the formula)",
        "ours without horizon", "tree, refined", "tree",
    ]  # fmt: skip
    notes = (
        "Root of the mean variance of all totals for one event at μ = 1, Gaussian noise. `lower bound` holds for every "
        "factorisation; `dense square root` is its formula. `drawn` are totals from the mechanism itself, noise and "
        "all, in independent bins."
    )
    return Table("Running totals with Gaussian noise", notes, columns, rows)


def _strategies() -> Table:
    rows: list[list[str]] = []
    for length in (100, DENSE):
        ours, start = _declared(RunningTotal(horizon=length), length), time.perf_counter()
        blt = _buffered(length)
        middle = time.perf_counter()
        dense = _dense(length)
        end = time.perf_counter()
        cells = [
            f"{length:,}", f"{lower_bound(length):.3f}", f"{ours:.3f}", f"{blt:.3f}", f"{dense:.3f}",
            f"{middle - start:.1f} s, {end - middle:.1f} s",
        ]  # fmt: skip
        progress(" | ".join(cells))
        rows.append(cells)
    columns = [
        "steps", "lower bound", "ours", f"jax_privacy BLT, {BUFFERS} buffers", "jax_privacy dense", "their planning",
    ]  # fmt: skip
    notes = (
        "The same error of strategies that jax_privacy optimises for the mean (dense) or the largest (BLT) error of "
        "one participation; ours is fitted in a millisecond. The dense optimum is the least that is possible at that "
        "length; its memory and work grow with the square of the length."
    )
    return Table("Running totals against optimised strategies", notes, columns, rows)


def _dense(length: int) -> float:
    dense: Any = import_module("jax_privacy.matrix_factorization.dense")
    strategy = np.asarray(dense.optimize(length), dtype=np.float64)
    return _error_of(strategy)


def _buffered(length: int) -> float:
    jax: Any = import_module("jax")
    jax.config.update("jax_enable_x64", True)  # its buffers need it
    buffered_toeplitz: Any = import_module("jax_privacy.matrix_factorization.buffered_toeplitz")
    blt: Any = buffered_toeplitz.optimize(n=length, max_buffers=BUFFERS)
    coefficients = np.asarray(blt.toeplitz_coefs(length), dtype=np.float64)
    inverse = np.asarray(blt.inverse().toeplitz_coefs(length), dtype=np.float64)
    variances = np.cumsum(np.cumsum(inverse) ** 2)
    return math.sqrt(float((coefficients**2).sum()) * float(variances.mean()))


def _error_of(strategy: Reals) -> float:
    length = len(strategy)
    factor = np.linalg.solve(strategy.T, np.tril(np.ones((length, length))).T).T
    return float(np.linalg.norm(strategy, axis=0).max() * np.linalg.norm(factor) / math.sqrt(length))


def _moving(quick: bool) -> Table:
    rows: list[list[str]] = []
    for window in (8, 64, 512):
        mechanism, length = MovingSum(window=window), 4 * window
        zeros = np.zeros((length, 100 if quick else 400), dtype=np.int64)
        drawn = np.asarray(simulate_many(mechanism, GUARANTEE, zeros, seed=window, runs=1))
        late = drawn.reshape(length, -1)[2 * window :]
        error = math.sqrt(float((late**2).mean()) * float(GUARANTEE.mu_squared))
        single = math.sqrt(window)
        cells = [f"{window}", f"{moving_bound(window):.3f}", f"{error:.3f}", f"{single:.3f}", f"{single / error:.1f}"]
        progress(" | ".join(cells))
        rows.append(cells)
    notes = (
        "Root of the mean squared error of the sums of the last steps for one event at μ = 1, Gaussian noise, drawn "
        "from the mechanism. `lower bound` holds for every factorisation of four windows. Noise on every window by "
        "itself, and sums of noisy counts, both have the root of the window."
    )
    columns = ["window", "lower bound", "ours, drawn", "fresh noise", "times less"]
    return Table("Moving sums with Gaussian noise", notes, columns, rows)


def moving_bound(window: int) -> float:
    """‖A‖_*/n of the matrix of moving sums over four windows."""
    length = 4 * window
    ages = np.subtract.outer(np.arange(length), np.arange(length))
    return float(np.linalg.svd((ages >= 0) & (ages < window), compute_uv=False).sum()) / length


def _pure(quick: bool) -> Table:
    length, runs = PURE_LENGTH, 20 if quick else 200
    zeros = np.zeros((length, 1), dtype=np.int64)
    found = {
        "tree, refined, horizon known": RunningTotal(horizon=length),
        "trees that double": RunningTotal(),
    }
    rows: list[list[str]] = []
    for name, mechanism in found.items():
        totals = np.asarray(simulate_many(mechanism, Guarantee(1, w=1), zeros, seed=1, runs=runs))
        rows.append([name, "as steps come", f"{math.sqrt(float((totals**2).mean())):.1f}"])
    rng = np.random.default_rng(1)  # noqa: TID251 (a formula's check)
    naive = np.cumsum(rng.laplace(size=(runs, length)), axis=1)
    rows.append(["sums of noisy counts", "as steps come", f"{math.sqrt(float((naive**2).mean())):.1f}"])
    peer = [float((np.cumsum(_opendp(length)) ** 2).mean()) for _ in range(max(4, runs // 10))]
    rows.append(["OpenDP b-ary tree, consistent", "at the end", f"{math.sqrt(float(np.mean(peer))):.1f}"])
    notes = (
        f"Root of the mean squared error of {length:,} totals, one event, ε = 1. OpenDP's tree is not a stream: it "
        "sees all counts at once, and its consistency step uses later ones for earlier totals, which no stream can."
    )
    return Table("Running totals with pure ε", notes, ["mechanism", "published", "error"], rows)


def _opendp(length: int) -> Reals:
    dp: Any = import_module("opendp.prelude")
    dp.enable_features("contrib")
    domain: Any = dp.vector_domain(dp.atom_domain(T=int))
    tree: Any = dp.t.make_b_ary_tree(domain, dp.l1_distance(T=int), leaf_count=length, branching_factor=2)
    noisy = (tree >> dp.m.then_laplace(scale=float(tree.map(1))))([0] * length)
    return np.array(dp.t.make_consistent_b_ary_tree(branching_factor=2)(noisy))[:length]


def _steps(quick: bool) -> Table:
    """The work and the memory of one step, after many."""
    rows: list[list[str]] = []
    far = 2_000 if quick else 1_000_000
    for weights in Weights:
        mechanism, noise = RunningTotal(horizon=far + 1_000, weights=weights), SecureNoise()
        session = StreamSession(mechanism, GUARANTEE, BINS, noise)
        counts = np.ones(BINS, dtype=np.int64)
        for t in (0, far):
            # Time passes in steps without data between them: buffers fall and groups merge.
            session.step(seal(counts, t), t)
        now = iter(range(far + 1, far + 900))

        def step(now: Any = now, session: Any = session, counts: Any = counts) -> None:
            t = next(now)
            session.step(seal(counts, t), t)

        def draw(noise: Any = noise) -> None:
            noise.gaussian(Fraction(1 << 38), BINS)

        taken, drawn = (
            min(times) for times in zip(*((_seconds(step), _seconds(draw)) for _ in range(300)), strict=True)
        )
        held = session.state
        assert isinstance(held, BufferedState | RowsState)
        kept = len(mechanism.buffers.rates) if weights is Weights.BUFFERS else len(getattr(held, "estimates", ()))
        size = sum(array.nbytes for array in encode(held).arrays)
        times = [f"{taken * 1e3:.2f} ms", f"{drawn * 1e3:.2f} ms", f"{taken / drawn:.1f}"]
        rows.append([f"{kept} {weights}", *times, f"{size / BINS:,.0f}", f"{size / 1e6:,.1f} MB"])
        progress(" | ".join(rows[-1]))
    columns = ["weights by", "step", "its noise", "ratio", "bytes a bin", "state"]
    notes = (
        f"One step of {BINS:,} bins after {far:,} steps, the best of 300 beside the best of 300 draws of its noise "
        "alone, in turn, in processor time; the state as it is stored. The number of buffers, and of groups as in "
        "streams of earlier versions, grows with the logarithm of the horizon."
    )
    return Table("The work and the memory of a step", notes, columns, rows)


def _seconds(call: Any) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start
