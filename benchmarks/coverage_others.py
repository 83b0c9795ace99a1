"""How often other 95 % intervals hold what their columns say: personal budgets, points, streams, synthetic tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Table, progress
from benchmarks.table_sources import RealTable, real_tables
from benchmarks.tables import Ours, table_domain_of
from veilstream.data.bounding.keyed import Key
from veilstream.mechanisms.session import Session
from veilstream.mechanisms.streams import FixedRate
from veilstream.metric import (
    ChosenMedian,
    HatGrid,
    MetricGuarantee,
    PointMechanism,
    SortedPoints,
    Space,
    simulate_points,
)
from veilstream.noise import ExactSampler
from veilstream.noise.spread import laplace_std
from veilstream.personalised import (
    Checked,
    CountMechanism,
    Minimum,
    Roster,
    Sampling,
    SimulatedMeter,
    Stretching,
    Threshold,
    count_levels,
)
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.synthesis.checking import Interval, check_of, measurements, pairs_to_measure
from veilstream.synthesis.junction import Scope
from veilstream.synthesis.kinds import TableModel, automatic
from veilstream.synthesis.quality import SHARE_OF_TABLES
from veilstream.synthesis.rows import content_hashes
from veilstream.synthesis.trust import marginal_trust
from veilstream.testing.simulation import SeededSource, simulate
from veilstream.trusted.rows import SealedTable, ordered_rows
from veilstream.values.values import NoiseLaw, half_width

Counts = NDArray[np.int64]
RUNS: Final = 400
MODELS: Final = 20
REFITS: Final = 8
PEOPLE: Final = 4000
SMALL_TABLES: Final = ("CDNOW", "Bicycles", "Breast cancer")
MECHANISMS: Final[dict[str, CountMechanism]] = {
    "minimum": Minimum(),
    "threshold 1/2": Threshold("1/2"),
    "sampling": Sampling(),
    "stretching": Stretching(),
    "checked": Checked(),
}


def others(line: Counts) -> Table:
    """Coverage of what a column is named for, and of the true count where that is something else."""
    rows: list[list[str]] = []
    for name, mechanism in MECHANISMS.items():
        columns = "low, high" if name == "minimum" else "noise_low, noise_high"
        for spread, follows in (("any", False), ("follow the data", True)):
            held = _personalised(mechanism, follows)
            rows.append([f"personal budgets ({spread}), `{name}`", columns, "count", f"{held:.3f}"])
    rows += [
        ["median of points, `ChosenMedian`", "low, high", "rank among the points", f"{_median():.3f}"],
        ["points in order, `SortedPoints`", "low, high", "value before noise", f"{_sorted():.3f}"],
        ["points on a grid, noise on edges", "low, high", "value before noise", f"{_grid('0.01', 'flow'):.3f}"],
        ["points on a grid, noise on nodes", "low, high", "value before noise", f"{_grid('0.5', 'nodes'):.3f}"],
        ["points on a grid, noise on cells", "low, high", "value before noise", f"{_grid('0.5', 'cells'):.3f}"],
    ]
    noise, count = _repeated(line)
    rows.append(["stream, repeated values, `fixed-rate`", "low, high", "value before noise", f"{noise:.3f}"])
    rows.append(["stream, repeated values, `fixed-rate`", "-", "count of the step (not promised)", f"{count:.3f}"])
    for name, table in real_tables().items():
        if name in SMALL_TABLES:
            own, true, measured = _synthetic(table)
            said = f"synthetic table {name}, the page's pairs"
            rows.append([said, "noise_low, noise_high", "error if the model were the truth", f"{own:.3f}"])
            rows.append([said, "-", "error against the table (not promised)", f"{true:.3f}"])
            rows.append([f"{said} with `--measure 1/10`", "low, high", "error against the table", f"{measured:.3f}"])
    for row in rows:
        progress(f"coverage {row}")
    return Table(
        "How often other 95 % intervals hold what they are named for",
        f"{PEOPLE:,} people with budgets from 1/10 to 2 in 8 bins, {RUNS} runs; medians and grids of as many points, "
        f"{RUNS} runs; a stream of MEDCOST that moves by one bin a step, published every fourth step; pairs of "
        f"attributes of the rows drawn from {MODELS} models at ε = 1, {REFITS} more models of each. "
        "Columns `noise_low`, `noise_high` and rows marked 'not promised' show what the interval does not speak of.",
        ["what", "columns", "holds", "share"],
        rows,
    )


def _personalised(mechanism: CountMechanism, follows: bool) -> float:
    budgets = np.resize([0.1, 0.5, 1.0, 2.0], PEOPLE)
    roster = Roster.of_budgets(budgets)
    levels = roster.level_of(np.arange(PEOPLE))
    bins = (2 * levels + np.arange(PEOPLE) % 2 if follows else np.arange(PEOPLE) // 4 % 8).astype(np.int64)
    exact = np.bincount(bins, minlength=8)
    held: list[float] = []
    for seed in range(RUNS):
        values = mechanism.estimate(count_levels(roster, levels, bins, bins=8), SimulatedMeter(roster, seed))
        width = half_width(0.95, values.std, values.law, integer=False)
        held.append(float((np.abs(values.numbers - exact) <= width).mean()))
    return float(np.mean(held))


def _median() -> float:
    guarantee = MetricGuarantee(1, "0.001", Space(0, 1))
    points = np.sort(np.random.default_rng(1).beta(2, 5, PEOPLE))  # noqa: TID251 (test points)
    mechanism = ChosenMedian()
    low, high = mechanism.ranks(guarantee, PEOPLE)

    def inside(seed: int) -> bool:
        value = float(simulate_points(mechanism, guarantee, points, seed).numbers[0])
        return bool(low <= np.searchsorted(points, value) + 1 and np.searchsorted(points, value, side="right") <= high)

    return float(np.mean([inside(seed) for seed in range(RUNS)]))


def _sorted() -> float:
    guarantee = MetricGuarantee(1, "0.01", Space(0, 1))
    points = np.sort(np.random.default_rng(1).beta(2, 5, PEOPLE))  # noqa: TID251 (test points)
    return _mean(lambda seed: _held(SortedPoints(), guarantee, points, seed, points))


def _grid(distance: str, noise: Literal["flow", "nodes", "cells"]) -> float:
    space = Space((0, 0), (1, 1))
    points = np.random.default_rng(2).beta(2, 3, (PEOPLE, 2))  # noqa: TID251 (test points)
    grid = HatGrid(cells=12, noise=noise)
    # Hardly any noise: the interpolated counts themselves.
    exact = simulate_points(grid, MetricGuarantee(100_000, distance, space), points, 0).numbers
    return _mean(lambda seed: _held(grid, MetricGuarantee(1, distance, space), points, seed, exact))


def _held(
    grid: PointMechanism, guarantee: MetricGuarantee, points: NDArray[np.float64], seed: int, exact: object
) -> float:
    values = simulate_points(grid, guarantee, points, seed)
    width = half_width(0.95, values.std, values.law, integer=False)
    return float((np.abs(values.numbers - np.asarray(exact)) <= width).mean())


def _mean(once: Callable[[int], float]) -> float:
    return float(np.mean([once(seed) for seed in range(RUNS)]))


def _repeated(line: Counts) -> tuple[float, float]:
    steps = np.stack([np.roll(line, t) for t in range(16)])
    interval = 4
    run = simulate(FixedRate(interval=interval), Guarantee(1, w=interval), steps, seed=3)
    width = half_width(0.95, laplace_std(1.0), NoiseLaw.LAPLACE, integer=True)
    repeated = [t for t in range(16) if t % interval]
    values = np.asarray(run)
    before = np.stack([steps[t - t % interval] for t in repeated])
    return (
        float((np.abs(values[repeated] - before) <= width).mean()),
        float((np.abs(values[repeated] - steps[repeated]) <= width).mean()),
    )


def _synthetic(table: RealTable) -> tuple[float, float, float]:
    """How often the page's intervals hold the error of further models of its rows, and the error against the table.

    Pairs of one model err together, so that many models are published. Those by noise come first, then those measured.
    """
    domain = table_domain_of(table)
    ours = Ours(automatic(domain))
    own, true, measured = list[bool](), list[bool](), list[bool]()
    for published in range(MODELS):
        model = ours.model(table, Fraction(1), published)
        drawn = np.stack(model.sample_codes(len(table.codes), 0), axis=1)
        copy = RealTable(drawn, table.shape, table.ordered)
        again = [ours.draw(copy, Fraction(1), MODELS + REFITS * published + refit) for refit in range(REFITS)]
        trust = marginal_trust(model, ours.mechanism, Guarantee(1, w=1))
        pairs = {(each.scope[0], each.scope[1]): each for each in trust if len(each.scope) == 2}
        for axes, pair in pairs.items():
            off = [_distance(drawn, other, axes, table.shape) for other in again]
            own += [pair.noise_low <= each <= pair.noise_high for each in off]
            exact = _distance(table.codes, drawn, axes, table.shape)
            true.append(pair.noise_low <= exact <= pair.noise_high)
        found = _measured(table, model, drawn, list(pairs), published)
        for scope, interval in found.items():
            exact = _distance(table.codes, drawn, (scope[0], scope[1]), table.shape)
            measured.append(interval.low <= exact <= interval.high)
    return float(np.mean(own)), float(np.mean(true)), float(np.mean(measured))


def _measured(
    table: RealTable, model: TableModel, drawn: Counts, pairs: Sequence[Scope], seed: int
) -> dict[Scope, Interval]:
    """What the page would measure of a table for an epsilon of 1/10, with simulated noise."""
    columns = [np.ascontiguousarray(column) for column in table.codes.T]
    rows = ordered_rows(columns, content_hashes(columns, Key(bytes(16))), table.shape, 0)
    epsilon = Fraction(1, 10) * SHARE_OF_TABLES
    chosen = pairs_to_measure(pairs, model.rows, epsilon, rows.l1)
    sealed = SealedTable(rows, (), spare=2 * len(chosen))
    session = Session(Accountant(Guarantee(epsilon, w=1), sealed.size), ExactSampler(SeededSource((seed, 12))))
    check = check_of(model, [np.ascontiguousarray(column) for column in drawn.T], chosen)
    values = check.estimate(sealed, epsilon, session.at(0))
    found = measurements(values, len(chosen), model.rows)
    return {scope: each.drawn for scope, each in zip(chosen, found, strict=True)}


def _distance(one: Counts, two: Counts, axes: tuple[int, int], shape: tuple[int, ...]) -> float:
    width = shape[axes[1]]
    shares = [
        np.bincount(rows[:, axes[0]] * width + rows[:, axes[1]], minlength=shape[axes[0]] * width) / len(rows)
        for rows in (one, two)
    ]
    return float(np.abs(shares[0] - shares[1]).sum()) / 2
