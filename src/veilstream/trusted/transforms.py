"""Haar and Walsh-Hadamard transforms of whole arrays: forward on exact counts, back from noisy coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def power_of_two(size: int) -> int:
    """The smallest power of two that is not below ``size``.

    >>> [power_of_two(n) for n in (1, 2, 3, 96, 1024)]
    [1, 2, 4, 128, 1024]
    """
    return 1 << (size - 1).bit_length()


def padded_shape(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """``shape`` with the given axes raised to powers of two."""
    return tuple(power_of_two(size) if axis in axes else size for axis, size in enumerate(shape))


def pad(values: NDArray[np.int64], shape: Sequence[int], axes: Sequence[int]) -> NDArray[np.int64]:
    """The flat ``values`` as an array of the padded shape, zeros behind."""
    array = values.reshape(tuple(shape))
    wanted = padded_shape(shape, axes)
    return np.pad(array, [(0, new - old) for old, new in zip(shape, wanted, strict=True)])


def unpad(table: NDArray[np.float64], shape: Sequence[int]) -> NDArray[np.float64]:
    """The last axes of a padded table cut back to ``shape`` and flattened; axes before them are kept."""
    batch = table.shape[: table.ndim - len(shape)]
    box: tuple[Any, ...] = (..., *(slice(0, size) for size in shape))
    inside: NDArray[np.float64] = table[box]
    return inside.reshape(*batch, math.prod(shape))


def haar(array: NDArray[np.int64], axes: Sequence[int]) -> NDArray[np.int64]:
    """Along each of ``axes`` (of a length 2^k): the total, then left half − right half of every dyadic block.

    >>> haar(np.array([5, 1, 2, 2]), [0]).tolist()
    [10, 2, 4, 0]
    """
    for axis in axes:
        sums = np.moveaxis(array, axis, -1)
        parts: list[NDArray[np.int64]] = []
        while sums.shape[-1] > 1:
            parts.append(sums[..., 0::2] - sums[..., 1::2])
            sums = sums[..., 0::2] + sums[..., 1::2]
        array = np.moveaxis(np.concatenate([sums, *reversed(parts)], axis=-1), -1, axis)
    return array


def inverse_haar(coefficients: NDArray[Any], axes: Sequence[int]) -> NDArray[np.float64]:
    """What ``haar`` came from; ``axes`` may be counted from the end.

    >>> inverse_haar(np.array([10, 2, 4, 0]), [0]).tolist()
    [5.0, 1.0, 2.0, 2.0]
    """
    array = coefficients.astype(np.float64)
    for axis in axes:
        ordered = np.moveaxis(array, axis, -1)
        sums = ordered[..., :1]
        while sums.shape[-1] < ordered.shape[-1]:
            differences = ordered[..., sums.shape[-1] : 2 * sums.shape[-1]]
            pairs = np.stack([sums + differences, sums - differences], axis=-1)
            sums = pairs.reshape(*sums.shape[:-1], -1) / 2
        array = np.moveaxis(sums, -1, axis)
    return array


def walsh(values: NDArray[Any]) -> NDArray[Any]:
    """Σ_x (−1)^{bits shared by x and α} v(x) for every α, along the last axis (2^k long); its own inverse up to 2^k.

    >>> walsh(np.array([5, 1, 2, 2])).tolist(), (walsh(walsh(np.array([5, 1, 2, 2]))) // 4).tolist()
    ([10, 4, 2, 4], [5, 1, 2, 2])
    """
    shape = values.shape
    half = 1
    while half < shape[-1]:
        pairs = values.reshape(*shape[:-1], -1, 2, half)
        left, right = pairs[..., 0, :], pairs[..., 1, :]
        values = np.stack([left + right, left - right], axis=-2)
        half *= 2
    return values.reshape(shape)


def haar_column(size: int) -> int:
    """How many coefficients one count meets along an axis that ``haar`` pads to a power of two.

    >>> haar_column(1), haar_column(4096), haar_column(4097)
    (1, 13, 14)
    """
    return power_of_two(size).bit_length()


def haar_variance(size: int) -> float:
    """Variance of one value after ``inverse_haar`` of an axis padded from ``size``, for coefficients of variance 1."""
    padded = power_of_two(size)
    return 1 / padded**2 + math.fsum(4.0**-level for level in range(1, padded.bit_length()))
