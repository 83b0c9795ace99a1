"""One run of a mechanism over a stream, with everything that is measured of it."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.model_runs import Runs, SideBySide
from benchmarks.model_streams import TUNED, UNTOUCHED, Stream, real, stress
from veilstream.evaluate.metrics import average_relative_error, mean_absolute_error, outbreak_f1
from veilstream.evaluate.runner import Measures
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import DSAT, Fast, ModelBased, Sample, Uniform
from veilstream.mechanisms.streams.model import bank, looks, mechanism, output, plans
from veilstream.privacy.guarantee import Guarantee

REVISED: Final = 10
"""Steps after which a value is compared with its revision."""
SUM: Final = 10
"""Steps that are added up."""
LATEST: Final = 10
"""Steps after which a detection counts as missed."""
FALSE: Final = 0.05
"""Of the steps at which there is nothing to detect, those at which something may be shown."""
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
    """Means over runs of all that is measured of one."""
    chosen = stream_called(stream)
    with _reduced(name):
        made = SideBySide(contender(name, chosen, w), Guarantee(epsilon, w, delta), chosen.counts, runs).walked(seed=0)
    found = [_measures(made, run, chosen.counts) for run in range(runs)]
    known = [metric for metric in found[0] if not all(math.isnan(each[metric]) for each in found)]
    return {metric: float(np.nanmean([each[metric] for each in found])) for metric in known}


def _measures(made: Runs, run: int, counts: NDArray[np.int64]) -> dict[str, float]:
    """Errors of bins, of totals, of sums over time and of detection; coverage; the error that revisions leave."""
    values, looked = made.values[:, run], made.looked[:, run]
    covered = np.abs(values - counts) <= made.widths[:, run]
    whole = len(counts) // SUM * SUM
    gaps = (values - counts)[:whole].reshape(-1, SUM, counts.shape[1]).sum(axis=1)
    totals, released = counts.sum(axis=1), values.sum(axis=1)
    found = {
        "absolute": mean_absolute_error(values, counts),
        "relative": average_relative_error(values, counts, max(1.0, 0.001 * float(totals.mean()))),
        "total": float(np.abs(released - totals).mean()),
        "sums": float(np.abs(gaps).mean()) if whole else math.nan,
        "missed": 1 - outbreak_f1(released, totals),
        "late": detection_delay(released, totals),
        "coverage": float(covered.mean()),
        "coverage between looks": float(covered[~looked].mean()) if not looked.all() else math.nan,
        "steps between looks": float(np.sum(~looked)),
        "looks": float(looked.mean()),
    }
    revised = ~np.isnan(made.revised[:, run, 0])
    if revised.any():
        before = mean_absolute_error(values[revised], counts[revised])
        found["revised"] = mean_absolute_error(made.revised[revised, run], counts[revised]) / before
    return found


def detection_delay(released: NDArray[np.float64], totals: NDArray[np.int64]) -> float:
    """Steps until a release shows that a total has passed its 90 % quantile, at most LATEST; their mean.

    A total passes it where it had been below for at least LATEST steps. A release shows it where it lies above the
    value that only FALSE of the releases of all other steps lie above: every mechanism has the same false alarms, and
    noise that passes the quantile all the time is late.
    """
    above = totals > np.quantile(totals, 0.9)
    shown = released > np.quantile(released[~above], 1 - FALSE)
    begins = [t for t in range(LATEST, len(totals)) if above[t] and not above[t - LATEST : t].any()]
    delays = [int(np.argmax(np.append(shown[t : t + LATEST], True))) for t in begins]
    return float(np.mean(delays)) if delays else math.nan
