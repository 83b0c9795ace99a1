"""Quantiles of a step with the help of the steps before it: post-processing of what was released, nothing else.

The shares F of rows below each cut hardly change from step to step, while each release of them has fresh noise. So the
releases so far predict the next: their running sums, in which an older step counts less, over their numbers of rows.
A step's own running sums are then drawn towards the prediction by the usual weights,

    F̂ = P + a·(C − P·n)/n,    a = (τ² + π²)/(τ² + π² + σ²/n²),

where σ² is the variance of the noise of C − P·n, π² that of the prediction, and τ² how far steps have been apart beyond
both, found from earlier predictions' errors, cut by cut. The first step has no past and stays as it is; where steps
differ more than noise can, they stay nearly as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.cells import CellColumn
from veilstream.release.quantiles import crossing, cut_weights

Reals = NDArray[np.float64]

MEMORY: Final = 0.97
"""How much less a step counts than the next one: by measurement, on other columns than that of the benchmark."""
TINY: Final = 1e-300
SURE: Final = 2.0
"""Standard deviations that a number of rows must be above zero to be sure of some."""


@dataclass(slots=True)
class Smoothing:
    """The past of the columns of a stream, from one page of its releases to the next."""

    _columns: dict[str, _Past] = field(default_factory=dict[str, "_Past"])

    def quantiles(
        self, column: CellColumn, numbers: Reals, std: Reals, shares: Sequence[float], fresh: Sequence[bool]
    ) -> Reals:
        """Values of the shares (steps × bins × shares), NaN where recent steps may have no rows.

        ``numbers`` and ``std`` are steps × bins × parts; a step that is not ``fresh`` repeats another and teaches
        nothing.
        """
        past = self._columns.setdefault(column.name, _Past(column, numbers.shape[1]))
        return np.stack([past.next(*step, shares) for step in zip(numbers, std, fresh, strict=True)])


class _Past:
    """What the releases of one column say of its next one, for every bin."""

    def __init__(self, column: CellColumn, bins: int) -> None:
        self._edges: Reals = np.array([float(edge) for edge in column.edges])
        self._weights = cut_weights(column)
        total = self._weights[-1]
        self._own, self._shared = (self._weights**2).sum(axis=1), self._weights @ total
        self._of_rows = float((total**2).sum())
        self._steps = 0.0
        self._running: Reals = np.zeros((bins, len(self._edges)))
        self._noise: Reals = np.zeros(bins)
        self._apart: Reals = np.zeros((2, bins, len(self._edges)))
        self._level: Reals = np.zeros(bins)

    def next(self, parts: Reals, std: Reals, fresh: bool, shares: Sequence[float]) -> Reals:
        """The values of the next step (bins × shares)."""
        running, variance = parts @ self._weights.T, (std**2).mean(axis=1)
        rows = running[:, -1]
        some = self._some_rows(rows, SURE * np.sqrt(variance * self._of_rows))
        if not self._steps:
            found = _rising(running / np.maximum(rows, 1.0)[:, None])
            self._add(running, variance)
        else:
            predicted = _rising(self._running / np.maximum(self._running[:, -1:], 1.0))
            expected = self._expected_rows(rows, variance * self._of_rows)[:, None]
            unit = self._own - 2 * predicted * self._shared + predicted**2 * self._of_rows
            noise, error = variance[:, None] * unit, running - predicted * rows[:, None]
            prediction = self._noise[:, None] * unit / np.maximum(self._running[:, -1:], 1.0) ** 2
            apart = self._apart[0] / np.maximum(self._apart[1], TINY)
            spread = np.maximum(apart, predicted * (1 - predicted) / expected) + prediction
            found = _rising(predicted + spread / (spread + noise / expected**2 + TINY) * error / expected)
            if fresh:
                beyond = expected**2 * (error**2 - noise - expected**2 * prediction)
                self._apart = MEMORY * self._apart + np.stack([beyond, np.broadcast_to(expected**4, beyond.shape)])
                self._level = MEMORY * self._level + (rows - self._running[:, -1] / self._steps) ** 2
                self._add(running, variance)
        found[:, 0], found[:, -1] = 0.0, 1.0
        values = np.stack([crossing(found, np.full(len(found), share), self._edges) for share in shares], axis=1)
        return np.where(some[:, None], values, np.nan)

    def _some_rows(self, rows: Reals, width: Reals) -> NDArray[np.bool_]:
        """Whether a step has rows: it shows them, or recent ones have them and it may have half as many."""
        recent = self._running[:, -1] / max(self._steps, 1.0)
        sure = self._running[:, -1] > SURE * np.sqrt(self._noise * self._of_rows)
        return np.asarray((rows > width) | (sure & (rows + width > recent / 2)))

    def _expected_rows(self, rows: Reals, noise: Reals) -> Reals:
        """The number of rows, drawn towards that of recent steps; at least one."""
        recent = self._running[:, -1] / self._steps
        # Numbers of people who come by themselves differ by their root at least.
        differ = np.maximum(self._level / self._steps - noise, np.maximum(recent, 0.0))
        return np.maximum(recent + (rows - recent) * differ / (differ + noise + TINY), 1.0)

    def _add(self, running: Reals, variance: Reals) -> None:
        self._running = MEMORY * self._running + running
        self._noise = MEMORY**2 * self._noise + variance
        self._steps = MEMORY * self._steps + 1


def _rising(shares: Reals) -> Reals:
    """The monotone line between 0 and 1 that is nearest in the largest deviation."""
    upper = np.maximum.accumulate(shares, axis=-1)
    lower = np.minimum.accumulate(shares[..., ::-1], axis=-1)[..., ::-1]
    return np.clip((upper + lower) / 2, 0.0, 1.0)
