"""Sums of the last steps from rows of a running sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.protocols import NEXT_TO_NOTHING
from veilstream.mechanisms.streams import horizons
from veilstream.mechanisms.streams.running import buffered
from veilstream.mechanisms.streams.running.buffered import BufferedState, next_buffered, square_root
from veilstream.mechanisms.streams.running.rows import RowsState, measured_row, raised_by_groups, variances_of
from veilstream.mechanisms.streams.running.weights import Weights
from veilstream.privacy.buffers import Buffers
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.kernels import Kernel
from veilstream.privacy.rationals import round_down
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw, Values

REMEMBERED: Final = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2))
"""How many windows the weights of rows may last, among which the one with the least noise is taken."""
MOST_STEPS: Final = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The rows, and the totals that were released up to a window ago, the oldest first."""

    rows: RowsState | BufferedState = field(default_factory=RowsState)
    totals: list[Any] = field(default_factory=list[Any])


@dataclass(frozen=True, slots=True)
class MovingSum:
    """Publishes at every step the sum of the last ``window`` steps, for guarantees with delta.

    As with running totals, rows Σ c_k·x_{t−k} of a running sum are measured and solved for the counts, of which the
    last ω are added up: y = A·C⁻¹·m, A being the matrix of moving sums. Weights c_k = β^k·binom(2k, k)/4^k are the
    square root of decayed sums; they forget what is a few windows old, so that a step pays for about ln(ω)/π rows
    for ever. The noise grows with the logarithm of ω, where fresh noise on every window grows with its root and sums of
    noisy counts do as well. Without delta it is such a sum of noisy counts. The past is read by decaying buffers, or
    with ``weights`` "groups" in groups of timestamps, ``detail`` of them for every doubling of the age, as in streams
    of earlier versions.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> counts = np.full((400, 20), 30)
    >>> y = simulate(MovingSum(window=64), Guarantee(1, w=1, delta="1e-6"), counts, seed=1)
    >>> bool(np.sqrt(((y[64:] - 64 * 30) ** 2).mean()) < 20)
    True

    After Fichtenberger, Henzinger, Upadhyay: Constant matters, ICML 2023 (the square root), and Andersson, Pagh:
    Streaming private continual counting via binning, SaTML 2025 (groups).
    """

    window: int = 24
    detail: int = 8
    weights: Weights = Weights.BUFFERS
    version: ClassVar[int] = 2
    former_defaults: ClassVar[Mapping[int, Mapping[str, str]]] = {1: {}}
    oblivious: ClassVar[bool] = True
    window_sums: ClassVar[bool] = True

    def __post_init__(self) -> None:
        horizons.whole(self.window, "window", self)
        if self.window > MOST_STEPS:
            raise InvalidInputError(name="window", of="MovingSum", value=self.window, limit=f"at most {MOST_STEPS}")
        object.__setattr__(self, "weights", Weights.of(self.weights, self))
        Kernel(detail=self.detail)

    def divided(self, guarantee: Guarantee, bins: int) -> Guarantee:
        """All of the budget for Gaussian noise."""
        return guarantee.with_pure_share(NEXT_TO_NOTHING)

    def start(self, guarantee: Guarantee, bins: int) -> State:
        if guarantee.reach is None:
            raise InvalidInputError(
                name="window",
                of="MovingSum",
                value="user level",
                limit="everybody would be in all steps; give a window of protection, or presence",
            )
        if not guarantee.mu_squared:
            horizons.share(guarantee, None, 1, self)
            return State()
        return State(BufferedState() if self.weights is Weights.BUFFERS else RowsState())

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        return self._from_rows(state, now, meter) if meter.guarantee.mu_squared else self._fresh(state, now, meter)

    def _fresh(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        """With fresh noise on every step."""
        noisy = meter.laplace(now, horizons.share(meter.guarantee, None, 1, self), "step")
        total: Any = noisy.numbers if state.rows.total is None else state.rows.total + noisy.numbers
        moved = total - state.totals[0] if len(state.totals) == self.window else total
        spread = float(noisy.std) * math.sqrt(min(len(state.totals) + 1, self.window))
        kept = [*state.totals, total][-self.window :]
        return State(RowsState(total=total), kept), Values(moved, spread, NoiseLaw.MIXED)

    def _from_rows(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        rows, spread, missed = (
            self._by_buffers(state.rows, now, meter)
            if isinstance(state.rows, BufferedState)
            else self._by_groups(state.rows, now, meter)
        )
        # Steps without a release have added nothing.
        totals = [*state.totals, *[state.rows.total] * missed]
        total: Any = rows.total
        moved = total - totals[-self.window] if len(totals) >= self.window else total
        kept = [*totals, total][-self.window :]
        return State(rows, kept), Values(moved, spread, NoiseLaw.GAUSSIAN)

    def _by_buffers(self, before: BufferedState, now: Sealed, meter: Meter) -> tuple[BufferedState, float, int]:
        """The state after a row, the noise of the moving sum, and how many steps were missed."""
        buffers = _best_buffers(self.window) if before.noise is None else before.noise.buffers
        unit = _unit_of(buffers, meter.guarantee.mu_squared)
        rows, _, std = next_buffered(before, now, buffers, unit, meter, decay=1.0)
        assert rows.noise is not None
        missed = 0 if before.noise is None else rows.noise.last - before.noise.last - 1
        row = rows.noise.last - rows.noise.start
        return rows, std * math.sqrt(_variance(buffers, self.window, row)), missed

    def _by_groups(self, before: RowsState, now: Sealed, meter: Meter) -> tuple[RowsState, float, int]:
        kernel = _best_kernel(self.window, self.detail)
        unit = _unit_of(kernel, meter.guarantee.mu_squared)
        rows, std = measured_row(before, now, kernel, unit, meter, decay=1.0)
        assert rows.sums is not None
        missed = 0 if before.sums is None else rows.sums.last - before.sums.last - 1
        row = rows.sums.last - rows.sums.start
        spread = std * math.sqrt(_variance(kernel, self.window, row)) * raised_by_groups(kernel, row)
        return rows, spread, missed


def _workload(window: int, length: int) -> NDArray[np.float64]:
    return (np.arange(length) < window).astype(np.float64)


def _variance(kernel: Kernel | Buffers, window: int, row: int) -> float:
    """Of the number of a row, in units of that of a row's own noise: that of the last row known for all later ones."""
    known = _variances(kernel, window)
    return float(known[min(row, len(known) - 1)])


@lru_cache(maxsize=16)
def _variances(kernel: Kernel | Buffers, window: int) -> NDArray[np.float64]:
    workload = _workload(window, 32 * window)
    if isinstance(kernel, Buffers):
        return buffered.variances_of(kernel, workload)
    return variances_of(kernel, workload)


@lru_cache(maxsize=64)
def _best_kernel(window: int, detail: int) -> Kernel:
    """Of the kernels that last some windows the one with the least noise."""
    kernels = [Kernel(1 - 1 / (times * window + 1), detail=detail) for times in REMEMBERED]
    return min(kernels, key=lambda kernel: float(kernel.cost(None)) * float(_variances(kernel, window)[-1]))


@lru_cache(maxsize=64)
def _best_buffers(window: int) -> Buffers:
    known = [square_root(None, 1 - 1 / (times * window + 1)) for times in REMEMBERED]
    return min(known, key=lambda buffers: float(buffers.cost(None)) * float(_variances(buffers, window)[-1]))


@lru_cache(maxsize=64)
def _unit_of(kernel: Kernel | Buffers, mu_squared: Fraction) -> Fraction:
    """What a row costs a timestamp that it reads with weight 1, of μ²."""
    return round_down(mu_squared / kernel.cost(None))
