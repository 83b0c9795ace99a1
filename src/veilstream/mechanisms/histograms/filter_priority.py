"""Filter priority: the cells of a sparse domain that stand out of the noise, at several resolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms._trees import Settle, coordinates_of, sums_by
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.records import SealedRecords, cell_keys, sorted_runs
from veilstream.values.boxes import Boxes, cells_of, require_dense
from veilstream.values.mixing import GOLDEN_GAMMA, splitmix64
from veilstream.values.values import Values

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_LEVELS = 40


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """The blocks of one resolution that reached its level: coordinates on the coarse grid and noisy counts."""

    shift: int
    shape: tuple[int, ...]
    cells: Integers
    values: Floats
    std: float


@dataclass(frozen=True, slots=True)
class FilterPriority:
    """Lists the cells whose noisy counts reach a public level, at several resolutions that are made to agree.

    *Filter.* Noise goes on every cell, empty ones too; only cells with noisy count ≥ θ are listed. An empty cell passes
    with p = q^θ/(1+q), q = e^{−ε/l1}, and θ is the least whole number for which no more than ``spurious`` of them are
    expected to. On a domain of 1000⁸ cells the list has about as many entries as there are heavy cells: the number of
    empty cells that pass is drawn from its exact law, never cell by cell (``Meter.reaching``).

    *Priority sample.* If more than ``keep`` cells pass, cell i of value v_i has priority v_i/u_i with a uniform u_i;
    the ``keep`` highest stay with value max(v_i, τ), where τ is the highest priority left out, and sums over any set of
    cells stay unbiased. u_i is a public hash of the cell: successive releases keep the same cells where they can.

    *Consistency.* ``levels`` resolutions, from one block for all the domain down to single cells, have ε/levels each.
    A block counts only inside a listed block of the next coarser resolution: what passes in an empty neighbourhood
    is noise. What a block has over the sum of its listed parts is spread evenly over it; parts that exceed their block
    are lowered to the nearest numbers ≥ 0, in least squares, with the block's sum. So every listed block is the sum
    of its parts, and records in cells too light to be listed still count in their neighbourhood.

    >>> import numpy as np, veilstream as vs
    >>> counts = np.zeros((1, 4096), dtype=int)
    >>> counts[0, [7, 300, 2999]] = 500, 200, 900
    >>> y = vs.simulate(vs.STREAMS["sample"](FilterPriority()), vs.Guarantee(1, w=1), counts, seed=1)
    >>> bool(abs(y[0] - counts[0]).sum() < 150), bool(abs(y[0, [7, 300, 2999]] - [500, 200, 900]).max() < 40)
    (True, True)

    Cormode, Procopiuc, Srivastava, Tran: Differentially private publication of sparse data, ICDT 2012 (filter,
    threshold and priority sampling without making the noisy table); read in its abstract and introduction, and in a
    public implementation of its one-sided filter, whose p and tail are those above, not in full.

    Corrected or changed: θ comes from public numbers alone (chosen by the number of filled cells it would leak that
    number); the passing empty cells follow the exact law of exact discrete noise; the list is in the order of the
    cells, because in the order of making the filled ones come first; the filter is one-sided, as counts are not
    negative. Later work compares with this method "with consistency checks", of which no text was at hand:
    the resolutions and the way they agree are this package's own construction; ``levels=1`` is the plain filter.

    The noise of a listed value is skewed, since it passed a filter; ``std`` is that of the noise before the filter.
    """

    levels: int = 3
    spurious: int = 1
    keep: int = 100_000
    batchable: ClassVar[bool] = True
    sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        limits = {"levels": (self.levels, MAX_LEVELS), "spurious": (self.spurious, 10**6), "keep": (self.keep, 10**7)}
        for name, (value, most) in limits.items():
            if type(value) is not int or not 1 <= value <= most:
                raise InvalidInputError(name=name, value=value, limit=f"a whole number from 1 to {most}")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        require_dense(x.shape)
        coordinates = coordinates_of(x.shape)
        share, scale = self._share(x.shape, x.l1, x.span.steps, epsilon, meter)
        std = np.zeros(x.size)
        listed: list[Listed] = []
        for shift in resolutions(x.shape, self.levels):
            shape = coarse_shape(x.shape, shift)
            labels = np.asarray(np.ravel_multi_index(tuple(coordinates >> shift), shape), dtype=np.int64)
            values = meter.laplace(x.sums(labels, cells_of(shape)), share, "filter")
            reached = np.flatnonzero(meter.branch(values.numbers >= self.level(shape, scale)))
            cells = np.stack(np.unravel_index(reached, shape), axis=1).astype(np.int64)
            noisy = values.numbers[..., reached].astype(np.float64)
            listed.append(Listed(shift, shape, cells, noisy, float(np.max(values.std))))
        numbers = np.zeros((*listed[0].values.shape[:-1], x.size))
        for part in consistent_lists(self._sampled(listed, meter)):
            density = np.zeros((*part.values.shape[:-1], cells_of(part.shape)))
            flat = np.ravel_multi_index(tuple(part.cells.T), part.shape)
            labels = np.ravel_multi_index(tuple(coordinates >> part.shift), part.shape)
            volume = np.bincount(labels, minlength=density.shape[-1])
            density[..., flat] = part.values / volume[flat]
            numbers += density[..., labels]
            deviation = np.zeros(density.shape[-1])
            deviation[flat] = part.std / volume[flat]
            std = np.where(deviation[labels] > 0, deviation[labels], std)
        return Values(numbers, std)

    def estimate_records(self, records: SealedRecords, epsilon: Fraction, meter: Meter) -> Boxes:
        """The listed blocks of a domain of any size; where they overlap their values add.

        >>> import numpy as np, veilstream as vs
        >>> from veilstream.privacy.accountant import Accountant
        >>> from veilstream.trusted.records import seal_records
        >>> rows = np.tile([[3, 5, 7, 11, 13, 17, 19, 23]], (5000, 1))
        >>> meter = Meter(Accountant(vs.Guarantee(1, w=1), bins=1), vs.noise.SecureNoise(), t=0)
        >>> cells = FilterPriority().estimate_records(seal_records(rows, (1000,) * 8, t=0), Fraction(1), meter)
        >>> bool(abs(cells.count(rows[0], rows[0] + 1) - 5000) < 400), meter.left
        (True, Fraction(0, 1))
        """
        share, scale = self._share(records.shape, records.l1, records.span.steps, epsilon, meter)
        listed: list[Listed] = []
        for shift in resolutions(records.shape, self.levels):
            coarse = records.coarser(shift)
            passing = meter.reaching(coarse, self.level(coarse.shape, scale), share, "filter")
            listed.append(Listed(shift, coarse.shape, passing.low, passing.values, float(np.max(passing.std))))
        parts = consistent_lists(self._sampled(listed, meter))
        low = np.concatenate([part.cells << part.shift for part in parts])
        high = np.concatenate([(part.cells + 1) << part.shift for part in parts])
        values = np.concatenate([part.values for part in parts])
        std = np.concatenate([np.full(part.values.size, part.std) for part in parts])
        listed_cells = values != 0
        return Boxes(
            records.shape,
            low[listed_cells],
            np.minimum(high, np.array(records.shape))[listed_cells],
            values[listed_cells],
            std[listed_cells],
        )

    def _share(
        self, shape: tuple[int, ...], max_contribution: Fraction, steps: int, epsilon: Fraction, meter: Meter
    ) -> tuple[Fraction, float]:
        """What each resolution may spend, and its noise scale."""
        share = epsilon / len(resolutions(shape, self.levels))
        return share, float(max_contribution * meter.guarantee.steps_at_once(steps) / share)

    def level(self, shape: tuple[int, ...], scale: float) -> int:
        """The least θ ≥ 1 that at most ``spurious`` of the domain's cells, all empty, are expected to reach."""
        excess = math.log(cells_of(shape)) - math.log(self.spurious) - math.log1p(math.exp(-1 / scale))
        return max(1, math.ceil(scale * excess))

    def _sampled(self, listed: list[Listed], meter: Meter) -> list[Listed]:
        return [priority_sample(part, self.keep, meter.branch) for part in listed]


