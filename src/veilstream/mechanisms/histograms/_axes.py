"""Noisy tables without the steps between neighbours that noise explains, along every axis and at every scale.

A wavelet of a table is a product of one along each axis, each with a scale of its own: half the step between the means
of 2^a neighbours and of the next as many, or the mean over all of an axis. With noise of deviation σ on every cell, one
that takes in 2^l cells has noise of deviation σ·2^(−l/2). All with the same scales along all axes are one band, whose
law is one (``posterior_medians``): a band of narrow steps along one axis and wide ones along the other holds stripes,
as attributes with few different values make them, and one of narrow steps along both holds single cells.

Donoho: CART and best-ortho-basis, Annals of Statistics 1997 (anisotropic Haar); Coifman, Donoho: Translation-invariant
de-noising, 1995 (offsets).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.histograms._shrinkage import NORMAL, posterior_medians

Reals = NDArray[np.float64]
MOST_STEPS: Final = 1 << 24
"""Steps of a table, about: at so many scales along every axis all offsets are looked at, at wider ones not all."""
FEWEST_IN_BAND: Final = 4
"""Cells for every band below which there is too little to learn the laws from."""
MOST_BANDS: Final = 1 << 10
"""Bands above which a law for each takes too long."""


def has_bands(shape: tuple[int, ...]) -> bool:
    """Whether a table has several axes that are long enough for bands along all of them.

    >>> has_bands((256, 256)), has_bands((2,) * 10), has_bands((4096,))
    (True, False, False)
    """
    bands = math.prod(1 + _scales(size) for size in shape)
    return sum(size > 1 for size in shape) > 1 and bands <= min(MOST_BANDS, math.prod(shape) // FEWEST_IN_BAND)


def smoothed_axes(noisy: Reals, shape: tuple[int, ...], std: float) -> Reals:
    """Noisy tables, cells along the last axis, without what Laplace noise of ``std`` on every cell explains.

    >>> table = np.zeros((16, 16))
    >>> table[4:8] = 100.0
    >>> noisy = table + np.random.default_rng(1).laplace(0, 5, table.shape)
    >>> found = smoothed_axes(noisy.reshape(-1), (16, 16), 5 * 2**0.5).reshape(16, 16)
    >>> bool(abs(found - table).mean() < abs(noisy - table).mean() / 4)
    True
    """
    if std <= 0:
        return noisy
    tables = noisy.reshape(-1, *shape)
    beyond = [(0, 0), *(((0, (1 << _scales(size)) - size)) for size in shape)]
    padded = np.pad(tables, beyond, mode="symmetric")
    everywhere = _offsets(padded.shape[1:])

    def along(axis: int, values: Reals, level: int) -> Reals:
        """``values``, of which axes before ``axis`` are wavelets of 2^``level`` cells, without noise."""
        if axis == padded.ndim:
            return _of_band(values, std, level)
        scales = _scales(padded.shape[axis])

        def drawn(scale: int, steps: Reals) -> Reals:
            return np.moveaxis(along(axis + 1, np.moveaxis(steps, -1, axis), level + scale), axis, -1)

        return np.moveaxis(_drawn_along(np.moveaxis(values, axis, -1), scales, everywhere, drawn), -1, axis)

    # The mean of all cells is a band of one, and has nothing to be drawn to.
    mean = padded.mean(axis=tuple(range(1, padded.ndim)), keepdims=True)
    smooth = mean + along(1, padded - mean, 0)
    return np.asarray(smooth[(slice(None), *(slice(size) for size in shape))].reshape(noisy.shape), dtype=np.float64)


def _of_band(values: Reals, std: float, level: int) -> Reals:
    rows = values.reshape(len(values), -1)
    terms = 1 << min(level, NORMAL.bit_length() - 1)
    return posterior_medians(rows, std * 2.0 ** (-level / 2), terms).reshape(values.shape)


def _drawn_along(values: Reals, scales: int, everywhere: int, drawn: Callable[[int, Reals], Reals]) -> Reals:
    """``values`` whose wavelets along the last axis are as ``drawn`` makes them of those of 2^scale neighbours.

    All offsets are looked at up to 2^``everywhere`` neighbours; of wider ones those that lie that far apart.
    """
    mean, near = values, min(everywhere, scales)
    steps: list[Reals] = []
    for scale in range(near):
        beside = np.roll(mean, -(1 << scale), axis=-1)
        step, mean = (mean - beside) / 2, (mean + beside) / 2
        steps.append(drawn(scale + 1, step))
    wide = mean.reshape(*mean.shape[:-1], -1, 1 << near)
    for scale in range(near, scales):
        left, right = wide[..., 0::2, :], wide[..., 1::2, :]
        step, wide = (left - right) / 2, (left + right) / 2
        steps.append(_flat(drawn, scale + 1, step))
    wide = _flat(drawn, scales, wide)
    for step in reversed(steps[near:]):
        wide = np.stack([wide + step, wide - step], axis=-2).reshape(*step.shape[:-2], -1, 1 << near)
    mean = wide.reshape(values.shape)
    for scale in reversed(range(near)):
        mean = (mean + steps[scale] + np.roll(mean - steps[scale], 1 << scale, axis=-1)) / 2
    return mean


def _flat(drawn: Callable[[int, Reals], Reals], scale: int, steps: Reals) -> Reals:
    """``drawn`` of steps that have places and offsets on two axes."""
    return drawn(scale, steps.reshape(*steps.shape[:-2], -1)).reshape(steps.shape)


def _scales(size: int) -> int:
    return (size - 1).bit_length()


def _offsets(shape: tuple[int, ...]) -> int:
    """At how many scales all offsets are looked at: the most with no more than ``MOST_STEPS`` steps.

    >>> _offsets((256, 256)), _offsets((1024, 1024)), _offsets((128, 128, 64))
    (15, 3, 1)
    """
    most = (MOST_STEPS / math.prod(shape)) ** (1 / len(shape))
    return max(0, int(most + 1e-9) - 1)
