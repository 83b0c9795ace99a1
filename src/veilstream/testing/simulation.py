"""Repeatable runs for experiments and tests: the only path with a seed, and what it returns is no release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator, Philox, SeedSequence  # noqa: TID251 (the one module that may seed)
from numpy.typing import NDArray

from veilstream.arguments import checks_arguments, is_a, refuses
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.session import StreamSession
from veilstream.mechanisms.traits import Traits
from veilstream.noise import ExactSampler
from veilstream.privacy.guarantee import Guarantee
from veilstream.release.publisher import checked_counts
from veilstream.testing.batch import BatchMeter
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw


class SeededSource:
    """Random words that repeat: for simulations only."""

    def __init__(self, seed: int | tuple[int, ...]) -> None:
        try:
            self._generator = Generator(Philox(SeedSequence(seed)))
        except (TypeError, ValueError):
            raise InvalidInputError(name="seed", value=seed, limit="a whole number of at least 0 is needed") from None

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 1 << 64, size=count, dtype=np.uint64)


class Simulated(np.ndarray[Any, np.dtype[np.float64]]):
    """Simulated values, steps × bins (or runs × steps × bins). Ledgers and sinks take Releases, never these.

    ``fresh`` tells which steps released anew, ``spent`` the epsilon charged at each step, ``noise_std`` the
    noise's standard deviation per step (the mean over bins where it varies), ``laws`` its law.
    """

    fresh: NDArray[np.bool_]
    spent: list[Fraction]
    noise_std: NDArray[np.float64]
    laws: list[NoiseLaw]

    def __array_finalize__(self, obj: Any) -> None:
        for name in ("fresh", "spent", "noise_std", "laws"):
            setattr(self, name, getattr(obj, name, None))


MAX_RUNS = 10_000_000


@refuses("snapshots", "an array of (steps, bins) is needed")
def _table(snapshots: Any) -> NDArray[Any]:
    return np.asarray(snapshots)


@dataclass(frozen=True, slots=True)
class _Run:
    values: NDArray[np.float64]
    fresh: NDArray[np.bool_]
    spent: list[Fraction]
    std: NDArray[np.float64]
    laws: list[NoiseLaw]

    def as_array(self) -> Simulated:
        result = self.values.view(Simulated)
        result.fresh, result.spent, result.noise_std, result.laws = self.fresh, self.spent, self.std, self.laws
        return result


def _run(
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    snapshots: NDArray[Any],
    seed: int | tuple[int, ...],
    max_contribution: int,
    shape: tuple[int, ...] | None,
    batch: tuple[int, ...] = (),
) -> _Run:
    if not is_a(snapshots, np.ndarray) or snapshots.ndim != 2:
        raise InvalidInputError("snapshots: an array of (steps, bins) is needed")
    if min(seed if isinstance(seed, tuple) else (seed,)) < 0:
        raise InvalidInputError(name="seed", value=seed, limit="at least 0 is needed")
    steps, bins = int(snapshots.shape[0]), int(snapshots.shape[1])
    if shape is not None and math.prod(shape) != bins:
        raise InvalidInputError(f"shape {shape} for {bins} bins: its product must be {bins}")
    meter = partial(BatchMeter, batch=batch) if batch else Meter
    session = StreamSession(mechanism, guarantee, bins, ExactSampler(SeededSource(seed)), meter)
    run = _Run(np.empty((steps, *batch, bins)), np.zeros(steps, dtype=np.bool_), [], np.zeros(steps), [])
    for t in range(steps):
        values = session.step(seal(checked_counts(snapshots[t], bins), t, max_contribution, shape), t)
        run.values[t] = values.numbers
        run.fresh[t] = values.fresh
        run.spent.append(session.spent)
        run.std[t] = np.mean(values.std)
        run.laws.append(values.law)
    return run


@checks_arguments
def simulate(
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    snapshots: NDArray[Any],
    seed: int,
    *,
    max_contribution: int = 1,
    shape: tuple[int, ...] | None = None,
) -> Simulated:
    """Run ``mechanism`` over ``snapshots`` (steps × bins, whole numbers) with repeatable noise.

    Budgets are enforced as in a real stream; only the source of randomness differs. ``shape`` is the public shape of
    the bins, for histogram methods that use neighbourhood in more dimensions. A mechanism that asks for more than the
    guarantee allows is stopped by ``BudgetExceededError``.

    >>> import veilstream as vs
    >>> y = vs.simulate(vs.STREAMS["sample"](), vs.Guarantee(1, w=3), np.full((6, 2), 40), seed=7)
    >>> y.shape, y.fresh.tolist(), [str(e) for e in y.spent]
    ((6, 2), [True, False, False, True, False, False], ['1', '0', '0', '1', '0', '0'])
    """
    return _run(mechanism, guarantee, _table(snapshots), seed, max_contribution, shape).as_array()


@checks_arguments
def simulate_many(
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    snapshots: NDArray[Any],
    seed: int,
    *,
    runs: int = 100,
    max_contribution: int = 1,
    shape: tuple[int, ...] | None = None,
) -> Simulated:
    """``runs`` independent simulations as runs × steps × bins.

    Mechanisms that never decide by data (``oblivious``, and their histogram too) run all at once; the others one
    after the other.

    >>> import veilstream as vs
    >>> y = vs.simulate_many(vs.STREAMS["uniform"](), vs.Guarantee(1, w=2), np.full((4, 3), 9), seed=7, runs=1000)
    >>> y.shape, bool(abs(y.mean() - 9) < 0.2)
    ((1000, 4, 3), True)
    """
    if not 1 <= runs <= MAX_RUNS:
        raise InvalidInputError(name="runs", value=runs, limit=f"from 1 to {MAX_RUNS} are possible")
    array = _table(snapshots)
    if all(Traits.of(part).oblivious for part in (mechanism, getattr(mechanism, "histogram", mechanism))):
        run = _run(mechanism, guarantee, array, seed, max_contribution, shape, batch=(runs,))
        run_first = np.ascontiguousarray(run.values.transpose(1, 0, 2))
        return _Run(run_first, run.fresh, run.spent, run.std, run.laws).as_array()
    each = [_run(mechanism, guarantee, array, (seed, number), max_contribution, shape) for number in range(runs)]
    return _Run(
        np.stack([run.values for run in each]),
        np.stack([run.fresh for run in each]),
        each[0].spent,
        np.stack([run.std for run in each]),
        each[0].laws,
    ).as_array()
