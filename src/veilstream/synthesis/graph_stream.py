"""A graph of marginals of a table that changes: what the last steps told is kept and brought up to date."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.streams import horizons
from veilstream.privacy.guarantee import Guarantee
from veilstream.synthesis.following import MEMORY, followed, growth
from veilstream.synthesis.graph import MarginalGraph, Measured, released
from veilstream.synthesis.graph_budget import Budget, NoisyMargins
from veilstream.synthesis.graph_choice import misfit_penalty
from veilstream.synthesis.graph_fit import Graph
from veilstream.synthesis.graph_layout import GraphLayout, Marginal, Published
from veilstream.synthesis.junction import Scope, fits
from veilstream.synthesis.resolution import share_of_margins, unmeasured
from veilstream.synthesis.restructuring import (
    Prediction,
    groups_of,
    independent,
    renewed_resolution,
    scaled,
    stands_out,
)
from veilstream.synthesis.views import holds_every_pair, spread_of
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows, SealedTable
from veilstream.trusted.statistics.marginal_counts import marginal_counts, misfit_scores
from veilstream.values.values import Values

Reals = NDArray[np.float64]
FALSE_ALARM: Final = 0.01
"""Chance at most, step by step, that a pair joins the structure although the model predicts its table."""
SIGMAS: Final = 3.0
"""Standard deviations by which chance may put the rows off from a model that describes them."""


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The last release, its margins before they were smoothed, and the drift of every margin and table in a step."""

    step: int = 0
    numbers: Reals = field(default_factory=lambda: np.zeros(0))
    margins: Reals = field(default_factory=lambda: np.zeros(0))
    drifts: Reals = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True)
class MarginalStream:
    """Publishes a ``MarginalGraph`` of a changing table at every step, each for ε/w, on the ground of the last one.

    The first step is a ``MarginalGraph``. Where it measures tables that hold every pair of attributes, so do all
    others; how many groups of values they tell apart follows from public facts and from what the last model shows
    (``renewed_resolution``), and the groups follow the margins. Tables of groups that are new are taken from rows of
    the last model before they are measured.

    Where tables are chosen, the *structure*, the sets of attributes whose tables are measured and the groups of values
    in them, is kept, and one private choice a step (``select_share`` of its ε) asks whether a pair outside of it is
    predicted so badly that it should join. "None" wins unless a misfit stands out of noise and chance: where the model
    is right, a pair joins with a chance of about 1 % a step. A pair whose published table shows no dependence any more
    leaves. Everything else measures margins and tables.

    Every margin and table is followed by a filter (``followed``): the new measurement and the last estimate are
    averaged by their variances, and the drift between steps, in squares, is what their differences show beyond noise.
    Where nothing changes, noise falls with every step; where much changes, and in large counts, the new measurement
    counts alone. If the number of rows grows or shrinks, what was known is taken in proportion. That is
    post-processing, and its whole state is in the ledger.

    What is promised is a table for every step. Rows of different steps are not linked: there are no trajectories.

    >>> from veilstream import Guarantee
    >>> from veilstream.data import Categories
    >>> from veilstream.synthesis import TableDomain, TablePublisher, refreshed
    >>> x = np.arange(4000) % 4
    >>> domain = TableDomain({name: Categories(range(4)) for name in "xy"})
    >>> with TablePublisher(domain, Guarantee(4, w=4), refreshed) as publisher:
    ...     models = [publisher.feed({"x": x, "y": (x + 1) % 4}, month) for month in range(3)]
    >>> [model.spent for model in models]
    [Fraction(1, 1), Fraction(1, 1), Fraction(1, 1)]
    """

    version: ClassVar[int] = 2
    """The first one kept the groups of its first step and let counts of any size drift alike; what it began goes on."""
    former_defaults: ClassVar[Mapping[int, Mapping[str, Any]]] = {1: {}}
    graph: MarginalGraph = field(default_factory=MarginalGraph)
    horizon: int | None = None

    def __post_init__(self) -> None:
        horizons.whole(self.horizon, "horizon", self)
        given: object = self.graph
        if not isinstance(given, MarginalGraph):
            raise InvalidInputError(
                name="graph",
                of="MarginalStream",
                value=type(given).__name__,
                limit="a MarginalGraph; a copula has no structure to keep",
                next_step="use refreshed, which makes a copula anew at every step",
            )

    def start(self, guarantee: Guarantee, bins: int) -> State:
        self._epsilon(guarantee)
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        if not isinstance(now, SealedTable):
            raise InvalidInputError("MarginalStream: it publishes tables, not histograms; use TablePublisher")
        horizons.within_horizon(meter.guarantee, state.step, self.horizon)
        layout, epsilon = self.graph.layout(now.rows.shape), self._epsilon(meter.guarantee)
        if state.step == 0:
            measured = self.graph.measured(now.rows, layout, epsilon, meter, followed=True)
            drifts = np.zeros(len(layout.shape) + len(measured.parts.tables))
        else:
            measured, drifts = _Refresh(self.graph, now.rows, layout, state, meter).measured(epsilon)
        values = released(layout, measured)
        numbers = np.asarray(values.numbers, dtype=np.float64)
        return State(state.step + 1, numbers, np.concatenate(measured.noisy.counts), drifts), values

    def _epsilon(self, guarantee: Guarantee) -> Fraction:
        return horizons.share(guarantee, self.horizon, 1, self)


