"""Quantiles of a step with the help of the steps before it: post-processing of what was released, nothing else.

The share F of rows below a cut changes little from step to step, while each release of it has fresh noise. It is taken
for a level that moves a little in every step, F_t = L_t + s_t with L_t = L_(t−1) + d_t, of which a release shows
F_t + e_t with noise e of known variance r. How far levels move, and how far steps lie about them, is not known: with
p(1 − p) for a level p and n rows, d has the variance κ·p(1 − p) and s the variance (ς + 1/n)·p(1 − p), where 1/n is
what rows that come by themselves differ by. For each pair (κ, ς) of a small grid a filter predicts the next step, with
variance A of its level, and leans towards what is released,

    F̂ = P + (A + var s)/(A + var s + r)·(C − P·N)/n,

C being the released number of rows below the cut and N that of all. The filters are averaged with weights that follow
from how well each has predicted the releases so far, this one included. One filter expects nothing of the past: where
steps differ more than noise can, or noise is small, values stay as they are.

A value depends on the releases of its own block of steps and of the block before, so that every reader finds it from a
bounded number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.cells import CellColumn
from veilstream.release.quantiles import crossing, cut_weights

Reals = NDArray[np.float64]

BLOCK: Final = 128
"""Steps of a block."""
BINS_AT_ONCE: Final = 256
"""Bins that are computed together, which bounds what is in memory besides the filters."""
MOVES: Final = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""How far levels may move in a step (κ): by measurement, on other columns than those of the benchmark."""
APART: Final = (0.0, 0.05)
"""How far steps may lie about their level (ς), besides what their rows differ by."""
NO_PAST: Final = 1e3
"""The κ and ς of the filter that expects nothing of the past."""
DOUBT: Final = 0.3
"""The weight with which that filter begins; the others have equal parts of the rest."""
FORGOTTEN: Final = 0.02
"""The part of the weights that goes back to where they began in every step, so that other filters may take over."""
INDEPENDENT: Final = 6
"""For how many independent numbers the cuts of a step count when filters are weighed."""
VAGUE: Final = 1.0
"""The variance of a share of which nothing is known yet."""
LEAST_SPREAD: Final = 1e-6
TINY: Final = 1e-300
MEMORY: Final = 0.97
"""How much less a step counts than the next one in the usual number of rows."""
SURE: Final = 2.0
"""Standard deviations that a number of rows must be above zero to be sure of some."""


