"""One run of a mechanism over a stream, with everything that is measured of it."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.model_streams import TUNED, UNTOUCHED, Stream, real, stress
from veilstream.errors import InvalidInputError
from veilstream.evaluate.metrics import average_relative_error, mean_absolute_error, outbreak_f1
from veilstream.evaluate.runner import Measures
from veilstream.mechanisms.protocols import StreamMechanism, accountant_for
from veilstream.mechanisms.streams import DSAT, Fast, ModelBased, Sample, Uniform
from veilstream.mechanisms.streams.model import bank, looks, mechanism, output, plans
from veilstream.noise import ExactSampler
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.batch import BatchMeter
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.values.revision import Revision
from veilstream.values.values import half_width

REVISED: Final = 10
"""Steps after which a value is compared with its revision."""
SUM: Final = 10
"""Steps that are added up."""
NEVER: Final = 10**9
WITHOUT: Final[dict[str, tuple[Any, str, Any]]] = {
    "block noise": (plans, "MOST_BINS_IN_BLOCKS", 0),
    "common growth": (mechanism, "FEWEST_BINS", NEVER),
    "learned shares of experts": (bank, "LEARNING", 0.0),
    "bound on steps by the level": (bank, "LARGEST_PENALTY", 0.0),
    "pull to what bins have on average": (output, "FEWEST_BINS", NEVER),
    "doubt of what may be nothing": (output, "DOUBT", 0.0),
    "medians of whole counts": (output, "MOST_WHOLE", 0.0),
    "first look with an eighth of the budget": (mechanism, "SHORTEST_WITH_OPENING", NEVER),
    "alarm by single bins": (looks, "FALSE_ALARM", 1e-300),
    "look that a watched total calls for": (looks, "NOWHERE_NEAR", NEVER),
}
"""Part -> what to set in the code to do without it. Seasons, gaps and delta are parameters."""


def stream_called(name: str) -> Stream:
    if name in TUNED or name in UNTOUCHED:
        return real(name)
    return next(stream for stream in stress() if stream.name == name)


def contender(name: str, stream: Stream, w: int | None) -> StreamMechanism[Any]:
    """A mechanism by its name in the tables."""
    horizon = None if w is not None else len(stream.counts)
    match name:
        case "uniform":
            return Uniform(horizon=horizon)
        case "sample":
            return Sample()
        case "FAST":
            return Fast(horizon=horizon)
        case "FAST, few looks":
            return Fast(samples=None, horizon=horizon)
        case "DSAT":
            return DSAT(horizon=horizon)
        case "DSAT, few releases":
            return DSAT(releases=None, horizon=horizon)
        case "safe" | "model without gaps":
            return ModelBased(horizon, stream.periods, safe=True)
        case "model revised":
            return ModelBased(horizon, stream.periods, revise=REVISED)
        case "model without seasons":
            return ModelBased(horizon)
        case "model without a horizon":
            return ModelBased(None, stream.periods)
        case _:
            return ModelBased(horizon, stream.periods)


@contextmanager
def _reduced(name: str) -> Generator[None]:
    """The package without the part that ``name`` ends with."""
    part = WITHOUT.get(name.removeprefix("model without "))
    if part is None:
        yield
        return
    module, constant, value = part
    before = getattr(module, constant)
    setattr(module, constant, value)
    plans.block_plan.cache_clear()
    plans.expected_errors.cache_clear()
    try:
        yield
    finally:
        setattr(module, constant, before)
        plans.block_plan.cache_clear()
        plans.expected_errors.cache_clear()


def trial(name: str, stream: str, epsilon: str, w: int | None, delta: str, runs: int) -> Measures:
    """Means over runs of all that is measured of one; runs go together as long as they decide alike."""
    chosen = stream_called(stream)
    guarantee = Guarantee(epsilon, w, delta)
    made = contender(name, chosen, w)
    with _reduced(name):
        try:
            walks = [_walk(made, guarantee, chosen.counts, 0, (runs,))]
        except InvalidInputError:
            walks = [_walk(made, guarantee, chosen.counts, seed, (1,)) for seed in range(runs)]
    found = [walk.measures(run, chosen.counts) for walk in walks for run in range(walk.values.shape[1])]
    known = [metric for metric in found[0] if not all(math.isnan(each[metric]) for each in found)]
    return {metric: float(np.nanmean([each[metric] for each in found])) for metric in known}


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """Runs over a stream: values and half widths of their 95 % intervals, steps × runs × bins, and the looks."""

    values: NDArray[np.float64]
    widths: NDArray[np.float64]
    looked: NDArray[np.bool_]
    revisions: list[Revision]

    def measures(self, run: int, counts: NDArray[np.int64]) -> dict[str, float]:
        values = self.values[:, run]
        covered = np.abs(values - counts) <= self.widths[:, run]
        between = covered[~self.looked]
        found = measures(values, counts) | {
            "coverage": float(covered.mean()),
            "coverage between looks": float(between.mean()) if between.size else math.nan,
            "looks": float(self.looked.mean()),
        }
        if self.revisions:
            steps = [revision.step for revision in self.revisions]
            after = np.array([revision.values.numbers[run] for revision in self.revisions])
            before = mean_absolute_error(values[steps], counts[steps])
            found["revised"] = mean_absolute_error(after, counts[steps]) / before
        return found


def _walk(
    chosen: StreamMechanism[Any], guarantee: Guarantee, counts: NDArray[np.int64], seed: int, batch: tuple[int, ...]
) -> Walk:
    steps, bins = counts.shape
    accountant = accountant_for(chosen, guarantee, bins)
    noise, state = ExactSampler(SeededSource(seed)), chosen.start(guarantee, bins)
    values, widths = np.empty((steps, *batch, bins)), np.empty((steps, *batch, bins))
    looked = np.zeros(steps, dtype=np.bool_)
    revisions: list[Revision] = []
    for t in range(steps):
        meter = BatchMeter(accountant, noise, t, batch)
        state, released = chosen.step(state, seal(counts[t], t), meter)
        values[t] = released.numbers
        widths[t] = half_width(0.95, released.std, released.law, integer=released.numbers.dtype.kind == "i")
        looked[t] = any(charge.purpose != "watch" for charge in meter.charges)
        if isinstance(chosen, ModelBased):
            revisions += [one for one in chosen.revisions(state) if one.version == REVISED]
    return Walk(values, widths, looked, revisions)


def measures(values: NDArray[np.float64], counts: NDArray[np.int64]) -> dict[str, float]:
    """Errors of bins, of totals, of sums over time and of detection."""
    whole = len(counts) // SUM * SUM
    gaps = (values - counts)[:whole].reshape(-1, SUM, counts.shape[1]).sum(axis=1)
    totals = counts.sum(axis=1)
    return {
        "absolute": mean_absolute_error(values, counts),
        "relative": average_relative_error(values, counts, max(1.0, 0.001 * float(totals.mean()))),
        "total": float(np.abs(values.sum(axis=1) - totals).mean()),
        "sums": float(np.abs(gaps).mean()) if whole else math.nan,
        "missed": 1 - outbreak_f1(values.sum(axis=1), totals),
    }
