"""Random books of charges over long times, and what they cost by definition, without a line of the accountant's code.

A book is made from its seed alone, so that ``python -m tests.privacy.far_books SEED`` shows again what failed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import TypeAlias
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.exact.dice import Dice
from veilstream.errors import BudgetExceededError
from veilstream.privacy import presence_lifelong, profile_timeline
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.buffers import Buffers
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.kernels import Kernel
from veilstream.privacy.profile import SQUARED_ONE, Profile

STEPS, WIDEST, BINS = 80, 25, 3
Cost: TypeAlias = tuple[Fraction, Fraction]
Items: TypeAlias = list[tuple[Fraction, list[Span]]]
"""What costs once if any of its spans is touched, however often."""
PARTS = (Fraction(1, 8), Fraction(1, 4), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1), Fraction(2, 7))


@cache
def guaranteed(w: int | None, presence: int | None, per: int | None, delta: str) -> Guarantee:
    return Guarantee(1, delta=delta, presence=presence, per=per) if per else Guarantee(1, w, delta, presence=presence)


@dataclass
class Book:
    """What is asked of an accountant, in the order of time: charges by the time at which they are made."""

    guarantee: Guarantee
    asked: list[tuple[int, Charge]]
    per_timestamp: bool = False
    restored: set[int] = field(default_factory=set[int])
    """After how many charges the accountant is made anew from its snapshot."""
    stretches: int = presence_lifelong.MAX_STRETCHES
    """How many charges a book for ever remembers one by one."""
    tracks: int = profile_timeline.MOST_TRACKS
    """How many running sums a book remembers one by one."""

    def admitted(self) -> list[Charge]:
        """The charges that the accountant takes; of one that it refuses a quarter is tried."""
        known = Accountant(self.guarantee, BINS, per_timestamp=self.per_timestamp)
        taken: list[Charge] = []
        with (
            mock.patch.object(presence_lifelong, "MAX_STRETCHES", self.stretches),
            mock.patch.object(profile_timeline, "MOST_TRACKS", self.tracks),
        ):
            for number, (t, charge) in enumerate(self.asked):
                if known.now != t:
                    known.advance(t)
                for tried in (charge, quarter(charge)):
                    try:
                        known.admit([tried])
                    except BudgetExceededError:
                        continue
                    taken.append(tried)
                    break
                if number in self.restored:
                    kept = known.snapshot()
                    known = Accountant(self.guarantee, BINS, per_timestamp=self.per_timestamp)
                    known.restore(kept)
        return taken

    def loss(self, charges: Iterable[Charge]) -> Cost:
        """Pure epsilon and μ² that the worst of all neighbouring data lose."""
        made = list(charges)
        if not made:
            return Fraction(0), Fraction(0)
        if any(charge.bins is not None for charge in made) or self.per_timestamp:
            return _by_bins(made, self.guarantee), Fraction(0)
        rows, others = [c for c in made if c.profile is not None], [c for c in made if c.profile is None]
        pure, squared = [_dearest(_items(others, gaussian=gaussian), self.guarantee) for gaussian in (False, True)]
        return pure, squared + _of_rows(rows)

    def __str__(self) -> str:
        lines = [f"{self.guarantee}{', per timestamp' if self.per_timestamp else ''}; restored after {self.restored}"]
        for t, charge in self.asked:
            block = "" if charge.block is None else f" block {charge.block}"
            bins = "" if charge.bins is None else f" bins {charge.bins} since {charge.starts}"
            bins = bins if charge.profile is None else f" {charge.profile}"
            amount = f"{charge.epsilon} and {float(charge.mu_squared):.4g}"
            lines.append(f"  at {t}: {amount} of {charge.span.first}..{charge.span.last}{block}{bins}")
        return "\n".join(lines)


def quarter(charge: Charge) -> Charge:
    return Charge(
        charge.epsilon / 4, charge.span, charge.purpose, charge.mu_squared / 4, charge.block, charge.bins, charge.starts
    )


def book_of(seed: int) -> Book:
    """A random book."""
    dice = Dice(seed)
    kind = dice.choice(
        ["window", "window", "ever", "sliding", "sliding", "sliding", "seldom", "seldom", "block", "bins", "rows"]
    )
    delta = dice.choice(["0", "1/1000"])
    w, few, per = dice.choice([dice.between(1, 6), dice.between(1, WIDEST)]), dice.between(1, 3), None
    match kind:
        case "bins":
            return _book_by_bins(dice, w)
        case "rows":
            return _book_of_rows(dice, w, few)
        case "window":
            guarantee = guaranteed(w, None, None, delta)
        case "ever":
            guarantee, w = guaranteed(None, None, None, delta), 5
        case "sliding":
            few = min(few, 1 + w // 4)
            w = max(w, 2 * few + 1)
            guarantee = guaranteed(w, few, None, delta)
        case "seldom":
            guarantee = guaranteed(None, few, None, delta)
        case _:
            per = w = max(2, w)
            guarantee = guaranteed(None, few, per, delta)
    made = Book(guarantee, [])
    made.stretches = dice.choice([2, 5, made.stretches])
    for t in _times(dice, w, 20 if kind == "seldom" else 12):
        block = dice.choice([None, None, 1, 1, 2])
        first = _begin(dice, t, w)
        share = dice.choice(PARTS) / (2 if block else 1)
        gaussian = delta != "0" and dice.chance(2)
        pure = Fraction(0) if gaussian else guarantee.pure * share
        squared = guarantee.mu_squared * share if gaussian else Fraction(0)
        made.asked.append((t, Charge(pure, Span(first, t), "any", squared, None if gaussian else block)))
        if dice.chance(10):
            made.restored.add(len(made.asked) - 1)
    return made


def _book_by_bins(dice: Dice, w: int) -> Book:
    """Named bins at event level, or paid per timestamp."""
    per_timestamp = not dice.chance(3)
    few = dice.choice([None, None, 1, 2])
    if few is not None:
        w = max(w, 2 * few + 1)
    guarantee = guaranteed(w, few, None, "0") if per_timestamp else guaranteed(1, None, None, "0")
    made = Book(guarantee, [], per_timestamp=per_timestamp and guarantee.w != 1)
    share = guarantee.epsilon / guarantee.reach if made.per_timestamp and guarantee.reach else Fraction(1)
    since = [0] * BINS
    for t in _times(dice, 3):
        bins = [b for b in range(BINS) if dice.chance(2)] or [0]
        amount = share * dice.choice(PARTS)
        starts = np.array([dice.between(min(since[b], t), t) for b in bins])
        if dice.chance(3):
            made.asked.append((t, Charge(amount, Span(t, t), "all")))
        else:
            made.asked.append(
                (t, Charge(amount, Span(int(starts.min()), t), "some", bins=np.array(bins), starts=starts))
            )
        for b in bins:
            since[b] = t + dice.choice([0, 1])
        if dice.chance(10):
            made.restored.add(len(made.asked) - 1)
    return made


def _book_of_rows(dice: Dice, w: int, few: int) -> Book:
    """Rows of running sums that begin, pause and begin anew, beside other Gaussian answers."""
    limited = guaranteed(max(w, 2 * few + 1), few, None, "1/1000"), guaranteed(None, few, None, "1/1000")
    made = Book(dice.choice([guaranteed(w, None, None, "1/1000")] * 2 + list(limited)), [])
    made.tracks = dice.choice([2, 3, made.tracks])
    sums: dict[int, tuple[Kernel | Buffers, int, Fraction]] = {}
    for t in _times(dice, dice.choice([w, 2]), 24):
        name, share = dice.below(3), made.guarantee.mu_squared * dice.choice(PARTS) / dice.choice([1, 2, 4])
        if dice.chance(5):
            made.asked.append((t, Charge(Fraction(0), Span(_begin(dice, t, w), t), "any", share)))
            continue
        if name not in sums or dice.chance(6):
            sums[name] = _weights(dice), t, share
        weights, start, unit = sums[name]
        row = Profile(weights, start, t - start).encoded()
        made.asked.append((t, Charge(Fraction(0), Span(start, t), "row", unit, starts=row)))
        if dice.chance(10):
            made.restored.add(len(made.asked) - 1)
    return made


def _weights(dice: Dice) -> Kernel | Buffers:
    if dice.chance(2):
        decay = dice.choice([Fraction(1), Fraction(3, 4)])
        return Kernel(decay, endless=dice.chance(3), detail=dice.choice([1, 1, 2]))
    size, horizon = dice.between(1, 3), dice.choice([None, 2 * STEPS])
    rates, factors = [tuple(dice.choice(some) for _ in range(size)) for some in ([0, 1, 6], [1, 3, 5])]
    return Buffers(rates, factors, (4,) * size, horizon)


def _times(dice: Dice, w: int, most: int = 12) -> Iterator[int]:
    """When charges are made: close together, and about as far apart as a window or a pair of windows is long."""
    t, left = dice.choice([0, 0, 1, -3]), dice.between(2, most)
    while t <= STEPS and left:
        yield t
        left -= 1
        t += dice.choice([0, 0, 1, 1, 2, w - 1, w, w + 1, 2 * w - 1, dice.between(0, 3 * w)])


def _begin(dice: Dice, t: int, w: int) -> int:
    """Where a charge of time ``t`` begins: there, within reach, or as far back as the beginning."""
    return max(-4, t - dice.choice([0, 0, 0, 1, w - 1, w, 2 * w - 1, dice.between(0, 3 * w), dice.between(0, t + 4)]))


# --- By definition ------------------------------------------------------------------------------------------


def _items(charges: Sequence[Charge], *, gaussian: bool) -> Items:
    """Each charge by itself; those of one block together, at the largest amount."""
    alone: Items = []
    blocks: dict[int, tuple[Fraction, list[Span]]] = {}
    for charge in charges:
        amount = charge.mu_squared if gaussian else charge.epsilon
        if not amount:
            continue
        if charge.block is None:
            alone.append((amount, [charge.span]))
        else:
            before, spans = blocks.get(charge.block, (Fraction(0), []))
            blocks[charge.block] = max(before, amount), [*spans, charge.span]
    return [*alone, *blocks.values()]


def _dearest(items: Items, guarantee: Guarantee) -> Fraction:
    """What the dearest set of steps pays that one unit can reach."""
    if len(items) < 2:
        return sum((amount for amount, _ in items), Fraction(0))
    first = min((span.first for _, spans in items for span in spans), default=0) - 1
    last = max((span.last for _, spans in items for span in spans), default=0) + 1
    touched = np.zeros((len(items), last - first + 1), dtype=np.bool_)
    for row, (_, spans) in zip(touched, items, strict=True):
        for span in spans:
            row[span.first - first : span.last - first + 1] = True
    masks = [sum(1 << int(i) for i in np.flatnonzero(column)) for column in touched.T]
    w, c, length = guarantee.w, guarantee.presence, len(masks)
    unit = math.lcm(*(amount.denominator for amount, _ in items))
    amounts = [int(amount * unit) for amount, _ in items]
    best = 0
    tried: set[tuple[frozenset[int], ...]] = set()
    zones: list[list[Sequence[int]]] = []
    if c is None:
        width = length if w is None else w
        whole = [masks[max(0, end - width + 1) : end + 1] for end in range(length)]
        unions = {_union(part) for part in whole}
        return Fraction(max((_price(mask, amounts) for mask in unions), default=0), unit)
    if guarantee.per is not None:
        size = guarantee.per.length
        assert isinstance(size, int)
        numbers = sorted({(first + i) // size for i in range(length)})
        zones = [[[mask for i, mask in enumerate(masks) if (first + i) // size == number]] for number in numbers]
    elif w is None:
        zones = [[masks]]
    else:
        # The window may begin before all charges and end before or after them.
        padded = [0] * w + masks + [0] * w
        zones = [[padded[i : i + w], padded[i + w : i + 2 * w - 1]] for i in range(length + 1)]
    for pair in zones:
        key = tuple(frozenset(_maximal(set(zone))) for zone in pair)
        if key in tried:
            continue
        tried.add(key)
        reached = {0}
        for zone in key:
            for _ in range(c):
                reached = _maximal({mask | more for mask in reached for more in zone} | reached)
        best = max(best, *(_price(mask, amounts) for mask in reached))
    return Fraction(best, unit)


def _of_rows(rows: Iterable[Charge]) -> Fraction:
    """What the dearest timestamp pays for rows: a unit loses at most the mean over its timestamps."""
    paid: dict[int, Fraction] = {}
    for charge in rows:
        assert charge.profile is not None
        for t, square in enumerate(charge.profile.squares().tolist(), charge.profile.start):
            paid[t] = paid.get(t, Fraction(0)) + charge.mu_squared * Fraction(square, SQUARED_ONE)
    return max(paid.values(), default=Fraction(0))


def _maximal(masks: set[int]) -> set[int]:
    """Those that are not a part of another."""
    return {mask for mask in masks if not any(mask != other and mask & other == mask for other in masks)}


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _price(mask: int, amounts: Sequence[int]) -> int:
    return sum(amount for i, amount in enumerate(amounts) if mask >> i & 1)


def _by_bins(charges: Sequence[Charge], guarantee: Guarantee) -> Fraction:
    """A unit is in one bin at each timestamp, which may be another every time."""
    first = min(charge.span.first for charge in charges)
    last = max(charge.span.last for charge in charges)
    unit = int(np.lcm.reduce([charge.epsilon.denominator for charge in charges]))
    costs: NDArray[np.int64] = np.zeros((BINS, last - first + 1), dtype=np.int64)
    for charge in charges:
        bins = range(BINS) if charge.bins is None else charge.bins.tolist()
        starts = [charge.span.first] * BINS if charge.starts is None else charge.starts.tolist()
        for b, start in zip(bins, starts, strict=False):
            costs[b, start - first : charge.span.last - first + 1] += int(charge.epsilon * unit)
    each = costs.max(axis=0)
    w, c = guarantee.w, guarantee.presence
    assert w is not None
    padded = np.pad(each, (w, 2 * w))
    if c is None:
        return Fraction(int(np.convolve(padded, np.ones(w, dtype=np.int64)).max()), unit)
    windows = np.sort(np.lib.stride_tricks.sliding_window_view(padded, w), axis=1)[:, -c:].sum(axis=1)
    after = np.sort(np.lib.stride_tricks.sliding_window_view(padded, w - 1), axis=1)[:, -c:].sum(axis=1)
    return Fraction(int((windows[: len(after) - w] + after[w:]).max()), unit)


@dataclass
class Attack:
    """What a run of books found."""

    books: int = 0
    full: int = 0
    """Books that spend all that they may."""
    broken: list[int] = field(default_factory=list[int])
    """The seeds of those that lose more than was promised."""

    def on(self, seeds: Iterable[int]) -> Attack:
        for seed in seeds:
            book = book_of(seed)
            guarantee = book.guarantee
            pure, squared = book.loss(book.admitted())
            self.books += 1
            self.full += pure == guarantee.pure or 0 < squared == guarantee.mu_squared
            if pure > guarantee.pure or squared > guarantee.mu_squared:
                self.broken.append(seed)
        return self


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        shown = book_of(int(argument))
        print(shown, "admitted:", *shown.admitted(), "loss:", shown.loss(shown.admitted()), sep="\n")
