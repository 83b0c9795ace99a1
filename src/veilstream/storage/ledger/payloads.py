"""Payloads on their way into a commit and out of it: what was committed cannot be changed afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.storage.ledger.arrays import closed
from veilstream.values.boxes import Boxes
from veilstream.values.release import Payload
from veilstream.values.values import Values


def _view(x: NDArray[Any]) -> NDArray[Any]:
    """The same numbers for a reader, who cannot open them for writing."""
    return x[...]


def _frozen(x: NDArray[Any]) -> NDArray[Any]:
    if x.flags.c_contiguous and closed(x):
        return x
    copy = np.array(x, order="C")
    copy.setflags(write=False)
    return copy


def frozen_payload(payload: Payload) -> Payload:
    """A payload whose arrays nobody can change: what is committed is what is released."""
    std = _frozen(payload.std) if isinstance(payload.std, np.ndarray) else float(payload.std)
    if isinstance(payload, Values):
        return replace(payload, numbers=_frozen(payload.numbers), std=std)
    return replace(
        payload, values=_frozen(payload.values), std=std, low=_frozen(payload.low), high=_frozen(payload.high)
    )


def viewed_payload(payload: Payload) -> Payload:
    """The same payload for a reader."""
    std = _view(payload.std) if isinstance(payload.std, np.ndarray) else payload.std
    if isinstance(payload, Values):
        return replace(payload, numbers=_view(payload.numbers), std=std)
    return replace(payload, values=_view(payload.values), std=std, low=_view(payload.low), high=_view(payload.high))


def corners(boxes: Boxes) -> NDArray[np.int64]:
    """Low and high corners as one array: boxes × 2 × attributes."""
    return np.stack([boxes.low, boxes.high], axis=1).astype(np.int64)
