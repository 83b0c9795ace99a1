"""Tables of some attributes, measured where they are worth it, and the law of all attributes that they give."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms._strategies import Law
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.privacy.rationals import rational
from veilstream.synthesis.graph_budget import Budget, NoisyMargins
from veilstream.synthesis.graph_choice import Chosen, Selection
from veilstream.synthesis.graph_layout import MOST_GROUPS, GraphLayout, Marginal, Published
from veilstream.synthesis.graph_target import chosen_around
from veilstream.synthesis.graph_worth import TYPICAL, Dependence, pays
from veilstream.synthesis.junction import Scope
from veilstream.synthesis.kendall import Kendall
from veilstream.synthesis.margins import Margins
from veilstream.synthesis.resolution import (
    Resolution,
    best_resolution,
    noise_of_margins,
    unmeasured,
    variation_of_margins,
)
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows, SealedTable
from veilstream.values.values import Values

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
FEWEST_GROUPS: Final = 4
ROWS_OF_CELL: Final = 2.0
"""Groups are so wide that a cell of a pair's table has this many noises' worth of rows on average."""
NOISE_OF_TABLE: Final = 0.2
"""Tables are measured as long as the noise of one stays below this share of the rows."""
LEAST_FOR_MARGINS: Final = Fraction(1, 8)
MOST_FOR_MARGINS: Final = {False: Fraction(3, 5), True: Fraction(17, 20)}
"""By whether dependence was asked for. Tables that are measured unasked are wanted, and need more."""
MARGINS_BY_NOISE: Final = 30.0
"""Share of the budget for margins, for every unit of total variation that their noise would make with all of it."""
FEWEST_CHOICES: Final = {False: 1, True: 2}
"""Tables are chosen only if so many choices can be made: one alone rarely pays for what margins lose."""
DEPENDENCE_SHARE: Final = Fraction(1, 12)
"""Of ε, at most, for the question how far attributes are from independence."""
STRONG_DEPENDENCE: Final = 0.3
"""Share of the rows by which pairs hardly ever depend on average: where even that would not pay, nothing is asked."""
DEPENDENCE_OF_CHOICES: Final = Fraction(1, 3)
"""The same of what choices have, where margins and tables have a budget of their own."""
SHARE_OF_TARGET: Final = Fraction(1, 3)
"""Of what is for tables, for those with a target."""
NOISE_OF_CORRELATION: Final = 0.15
"""Correlations of ordered attributes are measured if the mean absolute noise of Kendall's coefficient is below this."""
ROWS_OF_CHOICE: Final = 0.05
"""So many choices are made that the noise of one, in rows, is at most twice this share of all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured besides margins, with the pure ε for choices and what margins and tables are measured for."""

    resolution: Resolution | None
    """How all pairs of attributes are measured, if they are."""
    choices: int
    dependence: Dependence | None
    select: Fraction
    measure: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The noisy number of rows, all that a model holds, and its margins before they were smoothed."""

    counted: Values
    parts: Published
    noisy: NoisyMargins


@dataclass(frozen=True, slots=True)
class MarginalGraph:
    """Publishes a histogram per attribute and tables of several attributes, and draws rows from the law they give.

    ``size_share`` of ε counts the rows. What happens then depends on public facts, the sizes of the attributes, the
    noisy number of rows and the budget, and on one private answer, how far pairs of attributes are from independence on
    average (``Dependence``; not with ``ask=False``, nor where no answer could change what happens).

    * Values are gathered into groups, as many as noise allows (``best_resolution``): neighbours of an ordered
      attribute, rare values of categories. Tables that hold every pair of attributes are measured in these groups
      (PriView; see ``best_covering``), and a margin of each attribute that has more values than groups, for the share
      of the budget under which all errors are least, or ``margin_share``. Nothing is chosen by data.
    * Margins alone, for all that is left, if the dependence is not worth its noise (``pays``).
    * If no tables that hold every pair fit into a model, because attributes are many, or with ``every_pair=False``:
      ``select_share`` of ε chooses tables, each by the exponential mechanism (``Selection``): first a tree of pairs as
      in MST, then those that the model predicts worst, as in AIM. "None" is a candidate every time. Ordered attributes
      with many values have Kendall's τ measured for half of ``select_share``, if its noise is small.
    * With a ``target``, tables of it and each other attribute are measured too; then nothing is asked.

    Every table is denoised towards what stronger ones predict of it (``denoised``), and a law of largest entropy is
    fitted to all of them on a junction tree of bounded memory (``Junction``). Values inside a group follow those of
    another attribute (``refined``). With ``noise="gaussian"``, for guarantees with delta > 0, margins and tables are
    paid from μ² and the pure part pays for rows and choices.

    >>> import numpy as np
    >>> from veilstream.data import Categories
    >>> from veilstream.synthesis import TableDomain, fit
    >>> x = np.arange(4000) % 4
    >>> domain = TableDomain({name: Categories(range(4)) for name in "xyz"})
    >>> model = fit({"x": x, "y": (x * x + 1) % 4, "z": np.arange(4000) // 4 % 4}, domain, 2, MarginalGraph())
    >>> rows = model.sample(1000, seed=1)
    >>> bool(((rows["x"] * rows["x"] + 1) % 4 == rows["y"]).mean() > 0.9)
    True

    McKenna, Miklau, Sheldon: Winning the NIST contest, 2021 (MST); McKenna, Mullins, Sheldon, Miklau: AIM, VLDB 2022;
    Qardaji, Yang, Li: PriView, SIGMOD 2014. Changed: pure ε; the question; groups, and what lies inside of them;
    "none"; denoising; rows drawn evenly.
    """

    version: ClassVar[int] = 5
    """Models of the first one were trees of pairs, those of the second did not hold the groups of values: their rows
    can be drawn with the version that made them. The third never asked how far attributes depend on one another, the
    fourth chose tables; what they began goes on."""
    former_defaults: ClassVar[Mapping[int, Mapping[str, Any]]] = {3: {}, 4: {}}
    margins: HistogramMechanism | None = None
    """Margins by a histogram mechanism, with Laplace noise only; by default plain noise, smoothed, and an adaptive grid
    for ordered attributes with many values for so few rows (``Budget.thin``)."""
    noise: Law = "laplace"
    size_share: Fraction = Fraction(1, 20)
    margin_share: Fraction | None = None
    select_share: Fraction = Fraction(1, 12)
    ordered: tuple[bool, ...] | None = None
    """Of which attributes neighbouring values are alike; by default those with more than 32 values."""
    target: int | str | None = None
    """An attribute, by name or number, that others will be used to predict: the tables of it and each other attribute
    come first, for a third of what is for tables, or half where tables are chosen."""
    ask: bool = True
    """Whether tables are measured only if a private answer says that attributes depend enough on one another; with a
    target, whose tables are wanted, nothing is asked."""
    every_pair: bool = True
    """Whether every pair of attributes is measured where that fits into a model; else tables are chosen."""
    schema: str | None = None
    """Fingerprint of the table's domain, for ledgers."""

    def __post_init__(self) -> None:
        for name in ("size_share", "margin_share", "select_share"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, rational(getattr(self, name), name))
        shares = [self.size_share, self.margin_share or max(MOST_FOR_MARGINS.values()), self.select_share]
        if min(shares) <= 0 or max(shares[1], self.size_share + self.select_share) >= 1:
            raise InvalidInputError(f"shares {', '.join(map(str, shares))} of MarginalGraph: above 0 and below 1")
        if self.noise not in ("laplace", "gaussian"):
            raise InvalidInputError(name="noise", of="MarginalGraph", value=self.noise, limit="'laplace' or 'gaussian'")

    def layout(self, shape: tuple[int, ...]) -> GraphLayout:
        """Where the numbers of a release lie, for a table of this shape."""
        ordered = tuple(size > MOST_GROUPS for size in shape) if self.ordered is None else self.ordered
        if len(ordered) != len(shape):
            raise InvalidInputError(f"ordered: {len(ordered)} answers for {len(shape)} attributes")
        return GraphLayout(shape, ordered)

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        """The model of a table for ``epsilon``."""
        if not isinstance(x, SealedTable):
            raise InvalidInputError("MarginalGraph: it publishes tables, not histograms; seal rows with its layout")
        layout = self.layout(x.rows.shape)
        return released(layout, self.measured(x.rows, layout, epsilon, meter))

    def measured(
        self, rows: SealedRows, layout: GraphLayout, epsilon: Fraction, meter: Meter, *, followed: bool = False
    ) -> Measured:
        """All that a model holds, for all of ε.

        With ``followed``, later measurements will be averaged with this one: then every value of every margin has noise
        of its own.
        """
        counted = meter.laplace(rows.counts(()), self.shares(epsilon)[0], "total")
        total = max(float(counted.numbers[0]), 0.0)
        in_cells = not followed and self.histogram is None and self.noise == "laplace"
        plan = self._plan(rows, layout, total, epsilon, meter, in_cells)
        budget = Budget.of(self.noise, plan.measure, rows.l1, meter)
        if plan.resolution is not None:
            return self._all_pairs(
                rows,
                layout,
                counted,
                plan.resolution,
                [budget, *budget.spared(Fraction(0), plan.select)],
                meter,
                in_cells,
            )
        choices, select = plan.choices, plan.select
        share = self.for_margins(layout, total, budget, plan.dependence) if choices else Fraction(1)
        thin = budget.thin(layout.shape, layout.ordered, total, share) if in_cells else []
        noisy = budget.margins(rows, self.histogram, share, meter, thin=thin, counted=counted)
        groups, count = self.groups(layout, total, budget, 1 - share, choices) if choices else (MOST_GROUPS, 0)
        margins = noisy.margins(total)
        start = Published(margins, layout.labels(margins.counts, groups), np.zeros(layout.correlations), [])
        rest = Chosen([], Fraction(0), select)
        if choices:
            if self._correlated(layout, total, rows.l1, select / 2):
                select /= 2
                start = replace(start, correlations=_correlations(rows, layout, margins, select, meter))
            selection = Selection(rows, layout, start, count, select, budget, 1 - share, meter)
            target = self._target(layout)
            rest = selection.chosen() if target is None else chosen_around(selection, target)
        tables = rest.tables
        for spare in budget.spared(rest.share, rest.epsilon):
            # Nothing of the promise is left unspent: what was not chosen makes the rest less noisy.
            spent = share if tables else Fraction(1)
            again = spare.margins(rows, self.histogram, spent, meter, thin=thin, counted=counted)
            noisy = noisy.with_another(again)
            if tables:
                more = spare.tables(rows, start.labels, [table.scope for table in tables], 1 - spent, meter)
                tables = [one.with_another(other) for one, other in zip(tables, more, strict=True)]
        return Measured(counted, replace(start, margins=noisy.margins(total), tables=tables), noisy)

    def _all_pairs(
        self,
        rows: SealedRows,
        layout: GraphLayout,
        counted: Values,
        resolution: Resolution,
        budgets: Sequence[Budget],
        meter: Meter,
        in_cells: bool,
    ) -> Measured:
        """Margins of the attributes whose values are gathered, and tables of groups that hold every pair.

        The first budget is the one that was planned with; what others bring makes the same less noisy.
        """
        total = max(float(counted.numbers[0]), 0.0)
        told = unmeasured(layout.shape, [min(size, resolution.groups) for size in layout.shape])
        share = (
            self.margin_share if self.margin_share is not None and resolution.for_margins else resolution.for_margins
        )
        noisy = NoisyMargins.none(layout.shape)
        thin = budgets[0].thin(layout.shape, layout.ordered, total, share, told=told) if in_cells and share else []
        for budget in budgets if share else ():
            again = budget.margins(rows, self.histogram, share, meter, told=told, thin=thin, counted=counted)
            noisy = noisy.with_another(again)
        labels = layout.labels(noisy.margins(total).counts, resolution.groups)
        tables: list[Marginal] = []
        for budget in budgets:
            views = self._views(rows, layout, labels, resolution, budget, 1 - share, meter)
            tables = [one.with_another(other) for one, other in zip(tables, views, strict=True)] if tables else views
        noisy = noisy.told_by(tables, told)
        parts = Published(noisy.margins(total), labels, np.zeros(layout.correlations), tables)
        return Measured(counted, parts, noisy)

    def _views(
        self,
        rows: SealedRows,
        layout: GraphLayout,
        labels: list[Integers],
        resolution: Resolution,
        budget: Budget,
        share: Fraction,
        meter: Meter,
    ) -> list[Marginal]:
        """Tables that hold every pair, and before them those of a target and each other attribute, if there is room."""
        target, star = self._target(layout), list[Scope]()
        if target is not None:
            others = [axis for axis in range(len(layout.shape)) if axis != target]
            star = [(min(axis, target), max(axis, target)) for axis in others]
        star = star if layout.has_room(labels, [*star, *resolution.views]) else []
        of_target = share * SHARE_OF_TARGET if star else Fraction(0)
        tables = budget.tables(rows, labels, star, of_target, meter) if star else []
        return [*tables, *budget.tables(rows, labels, resolution.views, share - of_target, meter)]

    def _plan(
        self, rows: SealedRows, layout: GraphLayout, total: float, epsilon: Fraction, meter: Meter, in_cells: bool
    ) -> Plan:
        """What is measured: tables of all pairs, tables that are chosen, or margins alone."""
        _, select, measure = self.shares(epsilon)
        pure, dependence = self.noise == "laplace", None
        budget = Budget.of(self.noise, measure + select if pure else measure, rows.l1, meter)
        # Where margins may be measured in cells, noise of them is bounded by the published number of rows.
        known = total if in_cells else math.inf
        off = variation_of_margins(layout, range(len(layout.shape)), budget, known)
        alone = noise_of_margins(layout, [1] * len(layout.shape), budget, known)
        strong = STRONG_DEPENDENCE * total
        resolution = best_resolution(layout, budget, strong, known) if self.every_pair else None
        hopeless = resolution is not None and not pays(resolution.noise + resolution.lost, alone, strong)
        if self._asks and len(layout.shape) > 1 and not hopeless:
            most = epsilon * DEPENDENCE_SHARE if pure else select * DEPENDENCE_OF_CHOICES
            dependence = Dependence.asked(rows, total, off, most, meter)
            measure -= dependence.epsilon if pure else 0
            select -= 0 if pure else dependence.epsilon
            budget = Budget.of(self.noise, measure + select if pure else measure, rows.l1, meter)
        depends = TYPICAL * total if dependence is None else dependence.likely(total)
        resolution = best_resolution(layout, budget, max(depends, 1.0), known) if self.every_pair else None
        choices = self._choices(layout, total, select, rows.l1) if resolution is None else 0
        if dependence is not None and resolution is not None:
            hopeless = not pays(resolution.noise + resolution.lost, alone, depends)
        if self._asks and hopeless:
            resolution = None
        if dependence is not None and not dependence.beats(off):
            choices = 0
        if pure and not choices:
            measure, select = measure + select, Fraction(0)
        return Plan(resolution, choices, dependence, select, measure)

    def shares(self, epsilon: Fraction) -> tuple[Fraction, Fraction, Fraction]:
        """Pure ε for the number of rows and for choices, and what margins and tables are measured for."""
        size, select = epsilon * self.size_share, epsilon * self.select_share
        if self.noise == "laplace":
            return size, select, epsilon - size - select
        # Margins and tables have a budget of their own: the pure one is all for rows and choices.
        return size * epsilon / (size + select), select * epsilon / (size + select), epsilon

    @property
    def histogram(self) -> HistogramMechanism | None:
        """What margins are measured by, if not by plain noise."""
        return self.margins if self.noise == "laplace" else None

    @property
    def _asks(self) -> bool:
        return self.ask and self.target is None

    def _target(self, layout: GraphLayout) -> int | None:
        if self.target is None or len(layout.shape) < 3:
            return None
        if not isinstance(self.target, int) or not 0 <= self.target < len(layout.shape):
            raise InvalidInputError(
                name="target",
                of="MarginalGraph",
                value=self.target,
                limit=f"a number from 0 to {len(layout.shape) - 1}, or a name where the domain is known",
            )
        return self.target

    def _choices(self, layout: GraphLayout, total: float, epsilon: Fraction, max_contribution: Fraction) -> int:
        """How many choices can be made for ``epsilon``; none if they are too few."""
        if len(layout.shape) < 2:
            return 0
        choices = math.floor(ROWS_OF_CHOICE * total * float(epsilon / max_contribution))
        return choices if choices >= FEWEST_CHOICES[self._asks] else 0

    def _correlated(self, layout: GraphLayout, total: float, max_contribution: Fraction, epsilon: Fraction) -> bool:
        """Whether the noise of Kendall's coefficients of the ordered attributes is small beside 1."""
        attributes = len(layout.numeric)
        if attributes < 2 or total < 2:
            return False
        return float(max_contribution * (attributes * attributes // 2) / epsilon) * 2 / total <= NOISE_OF_CORRELATION

    def for_margins(
        self, layout: GraphLayout, total: float, budget: Budget, dependence: Dependence | None = None
    ) -> Fraction:
        """The more of the budget, the larger the noise of margins would be beside all rows, and beside dependence."""
        if self.margin_share is not None:
            return self.margin_share
        off = variation_of_margins(layout, range(len(layout.shape)), budget)
        wanted = MARGINS_BY_NOISE * off / max(total, 1.0)
        if dependence is not None:
            wanted = max(wanted, dependence.for_margins(off))
        return min(max(Fraction(round(1024 * min(wanted, 1.0)), 1024), LEAST_FOR_MARGINS), MOST_FOR_MARGINS[self._asks])

    def groups(
        self, layout: GraphLayout, total: float, budget: Budget, share: Fraction, choices: int
    ) -> tuple[int, int]:
        """Groups of an attribute and number of tables, from the published number of rows, the budget and the shape.

        Groups are as fine as a tree's tables allow, and tables as many as leave every one readable.
        """
        attributes = len(layout.shape)
        tree = min(attributes - 1, choices)
        side = math.sqrt(max(total, 1.0) / budget.noise_of(share / tree) / ROWS_OF_CELL)
        groups = max(FEWEST_GROUPS, min(MOST_GROUPS, int(side)))
        pairs = itertools.combinations((min(size, groups) for size in layout.shape), 2)
        cells = float(np.mean([first * second for first, second in pairs]))
        count = min(layout.most_tables, choices)
        while count > tree and cells * budget.noise_of(share / count) > NOISE_OF_TABLE * total:
            count -= 1
        return groups, count


def released(layout: GraphLayout, measured: Measured) -> Values:
    """A model as a stream releases it, with the noise of the number of rows and of margins."""
    std = np.zeros(layout.size)
    std[0] = float(np.max(measured.counted.std))
    std[1 : 1 + sum(layout.shape)] = np.repeat(measured.parts.margins.std, layout.shape)
    return Values(layout.pack(measured.parts), std)


def _correlations(rows: SealedRows, layout: GraphLayout, margins: Margins, epsilon: Fraction, meter: Meter) -> Reals:
    """Correlations of a normal copula of the ordered attributes."""
    axes = layout.numeric
    counts = tuple(margins.counts[axis] for axis in axes)
    known = Margins(counts, margins.total, tuple(margins.std[axis] for axis in axes))
    return Kendall().correlations(rows.project(axes), known, epsilon, meter)
