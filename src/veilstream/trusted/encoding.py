"""Sealed values as plain ones, for the codec that stores a mechanism's state and for nothing else.

An import contract lets only ``veilstream.storage.codec`` import this module.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.buffers import Buffers
from veilstream.privacy.charge import Span
from veilstream.privacy.kernels import Kernel
from veilstream.trusted.block_noise import NoiseBlock
from veilstream.trusted.correlated import CorrelatedNoise
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import opened
from veilstream.trusted.running import SealedRunning
from veilstream.trusted.threshold import SealedThreshold


@hide_frames
def sealed_to_plain(x: Sealed) -> dict[str, Any]:
    """Everything that ``sealed_from_plain`` needs, exact values included."""
    return {
        "exact": opened(x),
        "span": (x.span.first, x.span.last),
        "l1": x.l1.as_integer_ratio(),
        "l2": x.l2.as_integer_ratio(),
        "grid": x.grid,
        "shape": x.shape,
        "bins": x.bins,
        "starts": x.starts,
        "aligned": x.aligned,
    }


@hide_frames
def sealed_from_plain(plain: dict[str, Any]) -> Sealed:
    """The vector that was stored; ``since`` and ``placed`` are what states of earlier versions call two fields."""
    return Sealed(
        plain["exact"],
        Span(*plain["span"]),
        Fraction(*plain["l1"]),
        l2=Fraction(*plain["l2"]),
        grid=plain["grid"],
        shape=tuple(plain["shape"]),
        bins=plain["bins"],
        starts=plain["starts"] if "starts" in plain else plain["since"],
        aligned=plain["aligned"] if "aligned" in plain else plain["placed"],
    )


@hide_frames
def threshold_to_plain(x: SealedThreshold) -> dict[str, Any]:
    """Everything that ``threshold_from_plain`` needs, the secret noise included."""
    return {
        "block": x.block,
        "opened": x.opened,
        "sensitivity": x.sensitivity,
        "epsilon_rho": x.epsilon_rho,
        "epsilon_nu": x.epsilon_nu,
        "purpose": x.purpose,
        "rho": opened(x),
    }


@hide_frames
def threshold_from_plain(plain: dict[str, Any]) -> SealedThreshold:
    """The block that was stored."""
    return SealedThreshold(**plain)


@hide_frames
def running_to_plain(x: SealedRunning) -> dict[str, Any]:
    """Everything that ``running_from_plain`` needs, exact values included."""
    groups: tuple[NDArray[np.int64], ...] = opened(x)
    return {
        "groups": np.stack(groups),
        "kernel": x.kernel.encoded(),
        "start": x.start,
        "last": x.last,
        "l2": x.l2.as_integer_ratio(),
        "grid": x.grid,
    }


@hide_frames
def running_from_plain(plain: dict[str, Any]) -> SealedRunning:
    """The running sum that was stored."""
    groups, kernel = tuple(plain["groups"]), Kernel.decoded(list(plain["kernel"]))
    return SealedRunning(groups, kernel, plain["start"], plain["last"], Fraction(*plain["l2"]), plain["grid"])


@hide_frames
def noise_block_to_plain(x: NoiseBlock) -> dict[str, Any]:
    """Everything that ``noise_block_from_plain`` needs, the secret noise included."""
    return {
        "rows": opened(x),
        "block": x.block,
        "opened": x.opened,
        "epsilon": x.epsilon,
        "max_contribution": x.max_contribution,
        "purpose": x.purpose,
        "used": x.used,
        "looked": x.looked,
    }


@hide_frames
def noise_block_from_plain(plain: dict[str, Any]) -> NoiseBlock:
    """The block that was stored."""
    return NoiseBlock(**plain)


@hide_frames
def correlated_to_plain(x: CorrelatedNoise) -> dict[str, Any]:
    """Everything that ``correlated_from_plain`` needs, the secret noise included."""
    return {
        "held": opened(x),
        "buffers": x.buffers.encoded(),
        "start": x.start,
        "last": x.last,
        "size": x.size,
        "l1": x.l1.as_integer_ratio(),
        "l2": x.l2.as_integer_ratio(),
        "grid": x.grid,
        "x_grid": x.x_grid,
    }


@hide_frames
def correlated_from_plain(plain: dict[str, Any]) -> CorrelatedNoise:
    """The buffers that were stored."""
    known = {
        "buffers": Buffers.decoded(list(plain["buffers"])),
        "l1": Fraction(*plain["l1"]),
        "l2": Fraction(*plain["l2"]),
    }
    return CorrelatedNoise(**{**plain, **known})