@dataclass(frozen=True, slots=True, eq=False)
class _Structure:
    """The tables of a step and the number of groups, with what margins are measured for and which tables tell."""

    scopes: list[Scope]
    groups: int
    told: list[int]
    share: Fraction
    whole: bool = False
    """Whether every pair of attributes is in some table."""


@dataclass(frozen=True, slots=True, eq=False)
class _Refresh:
    """One step after the first."""

    graph: MarginalGraph
    rows: SealedRows
    layout: GraphLayout
    state: State
    meter: Meter

    def measured(self, epsilon: Fraction) -> tuple[Measured, Reals]:
        """All that the model holds at this step, for all of ε, and the drifts."""
        before = self.layout.unpack(self.state.numbers)
        prediction = Prediction(Graph.of(self.layout, before), self.state.step)
        size, choose, measure = self.graph.shares(epsilon)
        counted = self.meter.laplace(self.rows.counts(()), size, "total")
        factor = growth(before.margins.total, float(counted.numbers[0]), float(np.max(counted.std)) ** 2)
        before = scaled(before, factor)
        pairs = self._outside(before)
        if not pairs and self.graph.noise == "laplace":
            measure, choose = measure + choose, Fraction(0)
        budget = Budget.of(self.graph.noise, measure, self.rows.l1, self.meter)
        structure = self._structure(before, prediction, budget)
        told, share = structure.told, structure.share
        now = NoisyMargins.none(self.layout.shape)
        if share:
            now = budget.margins(self.rows, self.graph.histogram, share, self.meter, told=told)
        noisy, drifts = self._margins(before, now, told, factor)
        total = _total(counted, noisy)
        margins = noisy.margins(total)
        known, of_tables = self._known(before, replace(before, margins=margins), structure, prediction)
        if not known.tables and pairs:
            # No table is bound to groups: they may follow the rows.
            groups, _ = self.graph.groups(self.layout, total, budget, 1 - share, 1)
            known = replace(known, labels=self.layout.labels(known.margins.counts, groups))
        if pairs:
            noise = budget.noise_of((1 - share) / (len(before.tables) + 1))
            known, choose = self._joined(known, pairs, choose, noise), Fraction(0)
        tables, of_tables = self._tables(known, of_tables, prediction, budget, 1 - share)
        for spare in budget.spared(Fraction(0) if tables else 1 - share, choose):
            noisy = noisy.with_another(
                spare.margins(self.rows, self.graph.histogram, Fraction(1), self.meter, told=told)
            )
        noisy = noisy.told_by(tables, told)
        # Where every pair is measured, each of the tables makes margins less noisy, whatever it shows.
        kept = [at for at, table in enumerate(tables) if structure.whole or stands_out(table)]
        parts = replace(known, margins=noisy.margins(total), tables=[tables[at] for at in kept])
        return Measured(counted, parts, noisy), np.concatenate([drifts, of_tables[kept]])

    @property
    def memory(self) -> float:
        """Of few steps no drift is known yet: each counts alike."""
        return min(MEMORY, 1 - 1 / max(self.state.step, 1))

    def _structure(self, before: Published, prediction: Prediction, budget: Budget) -> _Structure:
        """The tables of the last step; where they hold every pair, those that suit what is published of it."""
        scopes, groups, total = [table.scope for table in before.tables], groups_of(before.labels), before.margins.total
        if not holds_every_pair(scopes, len(self.layout.shape)):
            return _Structure(scopes, groups, [], self.graph.for_margins(self.layout, total, budget))
        sizes = [1 + int(label.max()) for label in before.labels]
        if self.graph.target is None and self.graph.every_pair:
            best = renewed_resolution(self.layout, before.labels, total, prediction.dependence, budget)
            if best is not None:
                scopes, groups = list(best.views), best.groups
                sizes = [min(size, groups) for size in self.layout.shape]
        noise = spread_of(sizes, scopes) * budget.noise_of(Fraction(1, len(scopes)))
        told = unmeasured(self.layout.shape, sizes)
        share = share_of_margins(self.layout, sizes, noise, budget)
        return _Structure(scopes, groups, told, share, whole=True)

    def _known(
        self, before: Published, now: Published, structure: _Structure, prediction: Prediction
    ) -> tuple[Published, Reals]:
        """What is known of the tables before they are measured, and the drift of each.

        Tables of groups that were made anew, or of attributes that had none, are those of the last model: how far
        they are off is not known (NaN).
        """
        labels = before.labels
        if structure.whole:
            fresh = self.layout.labels(now.margins.counts, structure.groups)
            fresh = [np.arange(new.size) if axis in structure.told else new for axis, new in enumerate(fresh)]
            labels = fresh if self.layout.has_room(fresh, structure.scopes) else labels
        both = enumerate(zip(before.labels, labels, strict=True))
        renewed = {axis for axis, (old, new) in both if not np.array_equal(old, new)}
        # With a target, a pair may have two tables.
        last: dict[Scope, list[tuple[Marginal, float]]] = {}
        for table, drift in zip(before.tables, self.state.drifts[len(self.layout.shape) :], strict=True):
            last.setdefault(table.scope, []).append((table, float(drift)))
        deviation = float(np.mean([table.std for table in before.tables])) if before.tables else 0.0
        found: list[tuple[Marginal, float]] = []
        for scope in structure.scopes:
            if last.get(scope) and not renewed & set(scope):
                found.append(last[scope].pop(0))
            else:
                counts = now.margins.total * prediction.table(labels, scope)
                found.append((Marginal(scope, counts, deviation), math.nan))
        drifts = np.array([drift for _, drift in found])
        return replace(now, labels=labels, tables=[table for table, _ in found]), drifts

    def _outside(self, before: Published) -> list[Scope]:
        """Pairs that no table holds and that the memory of the law has room for."""
        attributes, held = len(self.layout.shape), [table.scope for table in before.tables]
        if len(held) >= self.layout.most_tables:
            return []
        sizes = [1 + int(label.max()) for label in before.labels]
        pairs = itertools.combinations(range(attributes), 2)
        apart = [pair for pair in pairs if not any(set(pair) <= set(scope) for scope in held)]
        return [pair for pair in apart if fits(sizes, [*held, pair])]

    def _margins(
        self, before: Published, now: NoisyMargins, told: Sequence[int], factor: float
    ) -> tuple[NoisyMargins, Reals]:
        ends = np.cumsum(self.layout.shape)[:-1]
        counts, precisions = list(now.counts), list(now.precisions)
        drifts = self.state.drifts[: len(self.layout.shape)].copy()
        for axis, last in enumerate(np.split(factor * self.state.margins, ends)):
            if axis not in told:
                noise, std = 1 / now.precisions[axis], before.margins.std[axis]
                counts[axis], variance, drifts[axis] = followed(
                    last, std**2, now.counts[axis], noise, drifts[axis], self.memory, before.margins.counts[axis]
                )
                precisions[axis] = 1 / variance
        return NoisyMargins(tuple(counts), tuple(precisions), now.smooth), drifts

    def _joined(self, known: Published, pairs: Sequence[Scope], epsilon: Fraction, noise: float) -> Published:
        """What is known, with a table to measure more, of no precision yet, if the test says so."""
        law = Graph.of(self.layout, known).law
        predicted, total = law.pairs(), known.margins.total
        expected = [total * predicted[pair].reshape(-1) for pair in pairs]
        # Noise of a choice among so many passes the first with the chance of a false alarm; by chance, rows that the
        # model does describe are further off than on average by a few of the second.
        alarm = 2 * math.log(len(pairs) / FALSE_ALARM) * float(self.rows.l1 / epsilon)
        alarm += SIGMAS * math.sqrt((1 - 2 / math.pi) * total)
        ordered, margins = self.layout.ordered, known.margins.std
        off = [math.sqrt(2 / math.pi) * std * size for std, size in zip(margins, self.layout.shape, strict=True)]
        penalties = [
            alarm + off[j] + off[k] + misfit_penalty(total * predicted[j, k], (ordered[j], ordered[k]), noise)
            for j, k in pairs
        ]
        exact = marginal_counts(self.rows, known.labels, pairs)
        scores = misfit_scores(exact, expected, penalties, none=True)
        chosen = self.meter.select(scores, epsilon, "pair to join")
        if chosen == len(pairs):
            return known
        first = total * predicted[pairs[chosen]]
        return replace(known, tables=[*known.tables, Marginal(pairs[chosen], first, math.inf)])

    def _tables(
        self, known: Published, drifts: Reals, prediction: Prediction, budget: Budget, share: Fraction
    ) -> tuple[list[Marginal], Reals]:
        if not known.tables:
            return [], np.zeros(0)
        scopes = [table.scope for table in known.tables]
        drifts = np.concatenate([drifts, np.zeros(len(scopes) - drifts.size)])
        found: list[Marginal] = []
        for at, now in enumerate(budget.tables(self.rows, known.labels, scopes, share, self.meter)):
            last = known.tables[at]
            if math.isinf(last.std):
                found.append(now)
                continue
            # Large counts may be where the last model has them, or where margins would have them.
            expected = prediction.table(known.labels, last.scope)
            expected = expected + independent(expected)
            counts, variance, drifts[at] = followed(
                last.counts, last.std**2, now.counts, now.std**2, drifts[at], self.memory, expected
            )
            found.append(Marginal(now.scope, counts, math.sqrt(variance)))
        return found, drifts


def _total(counted: Values, margins: NoisyMargins) -> float:
    """The number of rows by all that counts them: itself, and the sums of margins."""
    precisions = [1 / max(float(np.max(counted.std)) ** 2, 1e-18)]
    precisions += [p / counts.size for p, counts in zip(margins.precisions, margins.counts, strict=True)]
    sums = [float(counted.numbers[0]), *(float(counts.sum()) for counts in margins.counts)]
    return max(float(np.average(sums, weights=precisions)), 0.0)
