"""What recorded charges cost under any guarantee, from all of them at once: every set that one unit can reach.

It knows nothing of the order in which they were made, and no summary. How a set is worked out it shares with the books;
tests compare both with the definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence import Rule, Zone
from veilstream.privacy.presence_placement import NARROW, Stretch, dearest_stretches
from veilstream.privacy.profile import SQUARED_ONE
from veilstream.privacy.windows import fullest_window, merged_blocks, window_cost


def fullest(
    charges: Iterable[Charge], guarantee: Guarantee, bins: int = 1, *, per_timestamp: bool = False
) -> tuple[Fraction, Fraction]:
    """Pure epsilon and μ² of the dearest window, or set of timestamps that one unit can reach.

    >>> charges = [Charge(Fraction(1, 4), Span(t, t), "publish") for t in range(9)]
    >>> fullest(charges, Guarantee(1, w=5)), fullest(charges, Guarantee(1, w=5, presence=2))
    ((Fraction(5, 4), Fraction(0, 1)), (Fraction(1, 1), Fraction(0, 1)))
    """
    rule, every = guarantee.rule, list(charges)
    recorded = [charge for charge in every if charge.profile is None]
    if len(recorded) < len(every):
        pure, squared = fullest(recorded, guarantee, bins, per_timestamp=per_timestamp)
        return pure, squared + _dearest_timestamp([charge for charge in every if charge.profile is not None])
    if rule is None or not recorded:
        return fullest_window(recorded, guarantee.w, bins, per_timestamp=per_timestamp)
    if per_timestamp:
        # One unit may be in another bin at every timestamp: each costs what its fullest bin does.
        recorded = list(_fullest_bins(recorded, bins))
    pure, squared = [_dearest(rule, merged) for merged in _merged(recorded)]
    return pure, squared


def _fullest_bins(charges: Sequence[Charge], bins: int) -> Iterator[Charge]:
    """What each timestamp costs in its fullest bin, as a charge of its own."""
    at: dict[int, list[Sequence[Charge]]] = {}
    for same in merged_blocks(charges):
        for t in {t for charge in same for t in range(charge.span.first, charge.span.last + 1)}:
            at.setdefault(t, []).append(same)
    for t, touched in at.items():
        yield Charge(window_cost(touched, Span(t, t), bins)[0], Span(t, t), "step")


def _merged(charges: Iterable[Charge]) -> Iterator[tuple[int, list[Stretch]]]:
    """Pure charges, then Gaussian ones, as whole multiples of a part of 1: a block as one over all that it reads.

    A block that paused counts in the pause too, as it does in the books.
    """
    merged = list(merged_blocks(charges))
    for amounts in (
        [max(c.epsilon for c in same) for same in merged],
        [max(c.mu_squared for c in same) for same in merged],
    ):
        unit = lcm(*(amount.denominator for amount in amounts))
        spans = [(min(c.span.first for c in same), max(c.span.last for c in same)) for same in merged]
        yield (
            unit,
            [
                Stretch(first, last, int(amount * unit))
                for (first, last), amount in zip(spans, amounts, strict=True)
                if amount
            ],
        )


def _dearest(rule: Rule, merged: tuple[int, list[Stretch]]) -> Fraction:
    """The most that any set pays.

    A set pays no more than the sum of what its timestamps are touched by, of which the largest are quickly found. Sets
    are taken in the falling order of that bound, and worked out until no other can cost more. Where every charge is of
    one timestamp that is the first one.
    """
    unit, stretches = merged
    if not stretches:
        return Fraction(0)
    first, last = min(s.first for s in stretches), max(s.last for s in stretches)
    kind = np.int64 if sum(s.amount for s in stretches) <= NARROW else np.object_
    changes = np.zeros(last - first + 2, dtype=kind)
    for stretch in stretches:
        changes[stretch.first - first] += stretch.amount
        changes[stretch.last + 1 - first] -= stretch.amount
    touched = np.cumsum(changes)
    bounds: list[tuple[int, Sequence[Zone]]] = []
    for zones in rule.placements(first, last):
        most = 0
        for begin, end, count in zones:
            costs = touched[max(0, begin - first) : max(0, end + 1 - first)]
            most += int(np.sort(costs)[-count:].sum()) if costs.size else 0
        bounds.append((most, zones))
    begins, ends = (np.array([s[i] for s in stretches]) for i in (0, 1))
    worst = 0
    for most, zones in sorted(bounds, key=lambda bound: -bound[0]):
        if most <= worst:
            break
        near = np.flatnonzero((begins <= zones[-1][1]) & (ends >= zones[0][0]))
        worst = max(worst, dearest_stretches([stretches[i] for i in near], zones))
    return Fraction(worst, unit)


def _dearest_timestamp(rows: Sequence[Charge]) -> Fraction:
    """The most that rows of running sums cost any timestamp, each μ² times the square of the weight it is read with."""
    first, last = min(row.span.first for row in rows), max(row.span.last for row in rows)
    costs: dict[Fraction, NDArray[np.int64]] = {}
    for row in rows:
        profile = row.profile
        assert profile is not None
        squares = profile.squares()
        of_unit = costs.setdefault(row.mu_squared, np.zeros(last - first + 1, dtype=np.int64))
        of_unit[profile.start - first : profile.last - first + 1] += squares
    totals = (
        sum((unit * int(squares[t]) for unit, squares in costs.items()), Fraction(0)) for t in range(last - first + 1)
    )
    return max(totals) / SQUARED_ONE
