"""What a job would cost and how exact it would be, found without private data and without the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.jobs.measured_widths import expected_widths
from veilstream.jobs.prepare import PreparedJob
from veilstream.jobs.wording import number, plural, promise
from veilstream.mechanisms.allocation import largest_window_sum
from veilstream.mechanisms.streams.usefulness import forecast
from veilstream.mechanisms.traits import Traits
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import simulate_many

DRAWS = 200_000
"""Noise values enough for a mean absolute error within about one per cent."""
ADAPTIVE_RUNS = 5
"""Mechanisms that decide by data run one after the other."""
MOST_CELLS = 20_000_000
MOST_SIMULATED = 2000
ENOUGH_SUMS = 400
"""Simulated sums for a 95 % quantile worth telling."""


@dataclass(frozen=True, slots=True)
class Preview:
    """Public numbers about a job before it runs."""

    promise: str
    bins: int
    steps: int
    simulated_steps: int
    oblivious: bool
    releases_per_window: int
    epsilon_per_release: Fraction
    epsilon_per_window: Fraction
    noise_std: float
    mean_absolute_error: float
    sum_error: float | None
    """Half the width that holds the noise of the sum of all bins in 95 % of simulated releases, if they are many."""
    outlook: tuple[str, ...]
    still_error: float | None = None
    """Where errors depend on how counts move: the mean absolute error if nothing happens. ``mean_absolute_error`` is
    then that of counts which change at every step by more than noise hides."""
    measures: tuple[tuple[str, str], ...] = ()
    """How exact each measure of a column would be, in words; empty where rows or people are counted."""

    def as_json(self) -> dict[str, Any]:
        return {
            "dry_run": True,
            "promise": self.promise,
            "bins": self.bins,
            "steps": self.steps,
            "simulated_steps": self.simulated_steps,
            "releases_per_window": self.releases_per_window,
            "epsilon_per_release": str(self.epsilon_per_release),
            "epsilon_per_window": str(self.epsilon_per_window),
            "noise_std": self.noise_std,
            "mean_absolute_error": self.mean_absolute_error,
            "mean_absolute_error_if_still": self.still_error,
            "sum_error_95": self.sum_error,
            "outlook": list(self.outlook),
            "measures": dict(self.measures),
        }


def preview(prepared: PreparedJob, most_steps: int = MOST_SIMULATED) -> Preview:
    """Run the mechanism on zeros of the same shape, over two windows and ``most_steps`` at most."""
    guarantee, steps = prepared.guarantee, prepared.calendar.steps
    so_far = Traits.of(prepared.mechanism).cumulative
    wanted = steps if guarantee.period is None or so_far else min(steps, 2 * guarantee.period)
    numbers, movement = prepared.numbers, prepared.movement
    simulated = max(1, min(wanted, MOST_CELLS // numbers, most_steps))
    oblivious = Traits.of(prepared.mechanism).oblivious
    runs = max(1, min(200 if oblivious else ADAPTIVE_RUNS, DRAWS // (simulated * numbers)))
    zeros = np.zeros((simulated, numbers), dtype=np.int64)
    # One person moves measured values by a fraction: they are simulated in units of which it is a whole number.
    unit = float(movement.denominator)
    result = simulate_many(prepared.mechanism, guarantee, zeros, seed=1, runs=runs, max_contribution=movement.numerator)
    counted, fresh = prepared.measures is None, np.atleast_2d(result.fresh)
    window = simulated if guarantee.period is None else min(guarantee.period, simulated)
    spent = result.spent
    error = float(np.abs(np.asarray(result)).mean()) / unit
    still = error if counted and Traits.of(prepared.mechanism).modelled else None
    if still is not None:
        error = _error_on_jumps(prepared, zeros.shape, runs)
    counts = np.lib.stride_tricks.sliding_window_view(fresh, window, axis=1).sum(axis=2)
    paid = [cost for cost in spent if cost]
    return Preview(
        promise=promise(prepared.promised, prepared.calendar.every),
        bins=prepared.bins,
        steps=steps,
        simulated_steps=simulated,
        oblivious=oblivious,
        releases_per_window=int(counts.max()),
        epsilon_per_release=max(paid, default=Fraction(0)),
        # Later totals read a step again and again: by the end it has paid for all of them.
        epsilon_per_window=guarantee.epsilon if so_far else _fullest(spent, window, guarantee),
        noise_std=float(np.mean(result.noise_std)) / unit,
        mean_absolute_error=error,
        sum_error=_sum_error(np.asarray(result), fresh) if counted and still is None and prepared.bins > 1 else None,
        outlook=() if not counted else _outlook(prepared) if still is None else _between(still, error),
        still_error=still,
        measures=expected_widths(prepared.measures, float(np.mean(result.noise_std)) / unit, prepared.job.level),
    )


def _error_on_jumps(prepared: PreparedJob, shape: tuple[int, int], runs: int) -> float:
    """The mean absolute error on counts that change at every step by far more than noise hides."""
    size = int(1000 * prepared.max_contribution * shape[0] / float(prepared.guarantee.epsilon)) + 1
    places = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape)
    counts = places * 7919 % 1009 * size
    run = simulate_many(
        prepared.mechanism, prepared.guarantee, counts, seed=1, runs=runs, max_contribution=prepared.max_contribution
    )
    return float(np.abs(np.asarray(run) - counts).mean())


def _between(still: float, error: float) -> tuple[str, ...]:
    """What to expect where it depends on the counts."""
    jumping, quiet = (number(float(f"{mean:.2g}")) for mean in (error, still))
    return (
        f"the mean error of a bin is about {jumping} where counts jump at every step, and {quiet} where they stay the "
        "same; `veilstream advise` gives a forecast for counts like yours",
    )


def _outlook(prepared: PreparedJob) -> tuple[str, ...]:
    steps = prepared.calendar.steps
    return tuple(
        forecast(prepared.mechanism, prepared.guarantee, prepared.bins, prepared.max_contribution, steps).lines
    )


def _fullest(spent: Sequence[Fraction], window: int, guarantee: Guarantee) -> Fraction:
    """What one person can meet of what each step cost."""
    if guarantee.presence is None:
        return largest_window_sum(spent, window)
    paid = list(enumerate(spent))
    near = [paid[max(0, t - window + 1) : t] for t, _ in paid]
    return max(guarantee.met(before, t) + cost for before, (t, cost) in zip(near, paid, strict=True))


def _presence_lines(prepared: PreparedJob) -> list[tuple[str, str]]:
    """In how many steps a person counts, and what that is charged for."""
    guarantee = prepared.guarantee
    if guarantee.presence is None:
        return []
    where = "any window" if guarantee.w else "a block" if guarantee.per else "the whole stream"
    counts = f"counts in at most {guarantee.presence} steps of {where} and is charged for {guarantee.reach}"
    declared = prepared.job.value is not None
    how = "as you declare: nothing can check it" if declared else "the rest of a person's steps is left out"
    return [("presence", f"one person {counts}; {how}")]


def _people_lines(prepared: PreparedJob) -> list[tuple[str, str]]:
    """How long a visit is seen in the numbers of people of the last steps, and what that is charged for."""
    steps, w = prepared.job.distinct_steps, prepared.guarantee.w
    if steps is None or steps == 1 or w is None:
        return []
    return [("visits", f"one visit counts in {steps} successive steps; {w} of them share the budget")]


def _sum_error(noise: NDArray[np.float64], fresh: NDArray[np.bool_]) -> float | None:
    """The 95 % quantile of the absolute sum over bins, over all simulated releases (runs × steps × bins)."""
    sums = np.abs(noise.sum(axis=-1))[np.broadcast_to(fresh, noise.shape[:2])]
    return float(np.quantile(sums, 0.95)) if sums.size >= ENOUGH_SUMS else None


def describe_preview(prepared: PreparedJob, seen: Preview) -> list[tuple[str, str]]:
    """The preview as (what, value) lines for a person."""
    period, seldom = prepared.guarantee.period, prepared.guarantee.presence is not None
    several = f"{period} steps" if seldom else f"window of {period} steps"
    window = "whole stream" if period is None else "step" if period == 1 else several
    lines = [
        ("guarantee", str(prepared.promised)),
        ("meaning", seen.promise),
        ("one person", f"counts for at most {prepared.max_contribution} in a step, {_who_bounds(prepared)}"),
        *_presence_lines(prepared),
        *_people_lines(prepared),
        ("steps", f"{seen.steps:,} x {prepared.calendar.every} from {prepared.calendar.label(0)}"),
        ("bins", f"{seen.bins:,}"),
        ("cost of a release", f"epsilon {number(seen.epsilon_per_release)}"),
        (f"releases per {window}", f"{seen.releases_per_window}, together epsilon {number(seen.epsilon_per_window)}"),
    ]
    if seen.measures:
        lines.extend(seen.measures)
    elif seen.still_error is None:
        lines.append(("noise per bin", f"standard deviation {number(seen.noise_std)}"))
        error = f"{number(seen.mean_absolute_error)} counts on average, from noise alone"
        lines.append(("expected error per bin", error))
    if seen.sum_error is not None:
        lines.append(("expected error of a sum", f"all bins: within ±{number(seen.sum_error)} in 95 % of simulations"))
    lines.extend(("forecast", line) for line in seen.outlook)
    if not seen.oblivious and seen.still_error is None:
        lines.append(("note", "this mechanism adapts to the data; the figures are for a stream of zeros"))
    if seen.simulated_steps < seen.steps:
        lines.append(("note", f"figures simulated over the first {seen.simulated_steps} steps"))
    return lines


def _who_bounds(prepared: PreparedJob) -> str:
    if prepared.job.value is not None:
        return "as you declare with --per-person: nothing can check it"
    most = "" if prepared.job.most is None else f" and at most {number(prepared.job.most)} in a sum"
    return f"in at most {plural(prepared.job.bins_per_user, 'bin')}{most}; a person's other rows are left out"
