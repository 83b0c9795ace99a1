"""Simulations hand the public shape of the bins to the mechanism, as a publisher does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from veilstream import Guarantee, simulate, simulate_many
from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True)
class ShapeTeller:
    """Publishes the lengths of the axes that it is told of, and nothing of the data."""

    def start(self, guarantee: Guarantee, bins: int) -> tuple[()]:
        return ()

    def step(self, state: tuple[()], now: Sealed, meter: Meter) -> tuple[tuple[()], Values]:
        axes = np.zeros(now.size)
        axes[: len(now.shape)] = now.shape
        return state, Values(axes, 0.0)


def test_the_shape_of_the_bins_reaches_the_mechanism() -> None:
    x, guarantee = np.ones((2, 6), dtype=np.int64), Guarantee(1, w=1)
    assert simulate(ShapeTeller(), guarantee, x, 1)[0].tolist() == [6, 0, 0, 0, 0, 0]
    assert simulate(ShapeTeller(), guarantee, x, 1, shape=(2, 3))[1].tolist() == [2, 3, 0, 0, 0, 0]
    assert simulate_many(ShapeTeller(), guarantee, x, 1, runs=3, shape=(3, 2))[2, 1].tolist() == [3, 2, 0, 0, 0, 0]


def test_a_shape_that_does_not_fit_is_refused() -> None:
    with pytest.raises(
        InvalidInputError, match=r"shape \(2, 2\) for 6 bins: its product must be 6; nothing was released"
    ):
        simulate(ShapeTeller(), Guarantee(1, w=1), np.ones((2, 6), dtype=np.int64), 1, shape=(2, 2))