def resolutions(shape: tuple[int, ...], levels: int) -> list[int]:
    """Shifts from one block for the whole domain (0 alone if there is one level) down to single cells."""
    most = max((length - 1).bit_length() for length in shape)
    steps = min(levels - 1, most)
    return [round(most * (steps - i) / steps) for i in range(steps + 1)] if steps else [0]


def coarse_shape(shape: tuple[int, ...], shift: int) -> tuple[int, ...]:
    return tuple(1 + ((length - 1) >> shift) for length in shape)


def priority_sample(part: Listed, keep: int, settle: Settle = np.asarray) -> Listed:
    """The ``keep`` cells of highest priority with values that leave every sum unbiased over the hash."""
    if len(part.cells) <= keep:
        return part
    priority = part.values / uniform_hash(part.cells)
    order = np.argsort(-priority, axis=-1, kind="stable")
    first = np.zeros(order.shape, dtype=np.bool_)
    np.put_along_axis(first, order[..., :keep], True, axis=-1)
    chosen = np.flatnonzero(settle(first))
    tau = np.take_along_axis(priority, order[..., keep : keep + 1], axis=-1)
    return replace(part, cells=part.cells[chosen], values=np.maximum(part.values[..., chosen], tau))


def uniform_hash(cells: Integers) -> Floats:
    """A number in (0, 1] that depends on the cell alone and looks uniform (splitmix64 over the axes)."""
    state = np.full(len(cells), GOLDEN_GAMMA, dtype=np.uint64)
    for column in cells.T:
        state = splitmix64((state ^ column.astype(np.uint64)) + np.uint64(GOLDEN_GAMMA))
    return ((state >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53


def consistent_lists(listed: list[Listed]) -> list[Listed]:
    """From coarse to fine: drop blocks outside listed blocks and lower parts to their block.

    Each value returned is what its block holds beyond its listed parts.
    """
    result = listed[:1]
    for part in listed[1:]:
        above = result[-1]
        parent = _positions(part.cells >> (above.shift - part.shift), above.cells, above.shape)
        inside = parent >= 0
        cells, parent = part.cells[inside], parent[inside]
        values = lowered(part.values[..., inside], parent, above.values)
        rest = above.values - sums_by(parent, values, above.values.shape[-1])
        result[-1] = replace(above, values=np.maximum(rest, 0.0))
        result.append(replace(part, cells=cells, values=values))
    return result


def lowered(values: Floats, parent: Integers, limits: Floats) -> Floats:
    """The nearest numbers ≥ 0 to positive ``values`` whose sums by ``parent`` do not pass ``limits`` > 0.

    Where the sum is too large all members lose the same amount, and those that it would make negative become 0: with
    the members in falling order the amount is the largest of (v_1 + ... + v_k − limit)/k.

    >>> lowered(np.array([10.0, 4.0, 1.0, 3.0]), np.array([0, 0, 0, 1]), np.array([10.0, 5.0]))
    array([8., 2., 0., 3.])
    """
    order = np.lexsort((-values, np.broadcast_to(parent, values.shape)))
    group = np.sort(parent)
    limited = int(limits.shape[-1])
    begin = np.searchsorted(group, np.arange(limited))
    falling = np.take_along_axis(values, order, axis=-1)
    running = np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(falling, axis=-1)], axis=-1)
    rank = np.arange(group.size) - begin[group] + 1
    amount = (running[..., 1:] - running[..., begin[group]] - limits[..., group]) / rank
    largest = np.zeros(limits.shape)
    present, first = np.unique(group, return_index=True)
    largest[..., present] = np.maximum(np.maximum.reduceat(amount, first, axis=-1), 0.0)
    return np.maximum(values - largest[..., parent], 0.0)


def _positions(wanted: Integers, among: Integers, shape: tuple[int, ...]) -> Integers:
    """For each row of ``wanted`` its position in ``among`` (distinct rows), or -1."""
    order, new = sorted_runs(cell_keys(np.concatenate([among, wanted]), shape))
    run = np.empty(order.size, dtype=np.int64)
    run[order] = np.cumsum(new) - 1
    position = np.full(order.size, -1, dtype=np.int64)
    position[run[: len(among)]] = np.arange(len(among))
    return position[run[len(among) :]]
