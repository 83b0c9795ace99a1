"""Exact counts in an opaque vector that knows how far one unit can move it.

Mechanism authors never state a sensitivity: every operation here derives it. Reading the numbers needs
``veilstream.trusted.opening``, which only the trust boundary may import.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.charge import Names, Span, Times, time_type
from veilstream.privacy.rationals import sqrt_up
from veilstream.trusted import transforms
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.grids import PIECE, Index, distinct_positions, finer, on_grid, public_grid, restart
from veilstream.trusted.opening import opened
from veilstream.trusted.sealed import Opaque
from veilstream.trusted.spectrum import FOURIER_GRID, fourier_coordinates, fourier_slack
from veilstream.values.origin import UNKNOWN, Origin
from veilstream.values.values import Numbers


class Sealed(Opaque[NDArray[np.int64]]):
    """Exact values ``v · 2^-grid`` (``v`` whole), read from the timestamps in ``span``.

    At any single timestamp one unit moves the vector by at most ``l1`` in the L1 norm and ``l2`` in the L2 norm.
    Sums add these bounds, except that disjoint spans take the larger one: a timestamp is then in one of them only.
    How many timestamps of the span a unit may touch is the guarantee's business and is left to the Meter.

    ``bins`` names the bins that the values were read from, None for all. Only where ``aligned`` says that value i
    belongs to bin i (of ``bins``) does selecting values narrow the names: a sum or a Fourier coordinate reads many.

    >>> a = seal(np.array([3, 4, 5]), t=7)
    >>> a
    Sealed(size=3, span=7..7, l1=1)
    >>> (a + a).l1, (a + seal(np.array([1, 1, 1]), t=8)).l1, a.total().l1
    (Fraction(2, 1), Fraction(1, 1), Fraction(1, 1))
    >>> list(a)
    Traceback (most recent call last):
    ...
    veilstream.errors.SealedAccessError: exact values cannot be read; ask the Meter for a noisy answer
    """

    __slots__ = ("_l1", "_l2", "_parts", "aligned", "bins", "grid", "origin", "shape", "span", "starts")

    def __init__(
        self,
        exact: NDArray[np.int64],
        span: Span,
        l1: Fraction,
        *,
        l2: Fraction | None = None,
        grid: int = 0,
        shape: tuple[int, ...] | None = None,
        bins: Names | None = None,
        starts: Times | None = None,
        aligned: bool = False,
        parts: int | None = None,
        origin: Origin = UNKNOWN,
    ) -> None:
        super().__init__(exact)
        self.origin = origin
        """Of counts of one step as they were sealed; what is derived from them has none."""
        self.span = span
        self._l1 = l1
        self._l2 = l1 if l2 is None else l2
        self.grid = grid
        self.shape = shape if shape is not None else (exact.size,)
        self.bins = bins
        self.starts = starts
        self.aligned = aligned
        self._parts = parts

    @property
    def size(self) -> int:
        return int(opened(self).shape[-1])

    @property
    def l1(self) -> Fraction:
        """How far one unit moves the vector at one timestamp, in the L1 norm."""
        # The L2 norm helps only where it is the smaller one.
        if self._l1 is self._l2:
            return self._l1
        return self._l1 if self._l1 <= self._l2 else min(self._l1, sqrt_up(Fraction(self.size)) * self._l2)

    @property
    def l2(self) -> Fraction:
        """How far one unit moves the vector at one timestamp, in the L2 norm."""
        return min(self._l1, self._l2)

    @property
    def parts(self) -> int:
        """In how many vectors of different bins one unit may have counts at one timestamp.

        It matters to statistics whose movement has a part that does not shrink with the counts (PROOF.md, "Named
        bins"): the charges of vectors with names run in parallel, and each of them may bring that part along.
        """
        if self._parts is not None:
            return self._parts
        return 1 if self.bins is None else max(1, math.floor(self.l1 * (1 << self.grid)))

    def __add__(self, other: Sealed) -> Sealed:
        if self.size != other.size:
            raise InvalidInputError(f"sum of sealed vectors of {self.size} and {other.size} values")
        grid = max(self.grid, other.grid)
        disjoint = not self.span.touches(other.span)
        same_bins = self.bins is other.bins or (
            self.bins is not None and other.bins is not None and np.array_equal(self.bins, other.bins)
        )
        return Sealed(
            finer(opened(self), grid - self.grid) + finer(opened(other), grid - other.grid),
            self.span | other.span,
            max(self._l1, other._l1) if disjoint else self._l1 + other._l1,
            l2=max(self._l2, other._l2) if disjoint else self._l2 + other._l2,
            grid=grid,
            shape=self.shape,
            bins=self.bins if same_bins else None,
            starts=None if self.starts is None else self._starts_with(other),
            aligned=self.aligned and other.aligned and same_bins,
        )

    def with_starts(self) -> Sealed:
        """The same values, with a memory for every bin of where its own span begins (see ``restarted``)."""
        return self._derive(opened(self), starts=self._starts() if self.aligned else None, aligned=self.aligned)

    def restarted(self, bins: NDArray[np.bool_] | NDArray[np.int64]) -> Sealed:
        """Zero in ``bins``, a mask or positions; the span of those bins begins anew after the last timestamp read."""
        exact = opened(self).copy()
        # Three dots before an index cost half as much again as the zeros.
        exact[bins if exact.ndim == 1 else (..., bins)] = 0
        starts = restart(self._starts(), bins, self.span.last) if self.aligned else None
        return self._derive(exact, starts=starts, aligned=self.aligned)

    def _starts_with(self, other: Sealed) -> Times:
        # A bin's span begins at the latest just after this vector's last timestamp.
        later = other.starts is None and other.span.first > self.span.last
        return self._starts() if later else np.minimum(self._starts(), other._starts())

    def _starts(self) -> Times:
        first = self.span.first
        return np.full(self.size, first, dtype=time_type(first)) if self.starts is None else self.starts

    def select(self, bins: Index) -> Sealed:
        """Some of the values, by public positions (each at most once)."""
        chosen = distinct_positions(bins, self.size)
        exact = opened(self).take(chosen, axis=-1)
        if not self.aligned:
            return self._derive(exact)
        named = chosen if self.bins is None else self.bins[chosen]
        starts = None if self.starts is None else self.starts[chosen]
        return self._derive(exact, bins=named, starts=starts, aligned=True)

    def without(self, bins: Index) -> Sealed:
        """The same values but 0 at ``bins``, which have not been read."""
        dropped = distinct_positions(bins, self.size)
        exact = opened(self).copy()
        exact[dropped if exact.ndim == 1 else (..., dropped)] = 0
        read: Names | None = None
        if self.aligned:
            remaining = np.ones(self.size, dtype=np.bool_)
            remaining[dropped] = False
            # Where most bins are read, a truth value for each takes less time and room than their positions.
            read = remaining if self.bins is None else self.bins[remaining]
        return self._derive(exact, bins=read)

    def split_pending(
        self, later: Sealed, summed: Index, separate: Index, single: Index
    ) -> tuple[Sealed, Sealed, Sealed]:
        """Split pending counts and those of ``later`` into two vectors to be published and the sum that stays pending.

        Positions fall into named groups. The first vector has the pending values at ``separate``, then the sums of
        pending and later values at ``summed``, then the later values at ``separate``; the second has the sums at
        ``single``. In the third, all of these positions are 0 and start anew (see ``restarted``).
        The spans do not touch and no position comes twice: at any single timestamp only one of the two vectors moves,
        and each of its values is in one place, so that the larger ``l1`` holds.
        """
        both, split, units_at = (distinct_positions(bins, self.size) for bins in (summed, separate, single))
        spent = np.concatenate([split, both, units_at])
        named = np.zeros(self.size, dtype=np.bool_)
        named[spent] = True
        complete = self.bins is None and later.bins is None and self.aligned and later.aligned
        distinct = np.count_nonzero(named) == spent.size
        if not complete or self.size != later.size or self.span.touches(later.span) or not distinct:
            raise InvalidInputError(
                "split_pending: it takes two complete vectors of spans that do not touch, and each position once"
            )
        grid = max(self.grid, later.grid)
        mine, its = finer(opened(self), grid - self.grid), finer(opened(later), grid - later.grid)
        total, starts = mine + its, self._starts_with(later)
        parts = [mine.take(split, axis=-1), total.take(both, axis=-1), its.take(split, axis=-1)]

        def part(exact: NDArray[np.int64], **where: Any) -> Sealed:
            l1, l2 = max(self._l1, later._l1), max(self._l2, later._l2)
            return Sealed(exact, self.span | later.span, l1, l2=l2, grid=grid, **where)

        grouped = spent[: split.size + both.size]
        groups = part(np.concatenate(parts, axis=-1), bins=grouped, starts=starts.take(grouped))
        units = part(total.take(units_at, axis=-1), bins=units_at, starts=starts.take(units_at))
        total[spent if total.ndim == 1 else (..., spent)] = 0
        pending = part(total, starts=restart(starts, spent, later.span.last), shape=self.shape, aligned=True)
        return groups, units, pending

    def sums(self, groups: NDArray[np.int64], count: int) -> Sealed:
        """Sums over public groups: value i goes into group ``groups[i]`` of ``count``; -1 leaves it out."""
        if groups.shape != (self.size,) or (groups.size and (groups.min() < -1 or groups.max() >= count)):
            raise InvalidInputError(
                f"sums: {groups.size} labels up to {groups.max(initial=-1)} for {self.size} values and {count} groups"
            )
        summed = np.zeros(count, dtype=np.int64)
        counted = groups >= 0
        np.add.at(summed, groups[counted], opened(self)[counted])
        return self._derive(summed, l2=self._l1)

    def total(self) -> Sealed:
        """The sum of all values, as a vector of one."""
        return self._derive(opened(self).sum(axis=-1, keepdims=True), l2=self._l1)

    def minus(self, public: Numbers) -> Sealed:
        """Differences to public numbers (taken at multiples of 2⁻⁸ if they are not whole)."""
        grid = max(self.grid, public_grid(public))
        return self._derive(
            (opened(self) << (grid - self.grid)) - on_grid(public, grid), grid=grid, aligned=self.aligned
        )

    def distance(self, public: Numbers) -> Sealed:
        """The L1 distance to public numbers, as a vector of one; ``l1`` carries over, as |‖x−p‖−‖y−p‖| ≤ ‖x−y‖."""
        if opened(self).ndim > 1 or public.ndim > 1:
            difference = self.minus(public)
            exact = np.abs(opened(difference)).sum(axis=-1, keepdims=True)
            return difference._derive(exact, l2=self._l1)
        grid = max(self.grid, public_grid(public))
        total = 0
        for start in range(0, self.size, PIECE):
            piece = slice(start, start + PIECE)
            total += int(self._gaps(public, piece, grid).sum())
        return self._derive(np.array([total], dtype=np.int64), l2=self._l1, grid=grid)

    def distances(self, public: Numbers, starts: NDArray[np.int64]) -> Sealed:
        """L1 distances to public numbers, one for each run of values that begins at one of ``starts``.

        ``l1`` carries over: each distance moves by at most what its own values move.
        """
        if starts.size == 0 or starts[0] != 0 or (np.diff(starts) < 1).any() or starts[-1] >= self.size:
            raise InvalidInputError(f"distances of {starts.size} runs of {self.size} values: runs begin at 0 and rise")
        grid = max(self.grid, public_grid(public))
        exact = np.add.reduceat(self._gaps(public, slice(None), grid), starts, axis=-1)
        return self._derive(exact, l2=self._l1, grid=grid)

    def _gaps(self, public: Numbers, piece: slice, grid: int) -> NDArray[np.int64]:
        mine = opened(self)[..., piece] if grid == self.grid else opened(self)[..., piece] << (grid - self.grid)
        gaps: NDArray[np.int64] = mine - on_grid(public[..., piece], grid)
        np.abs(gaps, out=gaps)
        return gaps

    def haar(self, axes: Sequence[int] | None = None) -> Sealed:
        """Unnormalised Haar differences, whole numbers: [total, then left half − right half of every dyadic block].

        In more dimensions the transform runs along each of ``axes`` of ``shape`` (all of them by default), every one
        padded with zeros to a power of two. Along an axis padded to 2^k each count meets the total and one block per
        level with weight ±1, so that a column has 1 + k entries of size 1 and ``l1`` grows by the product of these
        1 + k, ``l2`` by its root.
        """
        chosen = range(len(self.shape)) if axes is None else axes
        exact = transforms.haar(transforms.pad(opened(self), self.shape, chosen), chosen).reshape(-1)
        columns = Fraction(math.prod(transforms.haar_column(self.shape[axis]) for axis in chosen))
        return self._derive(exact, l1=self._l1 * columns, l2=self._l1 * sqrt_up(columns))

    def walsh(self, chosen: NDArray[np.int64]) -> Sealed:
        """Some Walsh-Hadamard coefficients of the table, every axis of ``shape`` padded with zeros to a power of two.

        ``chosen`` are distinct flat positions in the padded table. Each count enters each coefficient with weight ±1:
        ``l1`` grows by their number, ``l2`` by its root.
        """
        padded = transforms.pad(opened(self), self.shape, range(len(self.shape))).reshape(-1)
        if chosen.size == 0 or np.unique(chosen).size != chosen.size or chosen.min() < 0 or chosen.max() >= padded.size:
            raise InvalidInputError(
                f"walsh: {chosen.size} positions; they must be distinct and from 0 to {padded.size - 1}"
            )
        columns = Fraction(chosen.size)
        exact = transforms.walsh(padded)[chosen]
        return self._derive(exact, l1=self._l1 * columns, l2=self._l1 * sqrt_up(columns))

    def fourier(self) -> Sealed:
        """Orthonormal real Fourier coordinates [mean, cos 1, sin 1, cos 2, ...] on a grid of 2⁻²⁰.

        An isometry: ``l2`` carries over, plus what rounding and the floats' own error can add in each of ``parts``. A
        vector of norm above 2³³ is first shrunk to that norm, so that the error is bounded whatever the data. This is
        the projection on a ball, which moves no two vectors apart: no data are refused and ``l2`` stays true. Counts
        of people who count once never come near it. PROOF.md has the proof.
        """
        parts = self.parts
        l2 = self.l2 + parts * fourier_slack(self.size)
        exact = fourier_coordinates(opened(self), self.grid)
        return self._derive(exact, l1=sqrt_up(Fraction(self.size)) * l2, l2=l2, grid=FOURIER_GRID, parts=parts)

    def _derive(
        self,
        exact: NDArray[np.int64],
        *,
        l1: Fraction | None = None,
        l2: Fraction | None = None,
        grid: int | None = None,
        bins: Names | None = None,
        starts: Times | None = None,
        aligned: bool = False,
        parts: int | None = None,
    ) -> Sealed:
        return Sealed(
            exact,
            self.span,
            self._l1 if l1 is None else l1,
            l2=self._l2 if l2 is None else l2,
            grid=self.grid if grid is None else grid,
            shape=self.shape if exact.shape[-1] == self.size else None,
            bins=self.bins if bins is None else bins,
            starts=starts,
            aligned=aligned,
            parts=self._parts if parts is None else parts,
        )

    def __repr__(self) -> str:
        return f"Sealed(size={self.size}, span={self.span.first}..{self.span.last}, l1={self.l1})"


@hide_frames
def seal(
    counts: NDArray[np.int64],
    t: int,
    max_contribution: int = 1,
    shape: tuple[int, ...] | None = None,
    origin: Origin = UNKNOWN,
) -> Sealed:
    """Close exact counts of timestamp ``t``, to which one unit contributes at most ``max_contribution`` in total."""
    if np.size(counts) == 0:
        raise InvalidInputError(f"counts of 0 bins at t={t}: at least 1 is needed")
    return Sealed(
        np.array(counts, dtype=np.int64),
        Span(t, t),
        Fraction(max_contribution),
        shape=shape,
        aligned=True,
        origin=origin,
    )


class UndatedCounts(Opaque[NDArray[np.int64]]):
    """Exact counts of a timestamp that is not known yet; only a publisher makes them, before it opens a transaction."""

    __slots__ = ("max_contribution", "shape")

    def __init__(self, exact: NDArray[np.int64], max_contribution: int, shape: tuple[int, ...]) -> None:
        super().__init__(exact)
        self.max_contribution = max_contribution
        self.shape = shape

    def at(self, t: int) -> Sealed:
        """The counts as those of timestamp ``t``."""
        return seal(opened(self), t, self.max_contribution, self.shape)
