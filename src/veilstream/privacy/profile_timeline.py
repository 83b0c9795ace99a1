"""What rows of running sums cost every timestamp, beside the charges that cost whole windows.

A row whose noise is scaled to μ² at weight 1 costs a timestamp that it reads with weight c the amount μ²·c². Groups of
a running sum only merge, so that of the timestamps in a group the dearest is all that ever matters: the memory is that
of one row. Where decaying buffers read the past, one number bounds what any timestamp pays. PROOF.md, "Rows of running
sums" and "Rows by decaying buffers", has the theorems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import ChargeError
from veilstream.privacy.bin_timeline import BinTimeline
from veilstream.privacy.blocks import Block
from veilstream.privacy.buffers import SCALE_BITS, Buffers
from veilstream.privacy.charge import Charge
from veilstream.privacy.kernels import WEIGHT_BITS, Kernel
from veilstream.privacy.past_windows import ZERO
from veilstream.privacy.profile import SQUARED_ONE, Profile
from veilstream.privacy.snapshots import ProfileSnapshot, TrackSnapshot
from veilstream.privacy.timeline import Timeline

Integers = NDArray[np.int64]
MOST_TRACKS = 64
"""Beyond it the two oldest running sums count as one that costs as much as the dearer."""


@dataclass(frozen=True, slots=True)
class _Track:
    """One running sum: for every group of its last row the squared weights, summed over rows, of its dearest timestamp.

    Read by buffers it has one group. ``kernel`` is None once no row can be added any more.
    """

    kernel: Kernel | Buffers | None
    unit: Fraction
    start: int
    last: int
    firsts: Integers
    squares: Integers

    @property
    def cost(self) -> Fraction:
        """Of the dearest timestamp."""
        return self.unit * Fraction(int(self.squares.max()), SQUARED_ONE)

    @property
    def newest(self) -> Fraction:
        """Of the last timestamp alone."""
        square = int(self.squares[-1])
        if isinstance(self.kernel, Buffers):
            square = min(square, _own_square(self.kernel, self.last - self.start))
        return self.unit * Fraction(square, SQUARED_ONE)

    def takes(self, profile: Profile, unit: Fraction) -> bool:
        return (
            self.kernel == profile.kernel
            and (self.unit, self.start) == (unit, profile.start)
            and (profile.last >= self.last)
        )

    def snapshot(self) -> TrackSnapshot:
        return TrackSnapshot(_encoded(self.kernel), self.unit, self.start, self.last, self.firsts, self.squares)

    @classmethod
    def restored(cls, known: TrackSnapshot) -> _Track:
        return cls(_decoded(known.kernel), known.unit, known.start, known.last, known.firsts, known.squares)

    def after(self, profile: Profile) -> _Track:
        if isinstance(profile.kernel, Buffers):
            return self._after_buffered(profile, profile.kernel)
        firsts, weights = _pieces(profile.kernel, profile)
        known = firsts <= self.last
        squares = np.zeros(len(firsts), dtype=np.int64)
        # Every old group lies in one of the new ones, which begins where an old one does.
        starts = np.searchsorted(self.firsts, firsts[known])
        squares[known] = np.maximum.reduceat(self.squares, starts)
        return _Track(self.kernel, self.unit, self.start, profile.last, firsts, squares + weights**2)

    def _after_buffered(self, profile: Profile, buffers: Buffers) -> _Track:
        if profile.last == self.last:
            # A row that was asked for before: nobody is read with more weight than the timestamp of the row.
            squares = self.squares + _own_square(buffers, profile.row)
        else:
            repeated = self.squares - _buffered_squares(buffers, self.last - self.start)
            squares = repeated + _buffered_squares(buffers, profile.row)
        return _Track(self.kernel, self.unit, self.start, profile.last, self.firsts, squares)


def _encoded(kernel: Kernel | Buffers | None) -> list[int] | None:
    """Kernels begin with their detail, which is at least 1; buffers with 0."""
    return [0, *kernel.encoded()] if isinstance(kernel, Buffers) else None if kernel is None else kernel.encoded()


def _decoded(numbers: list[int] | None) -> Kernel | Buffers | None:
    if numbers is None:
        return None
    return Kernel.decoded(numbers) if numbers[0] else Buffers.decoded(numbers[1:])


def _pieces(kernel: Kernel, profile: Profile) -> tuple[Integers, Integers]:
    firsts, weights = kernel.pieces(profile.row)
    return firsts + profile.start, weights


@lru_cache(maxsize=64)
def _buffered_squares(buffers: Buffers, row: int) -> int:
    """What rows up to this one cost any timestamp, in multiples of 2⁻³² of the unit, rounded up."""
    most = buffers.spent(row + 1) * SQUARED_ONE
    return -(-most.numerator // most.denominator)


def _own_square(buffers: Buffers, row: int) -> int:
    return buffers.scale(row) ** 2 << (2 * (WEIGHT_BITS - SCALE_BITS))


def _opened(profile: Profile, unit: Fraction) -> _Track:
    if isinstance(profile.kernel, Buffers):
        squares = np.array([_buffered_squares(profile.kernel, profile.row)], dtype=np.int64)
        return _Track(profile.kernel, unit, profile.start, profile.last, np.array([profile.start]), squares)
    firsts, weights = _pieces(profile.kernel, profile)
    return _Track(profile.kernel, unit, profile.start, profile.last, firsts, weights**2)


class ProfileTimeline:
    """A timeline with the rows of running sums on top.

    >>> from veilstream.privacy.charge import Span
    >>> from veilstream.privacy.window_timeline import WindowTimeline
    >>> line, unit = ProfileTimeline(WindowTimeline(w=1)), Fraction(1, 4)
    >>> for t in range(3):
    ...     line.advance(t)
    ...     row = Profile(Kernel(), start=0, row=t)
    ...     line.add(unit, Charge(Fraction(0), Span(0, t), "total", unit, starts=row.encoded()))
    >>> float(line.peak) * 4, float(line.current) * 4
    (1.390625, 1.0)
    """

    def __init__(self, ordinary: Timeline) -> None:
        self._ordinary = ordinary
        self._most = ordinary.fullest
        self._tracks: list[_Track] = []
        self._now: int | None = None

    @property
    def current(self) -> Fraction:
        here = [track.newest for track in self._tracks if track.last == self._now]
        return self._ordinary.current + sum(here, ZERO)

    @property
    def unit(self) -> str:
        return f"{self._ordinary.unit}, with rows of running sums,"

    @property
    def peak(self) -> Fraction:
        """The dearest timestamp of all running sums and the fullest window of all else, together."""
        return self._most + _dearest(self._tracks)

    def advance(self, now: int) -> None:
        self._now = now
        self._ordinary.advance(now)

    def would_cost(self, wanted: Sequence[tuple[Fraction, Charge]]) -> Fraction:
        others = [(amount, charge) for amount, charge in wanted if charge.profile is None]
        most = max(self._most, self._ordinary.would_cost(others)) if others else self._most
        tracks = list(self._tracks)
        for amount, charge in wanted:
            if charge.profile is not None:
                tracks = _with(tracks, charge.profile, amount)
        return most + _dearest(tracks)

    def add(self, amount: Fraction, charge: Charge) -> None:
        if charge.profile is not None:
            self._tracks = _with(self._tracks, charge.profile, amount)
            return
        self._most = max(self._most, self._ordinary.would_cost([(amount, charge)]))
        self._ordinary.add(amount, charge)

    def close(self, block: int) -> None:
        self._ordinary.close(block)

    def open_blocks(self) -> dict[int, Block]:
        return dict(self._ordinary.open_blocks())

    def by_bin(self, bins: int, now: int | None) -> BinTimeline:
        raise ChargeError(name="charge", limit="bins are not named in a stream that has rows of running sums")

    @property
    def fullest(self) -> Fraction:
        return self.peak

    def snapshot(self) -> ProfileSnapshot:
        ordinary = self._ordinary.snapshot()
        assert not isinstance(ordinary, ProfileSnapshot)
        return ProfileSnapshot(self._now, self._most, ordinary, [track.snapshot() for track in self._tracks])

    @classmethod
    def restored(cls, ordinary: Timeline, known: ProfileSnapshot) -> ProfileTimeline:
        """The timeline of which ``known`` is the snapshot, over the one beneath it."""
        line = cls.__new__(cls)
        line._ordinary, line._most, line._now = ordinary, known.most, known.now
        line._tracks = [_Track.restored(track) for track in known.tracks]
        return line


def _with(tracks: Sequence[_Track], profile: Profile, unit: Fraction) -> list[_Track]:
    """The tracks once a row is added: to the running sum that it belongs to, or as the first of another."""
    for index in range(len(tracks) - 1, -1, -1):
        if tracks[index].takes(profile, unit):
            return [*tracks[:index], tracks[index].after(profile), *tracks[index + 1 :]]
    added = [*tracks, _opened(profile, unit)]
    if len(added) > MOST_TRACKS:
        added[:2] = [_merged(added[0], added[1])]
    return added


def _merged(one: _Track, other: _Track) -> _Track:
    """Two running sums as one that reads all that any of them reads and costs all that both do where they overlap."""
    apart = one.last < other.start or other.last < one.start
    cost = max(one.cost, other.cost) if apart else one.cost + other.cost
    start, last = min(one.start, other.start), max(one.last, other.last)
    return _Track(None, cost, start, last, np.array([start]), np.array([SQUARED_ONE]))


def _dearest(tracks: Sequence[_Track]) -> Fraction:
    """The most that any timestamp pays, each running sum at its own dearest."""
    if len(tracks) < 2:
        return tracks[0].cost if tracks else ZERO
    costs = [(track, track.cost) for track in tracks]
    return max(
        sum((cost for other, cost in costs if other.start <= track.start <= other.last), ZERO) for track, _ in costs
    )


def with_profiles(line: Timeline) -> ProfileTimeline:
    """A timeline that takes rows of running sums."""
    return line if isinstance(line, ProfileTimeline) else ProfileTimeline(line)
