"""How finely all pairs of attributes are measured: groups of values, tables that hold every pair, and their share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from veilstream.synthesis.denoising import FEWEST_FOR_PATTERNS
from veilstream.synthesis.graph_budget import FEWEST_IN_CELLS, Budget
from veilstream.synthesis.graph_layout import MOST_AXES, MOST_GROUPS, GraphLayout
from veilstream.synthesis.junction import Scope
from veilstream.synthesis.views import best_covering

GROUPS: Final = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, MOST_GROUPS)
"""Numbers of groups of an attribute's values that are tried."""
NOISE_LEFT: Final = {False: 0.6, True: 0.5}
"""Share of the noise of a pair's table that is left after it was denoised; by whether patterns are looked for."""
NOISE_OF_MARGIN_LEFT: Final = 0.4
"""The same of a margin that is smoothed."""
FINEST: Final = 256
"""Groups of a margin's values inside of which noise is not looked at: it is smoothed, and counts are of ranges."""
PRICE_OF_LOSS: Final = 2.2
"""Weight of dependence that is lost between groups beside noise: it is lost in all that is made of rows."""
LOST_IN_ORDER: Final = 0.5
"""Share of the dependence of an ordered attribute that a single group would lose; several lose as much less."""
LOST_IN_CATEGORIES: Final = 0.8
POWER_OF_CATEGORIES: Final = 1.3
"""The same for categories, of which rare ones are gathered: what is lost falls with this power of the groups."""
LEAST_FOR_MARGINS: Final = Fraction(1, 8)
MOST_FOR_MARGINS: Final = Fraction(3, 4)


@dataclass(frozen=True, slots=True)
class Resolution:
    """At most so many groups of every attribute, tables that hold all pairs of them, and the share of margins.

    Attributes with no more values than groups have no margin of their own: the tables tell it.
    """

    groups: int
    views: tuple[Scope, ...]
    for_margins: Fraction
    noise: float
    """How far noise is expected to put the table of a pair off, as total variation in rows."""
    lost: float
    """Rows of dependence that are expected to be lost between groups."""

    @classmethod
    def of(
        cls, layout: GraphLayout, groups: int, budget: Budget, dependence: float, total: float = math.inf
    ) -> Resolution | None:
        """What so many groups give under a budget, where pairs depend by so many rows; None if it does not fit."""
        sizes = [min(size, groups) for size in layout.shape]
        views, noise = best_covering(sizes, lambda count: budget.noise_of(Fraction(1, count)))
        cells = sum(math.prod(sizes[axis] for axis in view) for view in views)
        if len(views) > layout.most_tables or cells > layout.most_cells or max(map(len, views)) > MOST_AXES:
            return None
        share = share_of_margins(layout, sizes, noise, budget, total)
        left = _left(sizes, noise) * budget.growth(1 - share)
        if share > 0:
            left += noise_of_margins(layout, sizes, budget, total, share)
        return cls(groups, tuple(views), share, left, _lost(layout, groups) * dependence)


def best_resolution(
    layout: GraphLayout, budget: Budget, dependence: float, total: float = math.inf
) -> Resolution | None:
    """The groups under which tables of pairs are expected to be nearest, from public facts and a published dependence.

    With few groups all pairs fit into few tables of little noise; with many, less of the dependence is lost between
    them. ``total`` is the published number of rows, if margins may be measured in cells of several values. None if no
    tables that hold every pair fit into a model.
    """
    found: list[Resolution] = []
    attributes = len(layout.shape)
    # Even if no pair were held twice, this many would need more tables than a model has room for.
    too_many = math.comb(attributes, 2) > layout.most_tables * math.comb(MOST_AXES, 2)
    for groups in GROUPS if attributes > 1 and not too_many else ():
        option = Resolution.of(layout, groups, budget, dependence, total)
        found += [] if option is None else [option]
        if max(layout.shape) <= groups:
            break
    return min(found, key=lambda each: each.noise + PRICE_OF_LOSS * each.lost, default=None)


def unmeasured(shape: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Attributes whose values are all told apart by tables of so many groups: those tables tell their margins.

    >>> unmeasured([2, 50, 4], [2, 4, 4])
    [0, 2]
    """
    return [axis for axis, (size, groups) in enumerate(zip(shape, sizes, strict=True)) if size <= groups]


def share_of_margins(
    layout: GraphLayout, sizes: Sequence[int], noise_of_views: float, budget: Budget, total: float = math.inf
) -> Fraction:
    """The share of a budget for margins under which their errors and those of tables are least together.

    ``noise_of_views`` is how far tables are off, in rows, if they get all of the budget.
    """
    of_margins = noise_of_margins(layout, sizes, budget, total)
    if of_margins == 0:
        return Fraction(0)
    return min(max(budget.divided(of_margins, _left(sizes, noise_of_views)), LEAST_FOR_MARGINS), MOST_FOR_MARGINS)


def noise_of_margins(
    layout: GraphLayout,
    sizes: Sequence[int],
    budget: Budget,
    total: float = math.inf,
    share: Fraction = Fraction(1),
) -> float:
    """Rows by which noise in two margins puts their table off, on average, if they get a share of the budget.

    Margins that tables of so many groups tell are not measured and have none.
    """
    told = unmeasured(layout.shape, sizes)
    measured = [axis for axis in range(len(layout.shape)) if axis not in told]
    left = 2 * NOISE_OF_MARGIN_LEFT * variation_of_margins(layout, measured, budget, total, share)
    return left * len(measured) / len(layout.shape)


def variation_of_margins(
    layout: GraphLayout,
    axes: Sequence[int],
    budget: Budget,
    total: float = math.inf,
    share: Fraction = Fraction(1),
) -> float:
    """The mean total variation, in rows, that noise makes of the margins of some attributes for a share of the budget.

    An ordered attribute can be measured in cells of several values. With k cells noise of b a cell puts the margin off
    by k·b/2 rows, and the widths of cells by about total/(2k): together √(total·b) for the best k.

    >>> variation_of_margins(GraphLayout((4, 4), (True, True)), [0, 1], Budget("laplace", Fraction(1), Fraction(1)))
    4.0
    """
    if not axes:
        return 0.0
    noise = 0.0
    for axis, part in zip(axes, budget.parts([layout.shape[axis] for axis in axes]), strict=True):
        size, one = layout.shape[axis], budget.noise_of(share * part)
        plain = math.sqrt(size * min(size, FINEST)) * one / 2
        in_cells = layout.ordered[axis] and size >= FEWEST_IN_CELLS
        noise += min(plain, math.sqrt(total * one) / NOISE_OF_MARGIN_LEFT) if in_cells else plain
    return noise / len(axes)


def _left(sizes: Sequence[int], noise: float) -> float:
    return NOISE_LEFT[max(sizes) >= FEWEST_FOR_PATTERNS] * noise


def _lost(layout: GraphLayout, groups: int) -> float:
    """The share of the dependence of a pair that is lost between groups, on average over pairs."""
    lost = [
        0.0
        if size <= groups
        else min(LOST_IN_ORDER / groups if ordered else LOST_IN_CATEGORIES / groups**POWER_OF_CATEGORIES, 1.0)
        for size, ordered in zip(layout.shape, layout.ordered, strict=True)
    ]
    pairs = list(itertools.combinations(lost, 2))
    return sum(1 - (1 - first) * (1 - second) for first, second in pairs) / len(pairs)
