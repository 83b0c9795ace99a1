"""Errors and pictures of every mechanism on the bundled public counts: ``python -m website measure``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream import Guarantee, simulate
from veilstream.cli.demo_data import bundled_data
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS, Sample
from website.charts import line_chart
from website.mechanism_pages import FOLDER, MEASURED

EPSILON, WINDOW, SEEDS = Fraction(1, 20), 13, 3
TABLE_EPSILON: Final = Fraction(1, 50)
RANGES: Final = 200
Counts = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Task:
    """What a stream mechanism publishes: its truth from the counts, its guarantee, its parameters."""

    name: str
    truth: Callable[[Counts], Counts]
    guarantee: Guarantee
    settings: dict[str, Any]


def window_sums(counts: Counts, steps: int = WINDOW) -> Counts:
    """The sum of the last steps, at every step."""
    total = np.cumsum(counts, axis=0)
    return np.asarray(total - np.concatenate([np.zeros_like(total[:steps]), total[:-steps]]))


_COUNTS: Final = Task("counts", lambda counts: counts, Guarantee(EPSILON, w=WINDOW), {})
_SUMS: Final = Task(
    f"sums of the last {WINDOW} weeks, one week protected", window_sums, Guarantee(EPSILON, w=1), {"window": WINDOW}
)
_TASKS: Final = {
    "scheduled": Task(
        "counts, winters with eight times the weight", lambda counts: counts, Guarantee(EPSILON, w=WINDOW),
        {"weights": " ".join(["8"] * 26 + ["1"] * 26)},
    ),
    "time-unit": _SUMS,
    "sliding-window": _SUMS,
    "retroactive-grouping": _SUMS,
    "moving-sum": Task(
        f"sums of the last {WINDOW} weeks, one week protected, δ = 10⁻⁶", window_sums,
        Guarantee(EPSILON, w=1, delta=Fraction(1, 10**6)), {"window": WINDOW},
    ),
    "running-total": Task(
        "totals so far, one week protected", lambda counts: np.cumsum(counts, axis=0), Guarantee(EPSILON, w=1), {}
    ),
}  # fmt: skip


def visits() -> Counts:
    """Visits by week and bin: 156 weeks, ten regions by five age groups."""
    with bundled_data() as path:
        table = pl.read_csv(path)
    wide = table.pivot(on=["region", "age"], index="week_start", values="visits").sort("week_start")
    return wide.drop("week_start").to_numpy().astype(np.int64)


def measure() -> None:
    """Writes the pictures and ``measured.json``."""
    counts = visits()
    results = {"streams": _streams(counts), "histograms": _histograms(counts)}
    MEASURED.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _streams(counts: Counts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    shown = int(np.argsort(counts.mean(axis=0))[28])
    for name, kind in STREAMS.items():
        task = _TASKS.get(name, _COUNTS)
        truth, mechanism = task.truth(counts), kind(**task.settings)
        runs = [simulate(mechanism, task.guarantee, counts, seed=seed) for seed in range(SEEDS)]
        errors = [np.abs(np.asarray(run) - truth) for run in runs]
        fresh = np.flatnonzero(runs[0].fresh)
        line_chart(FOLDER / f"{name}.svg", truth[:, shown], np.asarray(runs[0])[:, shown], fresh, "week", task.name)
        found[name] = {
            "task": task.name,
            "errors": {
                "mean error of a bin": _number(np.mean(errors)),
                "of the total of all bins": _number(
                    np.mean([np.abs((np.asarray(run) - truth).sum(axis=1)).mean() for run in runs])
                ),
                "worst 5 % of errors above": _number(np.quantile(errors, 0.95)),
            },
        }
        print(f"{name}: {found[name]['errors']}", flush=True)
    note = (
        f"Mean absolute errors over 156 weeks and 50 bins of the bundled counts, ε = {EPSILON}, {SEEDS} seeds; for "
        f"mechanisms of counts one person is protected within any {WINDOW} weeks. The mean count is "
        f"{counts.mean():,.0f}. Written by `python -m website measure`; one stream is not a ranking."
    )
    picture = {"epsilon": str(EPSILON), "w": WINDOW}
    return {"note": note, "picture": picture, "peers": ["uniform", "sample", "time-unit"], "mechanisms": found}


def _histograms(counts: Counts) -> dict[str, Any]:
    table = counts[:, np.argsort(counts.mean(axis=0))[:10]].T.copy()
    shown = 7
    draw = np.random.Generator(np.random.PCG64(1))  # noqa: TID251
    corners = np.sort(draw.integers(0, table.shape, (RANGES, 2, 2)), axis=1)
    corners[:, 1] += 1
    found: dict[str, Any] = {}
    for name, kind in HISTOGRAMS.items():
        delta = Fraction(1, 10**6) if name == "gaussian" else Fraction(0)
        guarantee = Guarantee(TABLE_EPSILON, w=1, delta=delta)
        runs = [_table_release(kind(), guarantee, table, seed) for seed in range(SEEDS)]
        line_chart(FOLDER / f"{name}.svg", table[shown], runs[0][shown], np.zeros(0, dtype=int), "week", "counts")
        found[name] = {
            "errors": {
                "mean error of a bin": _number(np.mean([np.abs(run - table) for run in runs])),
                "of a random box": _number(np.mean([np.abs(_boxes(run - table, corners)) for run in runs])),
                "of a week over all bins": _number(np.mean([np.abs((run - table).sum(axis=0)) for run in runs])),
            }
        }
        print(f"{name}: {found[name]['errors']}", flush=True)
    note = (
        f"Mean absolute errors on one table of the 10 smallest bins by 156 weeks, ε = {TABLE_EPSILON} (and δ = 10⁻⁶ "
        f"for `gaussian`), {SEEDS} seeds, {RANGES} random boxes; the mean count is {table.mean():,.0f}. Written by "
        "`python -m website measure`; one table is not a ranking."
    )
    picture = {"epsilon": str(TABLE_EPSILON)}
    return {"note": note, "picture": picture, "peers": ["geometric", "auto"], "mechanisms": found}


def _table_release(histogram: Any, guarantee: Guarantee, table: Counts, seed: int) -> Reals:
    once = simulate(Sample(histogram), guarantee, table.reshape(1, -1), seed=seed, shape=table.shape)
    return np.asarray(once, dtype=np.float64).reshape(table.shape)


def _boxes(values: Reals, corners: NDArray[np.int64]) -> Reals:
    sums = np.zeros((values.shape[0] + 1, values.shape[1] + 1))
    sums[1:, 1:] = values.cumsum(axis=0).cumsum(axis=1)
    (top, left), (bottom, right) = corners[:, 0].T, corners[:, 1].T
    return np.asarray(sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left])


def _number(value: Any) -> str:
    return f"{float(value):,.0f}" if value >= 100 else f"{float(value):.1f}"