def first_step_needed(step: int) -> int:
    """The first step whose release the values of ``step`` depend on.

    >>> first_step_needed(100), first_step_needed(130), first_step_needed(300)
    (0, 0, 128)
    """
    return max(0, step // BLOCK - 1) * BLOCK


class Smoothing:
    """The past of the columns of a stream, from one page of its releases to the next; steps come in order."""

    def __init__(self) -> None:
        self._columns: dict[str, _Blocks] = {}

    def quantiles(
        self, column: CellColumn, numbers: Reals, std: Reals, shares: Sequence[float], step: int, fresh: bool
    ) -> Reals:
        """Values of the shares (bins × shares), NaN where neither the step nor recent ones are sure to have rows.

        ``numbers`` and ``std`` are bins × parts. A step that is not ``fresh`` repeats another and has its values.
        """
        past = self._columns.get(column.name)
        if past is None:
            past = self._columns[column.name] = _Blocks(column, len(numbers))
        below, some = past.next(numbers, std**2, step, fresh)
        edges = past.cuts.edges
        values = np.stack([crossing(below, np.full(len(below), share), edges) for share in shares], axis=1)
        return np.where(some[:, None], values, np.nan)


class _Blocks:
    """The filters of one column: those that began with the block before this one are asked."""

    def __init__(self, column: CellColumn, bins: int) -> None:
        self.cuts = _Cuts(column)
        self._parts = [slice(first, min(first + BINS_AT_ONCE, bins)) for first in range(0, bins, BINS_AT_ONCE)]
        self._block = -1
        self._asked = self._learning = self._new()

    def _new(self) -> list[_Filters]:
        return [_Filters(self.cuts, part.stop - part.start) for part in self._parts]

    def next(self, numbers: Reals, variance: Reals, step: int, fresh: bool) -> tuple[Reals, NDArray[np.bool_]]:
        """The shares below every cut (bins × cuts), and whether there are rows."""
        block = step // BLOCK
        if block != self._block:
            follows = block == self._block + 1 and self._block >= 0
            learnt, self._learning, self._block = self._learning, self._new(), block
            self._asked = learnt if follows else self._learning
        found = [
            filters.next(numbers[part], variance[part], fresh)
            for part, filters in zip(self._parts, self._asked, strict=True)
        ]
        if self._learning is not self._asked:
            for part, filters in zip(self._parts, self._learning, strict=True):
                filters.next(numbers[part], variance[part], fresh)
        return np.concatenate([below for below, _ in found]), np.concatenate([some for _, some in found])


class _Cuts:
    """The weights of the parts in the numbers of rows below each cut, and what they make of the parts' variances."""

    def __init__(self, column: CellColumn) -> None:
        self.edges: Reals = np.array([float(edge) for edge in column.edges])
        self.even: Reals = (self.edges - self.edges[0]) / (self.edges[-1] - self.edges[0])
        self._weights = cut_weights(column)
        total = self._weights[-1]
        self._own, self._shared, self._of_rows = self._weights**2, self._weights * total, total**2

    def running(self, parts: Reals) -> Reals:
        """The numbers of rows below each cut, all rows last."""
        return np.asarray(parts @ self._weights.T)

    def noise(self, below: Reals, variance: Reals) -> Reals:
        """The variance of C − P·N for the shares P that are ``below`` each cut."""
        own, shared = variance @ self._own.T, variance @ self._shared.T
        found = own - 2 * below * shared + below**2 * self.noise_of_rows(variance)[:, None]
        return np.asarray(np.maximum(found, 0.0))

    def noise_of_rows(self, variance: Reals) -> Reals:
        """The variance of the number of rows."""
        return np.asarray(variance @ self._of_rows)


class _Filters:
    """What the releases so far say of the next one, for some bins: a filter for every pair of the grid."""

    def __init__(self, cuts: _Cuts, bins: int) -> None:
        self._cuts = cuts
        pairs = np.array([*((move, apart) for move in MOVES for apart in APART), (NO_PAST, NO_PAST)])
        self._moves, self._apart = pairs[:, 0, None, None], pairs[:, 1, None, None]
        self._prior: Reals = np.full((len(pairs), 1), (1 - DOUBT) / (len(pairs) - 1))
        self._prior[-1] = DOUBT
        self._weights = np.repeat(self._prior, bins, axis=1)
        shape = (len(pairs), bins, len(cuts.even))
        # Half the memory, and far more digits than what they describe.
        self._level = np.broadcast_to(cuts.even, shape).astype(np.float32)
        self._spread = np.full(shape, VAGUE, dtype=np.float32)
        self._rows = _UsualRows(bins)
        self._shown: tuple[Reals, NDArray[np.bool_]] | None = None

    def next(self, parts: Reals, variance: Reals, fresh: bool) -> tuple[Reals, NDArray[np.bool_]]:
        """The shares below every cut (bins × cuts) at the next step, and whether it has rows."""
        if self._shown is None or fresh:
            self._shown = self._read(parts, variance)
        return self._shown

    def _read(self, parts: Reals, variance: Reals) -> tuple[Reals, NDArray[np.bool_]]:
        running, of_rows = self._cuts.running(parts), self._cuts.noise_of_rows(variance)
        rows = running[:, -1]
        expected, some = self._rows.expected(rows, of_rows), self._rows.some(rows, of_rows)
        predicted = np.einsum("kb,kbi->bi", self._weights, self._level)
        noise = self._cuts.noise(predicted, variance) / expected[:, None] ** 2
        differ = np.maximum(predicted * (1 - predicted), LEAST_SPREAD)
        error = (running - self._level * rows[:, None]) / expected[:, None]
        level = self._spread + self._moves * differ
        step = level + self._apart * differ + differ / expected[:, None]
        total = step + noise + TINY
        weights = self._weights * self._likelihood(error, total)
        weights /= weights.sum(axis=0)
        found = _rising(np.einsum("kb,kbi->bi", weights, self._level + step / total * error))
        found[:, 0], found[:, -1] = 0.0, 1.0
        gain = level / total
        self._level = _rising(self._level + gain * error).astype(np.float32)
        self._spread = (level * (1 - gain)).astype(np.float32)
        self._weights = (1 - FORGOTTEN) * weights + FORGOTTEN * self._prior
        self._rows.add(rows, of_rows)
        return found, some

    @staticmethod
    def _likelihood(error: Reals, total: Reals) -> Reals:
        """How likely each filter holds what was released, the likeliest 1 (filters × bins)."""
        inner = slice(1, -1)
        each = np.log(total[..., inner]) + error[..., inner] ** 2 / total[..., inner]
        found = -0.5 * min(INDEPENDENT, each.shape[-1]) * each.mean(axis=-1)
        return np.asarray(np.exp(found - found.max(axis=0)))


class _UsualRows:
    """The numbers of rows of recent steps."""

    def __init__(self, bins: int) -> None:
        self._steps = 0.0
        self._rows, self._noise, self._differ = np.zeros(bins), np.zeros(bins), np.zeros(bins)

    def some(self, rows: Reals, noise: Reals) -> NDArray[np.bool_]:
        """Whether a step has rows: it shows them, or recent ones have them and it may have half as many."""
        width, recent = SURE * np.sqrt(noise), self._rows / max(self._steps, 1.0)
        sure = self._rows > SURE * np.sqrt(self._noise)
        return np.asarray((rows > width) | (sure & (rows + width > recent / 2)))

    def expected(self, rows: Reals, noise: Reals) -> Reals:
        """The number of rows, drawn towards that of recent steps; at least one."""
        if not self._steps:
            return np.maximum(rows, 1.0)
        recent = self._rows / self._steps
        # Numbers of people who come by themselves differ by their root at least.
        differ = np.maximum(self._differ / self._steps - noise, np.maximum(recent, 0.0))
        return np.maximum(recent + (rows - recent) * differ / (differ + noise + TINY), 1.0)

    def add(self, rows: Reals, noise: Reals) -> None:
        """A step had so many rows, with noise of that variance."""
        if self._steps:
            self._differ = MEMORY * self._differ + (rows - self._rows / self._steps) ** 2
        self._steps = MEMORY * self._steps + 1
        self._rows = MEMORY * self._rows + rows
        self._noise = MEMORY**2 * self._noise + noise


def _rising(shares: Reals) -> Reals:
    """The monotone line between 0 and 1 that is nearest in the largest deviation."""
    upper = np.maximum.accumulate(shares, axis=-1)
    lower = np.minimum.accumulate(shares[..., ::-1], axis=-1)[..., ::-1]
    return np.clip((upper + lower) / 2, 0.0, 1.0)
