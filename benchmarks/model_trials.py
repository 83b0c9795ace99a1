"""One run of a mechanism over a stream, with everything that is measured of it."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import veilstream.mechanisms.streams.model as package
from benchmarks.model_streams import TUNED, UNTOUCHED, Stream, real, stress
from veilstream.evaluate.metrics import average_relative_error, mean_absolute_error, outbreak_f1
from veilstream.evaluate.runner import Measures
from veilstream.mechanisms.protocols import StreamMechanism, accountant_for
from veilstream.mechanisms.streams import ModelBased, Sample, Uniform
from veilstream.mechanisms.streams.model import bank, looks, mechanism, output, plans
from veilstream.mechanisms.streams.model.revise import Revision
from veilstream.noise import ExactSampler
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
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
    "pull to the usual count in sparse streams": (output, "FEWEST_BINS", NEVER),
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


def trial(name: str, stream: str, epsilon: str, w: int | None, delta: str, seed: int) -> Measures:
    """All measures of one run."""
    assert package.ModelBased is ModelBased
    chosen = stream_called(stream)
    guarantee = Guarantee(epsilon, w, delta)
    with _reduced(name):
        values, low, high, looked, revisions = _walk(contender(name, chosen, w), guarantee, chosen.counts, seed)
    return (
        measures(values, chosen.counts)
        | {
            "coverage": float(np.mean((low <= chosen.counts) & (chosen.counts <= high))),
            "looks": looked,
        }
        | _revised(revisions, values, chosen.counts)
    )


def _walk(
    chosen: StreamMechanism[Any], guarantee: Guarantee, counts: NDArray[np.int64], seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float, list[Revision]]:
    steps, bins = counts.shape
    accountant = accountant_for(chosen, guarantee, bins)
    noise, state = ExactSampler(SeededSource(seed)), chosen.start(guarantee, bins)
    values, width, looked = np.empty((steps, bins)), np.empty((steps, bins)), 0
    revisions: list[Revision] = []
    for t in range(steps):
        meter = Meter(accountant, noise, t)
        state, released = chosen.step(state, seal(counts[t], t), meter)
        values[t] = released.numbers
        width[t] = half_width(0.95, released.std, released.law, integer=released.numbers.dtype.kind == "i")
        looked += any(charge.purpose != "watch" for charge in meter.charges)
        if isinstance(chosen, ModelBased):
            revisions += [one for one in chosen.revisions(state) if one.version == REVISED]
    return values, values - width, values + width, looked / steps, revisions


def _revised(revisions: list[Revision], values: NDArray[np.float64], counts: NDArray[np.int64]) -> dict[str, float]:
    """The error of revisions over that of what they revise."""
    if not revisions:
        return {}
    steps = [revision.step for revision in revisions]
    after = np.array([revision.values.numbers for revision in revisions])
    return {"revised": mean_absolute_error(after, counts[steps]) / mean_absolute_error(values[steps], counts[steps])}


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
