"""What recorded charges cost under any guarantee, by definition: every set of timestamps that one unit can reach.

Slow, plain, and independent of the books, which are tested against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import lcm

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence import Rule
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
    first, last = min(c.span.first for c in recorded), max(c.span.last for c in recorded)
    if per_timestamp:
        # One unit may be in another bin at every timestamp: each costs what its fullest bin does.
        steps = range(first, last + 1)
        each = [window_cost(list(merged_blocks(recorded)), Span(t, t), bins)[0] for t in steps]
        recorded = [Charge(cost, Span(t, t), "step") for t, cost in zip(steps, each, strict=True)]
    merged = list(merged_blocks(recorded))
    reachable = set(_sets(rule, Span(first, last), recorded))
    pure = _dearest(reachable, [([c.epsilon for c in same], [c.span for c in same]) for same in merged])
    return pure, _dearest(reachable, [([c.mu_squared for c in same], [c.span for c in same]) for same in merged])


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


def _dearest(reachable: set[tuple[int, ...]], spent: Sequence[tuple[Sequence[Fraction], Sequence[Span]]]) -> Fraction:
    """The most that any of the sets pays: of charges of one block the largest, if it touches any of them."""
    unit = lcm(*(amount.denominator for amounts, _ in spent for amount in amounts))
    whole = [(int(max(amounts) * unit), spans) for amounts, spans in spent if max(amounts)]
    costs = (
        sum(amount for amount, spans in whole if any(s.first <= t <= s.last for s in spans for t in times))
        for times in reachable
    )
    return Fraction(max(costs, default=0), unit) if whole else Fraction(0)


def _sets(rule: Rule, all_steps: Span, charges: Sequence[Charge]) -> Iterator[tuple[int, ...]]:
    """All sets of timestamps that can be the dearest: at the end of a charge or of a zone."""
    ends = {charge.span.last for charge in charges}
    for now in range(all_steps.first, all_steps.last + 1):
        for zones in rule.placements(now, now):
            choices: list[Iterator[tuple[int, ...]]] = []
            for first, last, count in zones:
                times = sorted(t for t in {*ends, last} if first <= t <= last)
                choices.append(combinations(times, min(count, len(times))))
            for parts in product(*map(list, choices)):
                yield tuple(t for part in parts for t in part)
