"""The dearest timestamps: where few points meet the most of many charges, each of which costs once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.presence import BEGINNING, Zone

NARROW = 1 << 61
"""Sums up to this are taken in 64 bits, larger ones in whole numbers of any size."""


class Stretch(NamedTuple):
    """A charge over the timestamps ``first..last``, in whole units."""

    first: int
    last: int
    amount: int


def dearest_stretches(stretches: Sequence[Stretch], zones: Sequence[Zone]) -> int:
    """The most that the timestamps of ``zones`` cost, where a charge costs once however many of them it covers.

    A point that moves up to the first end of what it meets, or of its zone, meets no less: only ends need to be
    tried. With the points chosen from left to right, a new one after q adds what it meets of the charges that begin
    after q; best[p], the most that any choice ending at p meets, grows by one point at a time.

    >>> block = [Stretch(0, 9, 5), Stretch(2, 2, 3), Stretch(7, 7, 4), Stretch(8, 8, 1)]
    >>> [dearest_stretches(block, [(0, 9, count)]) for count in (1, 2, 3)]
    [9, 12, 13]
    """
    inside = [s for s in stretches if any(s.first <= last and first <= s.last for first, last, _ in zones)]
    if len(inside) <= min(count for _, _, count in zones):
        # Each has a point of its own.
        return sum(stretch.amount for stretch in inside)
    wide = sum(stretch.amount for stretch in inside) > NARROW
    ends = [sorted({s.last for s in inside if first <= s.last <= last} | {last}) for first, last, _ in zones]
    times = np.array([BEGINNING - 1, *(t for part in ends for t in part)], dtype=np.int64)
    gains = _gains(inside, times, np.object_ if wide else np.int64)
    best: NDArray[Any] = np.full(len(times), -1, dtype=gains.dtype)
    best[0] = 0
    start = 1
    for (_, _, count), part in zip(zones, ends, strict=True):
        here = slice(start, start + len(part))
        for _ in range(min(count, len(part))):
            usable = best >= 0
            reached = (best[usable, None] + gains[usable, here]).max(axis=0)
            better = np.maximum(best[here], reached)
            if (better == best[here]).all():
                break
            best[here] = better
        start += len(part)
    return int(best.max())


def _gains(stretches: Sequence[Stretch], times: NDArray[np.int64], dtype: Any) -> NDArray[Any]:
    """[q, p]: the charges that a point at times[p] meets and one at times[q] before it does not.

    Where q ≥ p it is below any sum.
    """
    first, last, amount = (np.array(column) for column in zip(*stretches, strict=True))
    order = np.argsort(-first, kind="stable")
    first, last, amount = first[order], last[order], amount[order].astype(dtype)
    met = np.where((first[:, None] <= times) & (times <= last[:, None]), amount[:, None], 0)
    sums = np.concatenate([np.zeros((1, len(times)), dtype=dtype), np.cumsum(met, axis=0)])
    begun = np.searchsorted(-first, -times, side="left")
    gains: NDArray[Any] = sums[begun]
    gains[times[:, None] >= times] = -1 - sum(stretch.amount for stretch in stretches)
    return gains
