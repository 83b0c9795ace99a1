"""What the fullest window costs by definition, from recorded charges alone: slow, plain, and independent of the books.

The accountant is tested against it, and it tells what a ledger's charges add up to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from veilstream.privacy.charge import Charge, Span


def fullest_window(
    charges: Iterable[Charge], w: int | None, bins: int = 1, *, per_timestamp: bool = False
) -> tuple[Fraction, Fraction]:
    """Pure epsilon and μ² of the fullest window of ``w`` timestamps, bin by bin where charges name bins.

    In a stream that pays per timestamp a window costs what its timestamps cost, each in its fullest bin: one unit
    may be in another bin at every one of them.

    >>> charges = [Charge(Fraction(1, 4), Span(t, t), "publish") for t in range(3)]
    >>> fullest_window(charges, w=2), fullest_window(charges, w=None)
    ((Fraction(1, 2), Fraction(0, 1)), (Fraction(3, 4), Fraction(0, 1)))
    """
    charges = list(charges)
    if w is not None and not per_timestamp and all(charge.bins is None for charge in charges):
        return swept_windows(charges, w)
    merged = list(merged_blocks(charges))
    if not merged:
        return Fraction(0), Fraction(0)
    spans = [c.span for same in merged for c in same]
    first, last = min(span.first for span in spans), max(span.last for span in spans)
    if per_timestamp and w is not None and w > 1:
        each = [window_cost(merged, Span(t, t), bins)[0] for t in range(first, last + 1)]
        return max(sum(each[t : t + w], Fraction(0)) for t in range(len(each))), Fraction(0)
    if w is None:
        return window_cost(merged, Span(first, last), bins)
    # A charge counts in the windows that end within an interval; most intervals meet where one of them begins.
    ends = {span.first for span in spans} | {
        int(t) for same in merged for c in same if c.starts is not None for t in np.unique(c.starts)
    }
    costs = [window_cost(merged, Span(end - w + 1, end), bins) for end in ends]
    return max(pure for pure, _ in costs), max(squared for _, squared in costs)


def swept_windows(charges: Iterable[Charge], w: int) -> tuple[Fraction, Fraction]:
    """Pure epsilon and μ² of the fullest window of ``w`` timestamps, in time that hardly grows faster than the charges.

    A window is known by its last timestamp. A charge counts in those that end in first..last+w−1, one of a block in all
    that any charge of the block reaches: what is added at the first and taken away after the last, summed in order.

    >>> swept_windows([Charge(Fraction(1, 4), Span(t, t), "publish") for t in range(9)], w=5)
    (Fraction(5, 4), Fraction(0, 1))
    """
    changes: dict[int, list[Fraction]] = {}
    for same in merged_blocks(charges):
        cost = max(c.epsilon for c in same), max(c.mu_squared for c in same)
        until: int | None = None
        for first, last in sorted((c.span.first, c.span.last + w) for c in same):
            begin = first if until is None else max(first, until)
            if begin < last:
                for at, sign in ((begin, 1), (last, -1)):
                    change = changes.setdefault(at, [Fraction(0), Fraction(0)])
                    change[0] += sign * cost[0]
                    change[1] += sign * cost[1]
                until = last
    pure = squared = worst = worst_squared = Fraction(0)
    for at in sorted(changes):
        pure, squared = pure + changes[at][0], squared + changes[at][1]
        worst, worst_squared = max(worst, pure), max(worst_squared, squared)
    return worst, worst_squared


def window_cost(charges: Sequence[Sequence[Charge]], window: Span, bins: int) -> tuple[Fraction, Fraction]:
    """Pure epsilon and μ² of the fullest bin in one window."""
    pure, squared = Fraction(0), Fraction(0)
    for b in range(bins) if any(c.bins is not None for same in charges for c in same) else (None,):
        hit = [same for same in charges if any(_hits(c, window, b) for c in same)]
        pure = max(pure, sum((max(c.epsilon for c in same) for same in hit), Fraction(0)))
        squared = max(squared, sum((max(c.mu_squared for c in same) for same in hit), Fraction(0)))
    return pure, squared


def merged_blocks(charges: Iterable[Charge]) -> Iterator[Sequence[Charge]]:
    """Each charge by itself, but those of one block together: a window that any of them touches pays the largest."""
    blocks: dict[int, list[Charge]] = {}
    for charge in charges:
        if charge.block is None:
            yield [charge]
        elif charge.epsilon:
            blocks.setdefault(charge.block, []).append(charge)
    yield from blocks.values()


def _hits(charge: Charge, window: Span, b: int | None) -> bool:
    bins = charge.positions
    if b is None or bins is None:
        return charge.span.touches(window)
    at = np.flatnonzero(bins == b)
    if at.size == 0:
        return False
    first = charge.span.first if charge.starts is None else int(charge.starts[at[0]])
    return Span(first, charge.span.last).touches(window)
