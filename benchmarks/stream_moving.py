"""The adaptive streams on moving objects of a real road network, a histogram of a million cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import veilstream as vs
from benchmarks.report import Table, progress
from benchmarks.stream_workloads import DATA
from research.workloads import MovingObjects, RoadNetwork
from veilstream.evaluate.queries import Ranges, RangeSums, random_ranges
from veilstream.mechanisms.streams import DSAT, DSFT, BudgetAbsorption, BudgetDistribution, FixedRate, Sample, Uniform
from veilstream.mechanisms.streams.decision import default_releases
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.meter import Meter

FILES: Final = tuple(DATA / name for name in ("oldenburg_nodes.csv.gz", "oldenburg_edges.csv.gz"))
STEPS: Final = 420
MEASURED_EVERY: Final = 20
QUERIES: Final = 200


@dataclass(slots=True)
class Run:
    """One mechanism under one guarantee, fed step by step, and its mean absolute errors so far."""

    name: str
    mechanism: Any
    guarantee: vs.Guarantee
    bins: int
    releases: int = 0
    errors: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    accountant: Accountant = field(init=False)
    noise: ExactSampler = field(init=False)
    state: Any = field(init=False)

    def __post_init__(self) -> None:
        self.accountant = Accountant(self.guarantee, self.bins)
        self.noise = ExactSampler(SeededSource(2002))
        self.state = self.mechanism.start(self.guarantee, self.bins)

    def feed(self, now: Sealed, truth: NDArray[np.int64], t: int, shape: tuple[int, ...], queries: Ranges) -> None:
        measured = t % MEASURED_EVERY == MEASURED_EVERY - 1
        # Nothing that Uniform does at one step depends on another.
        if isinstance(self.mechanism, Uniform) and not measured:
            return
        self.state, values = self.mechanism.step(self.state, now, Meter(self.accountant, self.noise, t))
        self.releases += values.fresh
        if measured:
            gaps = values.numbers - truth
            ranges = np.abs(RangeSums(gaps, shape).answer(queries)).mean()
            self.errors.append((float(np.abs(gaps).mean()), float(ranges)))


def _runs(epsilons: Sequence[str], windows: Sequence[int], bins: int) -> list[Run]:
    def mechanisms(w: int) -> dict[str, Any]:
        return {
            "Uniform": Uniform(),
            "Sample": Sample(),
            "FixedRate": FixedRate(interval=-(-w // default_releases(w))),
            "BD": BudgetDistribution(),
            "BA": BudgetAbsorption(),
            "DSFT": DSFT(),
            "DSAT": DSAT(releases=None),
        }

    return [
        Run(name, mechanism, vs.Guarantee(epsilon, w=w), bins)
        for epsilon in epsilons
        for w in windows
        for name, mechanism in mechanisms(w).items()
    ]


def tables(epsilons: Sequence[str], windows: Sequence[int]) -> list[Table]:
    """Errors of bins and of rectangles; none if the map is not there."""
    if not all(path.is_file() for path in FILES):
        return []
    objects = MovingObjects(RoadNetwork.read(*FILES), steps=STEPS)
    shape = objects.shape
    queries = random_ranges(shape, QUERIES, seed=7)
    runs = _runs(epsilons, windows, shape[0] * shape[1])
    moved: list[float] = []
    before: NDArray[np.int64] | None = None
    for t, counts in enumerate(objects.snapshots(seed=2002)):
        now = seal(counts, t, shape=shape)
        for run in runs:
            run.feed(now, counts, t, shape, queries)
        if before is not None:
            moved.append(float(np.abs(counts - before).sum()))
        before = counts
        if t % 50 == 0:
            progress(f"moving objects: {t} of {STEPS} steps")
    assert before is not None
    notes = (
        f"{objects.objects:,} objects on the map of Oldenburg, {shape[0]:,} × {shape[1]:,} cells "
        f"({np.count_nonzero(before) / before.size:.1%} of them filled, mean count "
        f"{before.mean():.2f}), {STEPS} steps, at each of which the histogram moves by {np.mean(moved):,.0f} in L1. "
        f"Mean absolute error at every {MEASURED_EVERY}th step, one run; C = ⌊√w⌋."
    )
    names = list(dict.fromkeys(run.name for run in runs))
    return [
        Table("Moving objects: error of bins", notes, ["ε", "w", *names], _rows(runs, names, 0)),
        Table(
            "Moving objects: error of rectangles",
            f"The same runs: {QUERIES} random rectangles.",
            ["ε", "w", *names],
            _rows(runs, names, 1),
        ),
    ]


def _rows(runs: list[Run], names: list[str], which: int) -> list[list[str]]:
    per_row = len(names)
    rows: list[list[str]] = []
    for start in range(0, len(runs), per_row):
        group = runs[start : start + per_row]
        means = [float(np.mean([error[which] for error in run.errors])) for run in group]
        guarantee = group[0].guarantee
        rows.append([str(guarantee.epsilon), str(guarantee.w), *(f"{mean:,.3g}" for mean in means)])
    return rows
