"""The model-based release against Uniform and Sample: errors, coverage, stress, ablations, speed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import polars as pl
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)

import veilstream as vs
from benchmarks import model_figure
from benchmarks.model_streams import TUNED, UNTOUCHED, real, stress
from benchmarks.model_trials import WITHOUT, trial
from benchmarks.report import Table, progress
from veilstream.evaluate.runner import Label, Measurement, run_measurements
from veilstream.mechanisms.streams import Fast, ModelBased, Uniform
from veilstream.testing.simulation import simulate

RECORDS: Final = Path(__file__).resolve().parent.parent / "docs" / "experiments" / "runs" / "model"
"""Finished runs: an interrupted suite goes on from here as long as the code is the same."""
Setting: TypeAlias = tuple[str, int | None, str]
"""Epsilon, window (None for user level) and delta."""
SETTINGS: Final[tuple[Setting, ...]] = (
    ("1", 1, "0"),
    ("1", 10, "0"),
    ("1", 40, "0"),
    ("1", 120, "0"),
    ("1", 400, "0"),
    ("1/10", 40, "0"),
    ("1/10", 120, "0"),
    ("1", 40, "1e-6"),
    ("1", 120, "1e-6"),
    ("1", None, "0"),
    ("1", None, "1e-6"),
)
QUICK_SETTINGS: Final[tuple[Setting, ...]] = (("1", 40, "0"), ("1", 40, "1e-6"))
ABLATED: Final[tuple[Setting, ...]] = (("1", 40, "0"), ("1", 120, "0"))
STRESSED: Final[tuple[Setting, ...]] = (("1", 40, "0"), ("1", 120, "0"), ("1", 40, "1e-6"))
REVISED_AT: Final[tuple[Setting, ...]] = (("1", 40, "0"), ("1", 40, "1e-6"))
RUNS: Final = 5
BASELINES: Final = ("uniform", "sample")
MEASURED: Final = ("absolute", "relative", "total", "sums", "missed")
PARTS: Final = ("gaps", "seasons", *WITHOUT)


def run(quick: bool = False) -> Sequence[Table]:
    """All tables; ``quick`` makes one run at two settings."""
    seeds = range(1 if quick else RUNS)
    settings = QUICK_SETTINGS if quick else SETTINGS
    streams = [*TUNED, *UNTOUCHED]
    wanted = _wanted(["model", *BASELINES], streams, settings, seeds)
    stressed = [stream.name for stream in stress()]
    wanted += _wanted(["model", "safe", *BASELINES], stressed, QUICK_SETTINGS if quick else STRESSED, seeds)
    if not quick:
        wanted += _wanted([f"model without {part}" for part in PARTS], list(TUNED), ABLATED, seeds[:2])
        wanted += _wanted(["model without a horizon"], streams, [("1", None, "0"), ("1", None, "1e-6")], seeds[:2])
    wanted += _wanted(["model revised"], streams, REVISED_AT, seeds[:1])
    table = run_measurements(_distinct(wanted), RECORDS, progress=_progress)
    means = table.group_by("mechanism", "stream", "epsilon", "w", "delta", "metric").agg(pl.col("value").mean())
    tables = [_errors(means, settings), _other_errors(means, settings), _coverage(means, settings), _stress(means)]
    if not quick:
        tables += [_ablations(table), _endless(means)]
        model_figure.draw()
    return [*tables, _revisions(means), _speed(quick)]


def _progress(done: int, of: int) -> None:
    if done % 20 == 0 or done == of:
        progress(f"{done} of {of} runs")


def _wanted(
    names: Iterable[str], streams: Iterable[str], settings: Iterable[Setting], seeds: Iterable[int]
) -> list[Measurement]:
    found: list[Measurement] = []
    for stream in streams:
        for epsilon, w, delta in settings:
            for name in names:
                used = "0" if name in BASELINES else delta
                for seed in seeds:
                    labels: dict[str, Label] = {
                        "mechanism": name,
                        "stream": stream,
                        "epsilon": epsilon,
                        "w": w or 0,
                        "delta": used,
                        "seed": seed,
                    }
                    found.append(Measurement(labels, trial, (name, stream, epsilon, w, used, seed)))
    return found


def _distinct(found: list[Measurement]) -> list[Measurement]:
    return list({measurement.digest(): measurement for measurement in found}.values())


def _value(means: pl.DataFrame, name: str, stream: str, setting: Setting, metric: str) -> float:
    epsilon, w, delta = setting
    rows = means.filter(
        (pl.col("mechanism") == name)
        & (pl.col("stream") == stream)
        & (pl.col("epsilon") == epsilon)
        & (pl.col("w") == (w or 0))
        & (pl.col("delta") == ("0" if name in BASELINES else delta))
        & (pl.col("metric") == metric)
    )
    return float(rows["value"][0]) if len(rows) else math.nan


def _ratio(means: pl.DataFrame, name: str, stream: str, setting: Setting, metric: str = "absolute") -> float:
    best = min(_value(means, baseline, stream, setting, metric) for baseline in BASELINES)
    return (_value(means, name, stream, setting, metric) + 1e-9) / (best + 1e-9)


def _named(setting: Setting) -> str:
    epsilon, w, delta = setting
    return f"ε={epsilon} {'user' if w is None else f'w={w}'}" + ("" if delta == "0" else f" δ={delta}")


def _geometric(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.exp(np.mean(np.log(known)))) if known else math.nan


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def _errors(means: pl.DataFrame, settings: Sequence[Setting]) -> Table:
    rows: list[list[str]] = []
    for half, names in (("tuned", TUNED), ("untouched", UNTOUCHED)):
        ratios = [[_ratio(means, "model", name, setting) for setting in settings] for name in names]
        rows += [[name, half, *map(_shown, row)] for name, row in zip(names, ratios, strict=True)]
        for label, summed in (("geometric mean", _geometric), ("worst", max)):
            columns = zip(*ratios, strict=True)
            rows.append([label, half, *(_shown(summed(column)) for column in columns)])
    return Table(
        "Error of bins",
        "Mean absolute error over that of the better of Uniform and Sample under the same epsilon (baselines always "
        "pure, also against a model with δ). What was chosen was chosen on the tuned half.",
        ["stream", "half", *map(_named, settings)],
        rows,
    )


def _other_errors(means: pl.DataFrame, settings: Sequence[Setting]) -> Table:
    rows = [
        [
            _named(setting),
            *(
                _shown(_geometric(_ratio(means, "model", s, setting, m) for s in [*TUNED, *UNTOUCHED]))
                for m in MEASURED
            ),
            *(_shown(max(_ratio(means, "model", s, setting, m) for s in [*TUNED, *UNTOUCHED])) for m in MEASURED[1:4]),
        ]
        for setting in settings
    ]
    return Table(
        "Other errors",
        "Geometric mean over all streams of the ratio to the best baseline of each: errors of bins, relative errors, "
        "errors of the total over bins, of sums over 10 steps, and outbreaks missed (1 − F1); then the worst stream.",
        ["setting", *MEASURED, *(f"worst {metric}" for metric in MEASURED[1:4])],
        rows,
    )


def _coverage(means: pl.DataFrame, settings: Sequence[Setting]) -> Table:
    rows = [
        [name, *(_shown(_value(means, "model", name, setting, "coverage")) for setting in settings)]
        for name in [*TUNED, *UNTOUCHED]
    ]
    return Table(
        "Coverage",
        "Share of true counts within the 95 % interval, repeated and forecast steps included. Where most are 0 "
        "every interval that holds 0 covers more.",
        ["stream", *map(_named, settings)],
        rows,
    )


def _stress(means: pl.DataFrame) -> Table:
    settings = [s for s in STRESSED if not math.isnan(_value(means, "safe", "all zero", s, "absolute"))]
    rows = [
        [
            stream.name,
            *(
                _shown(
                    _value(means, name, stream.name, s, "absolute") / _value(means, peer, stream.name, s, "absolute")
                )
                for s in settings
                for name, peer in (("model", "uniform"), ("safe", "uniform"), ("model", "sample"))
            ),
        ]
        for stream in stress()
    ]
    columns = [f"{_named(s)}: {what}" for s in settings for what in ("to Uniform", "safe to Uniform", "to Sample")]
    return Table("Stress", "Error of bins over that of one baseline.", ["stream", *columns], rows)


def _ablations(table: pl.DataFrame) -> Table:
    few = table.filter(pl.col("seed") < 2)
    means = few.group_by("mechanism", "stream", "epsilon", "w", "delta", "metric").agg(pl.col("value").mean())
    rows: list[list[str]] = []
    for name in ["model", *(f"model without {part}" for part in PARTS)]:
        row = [name]
        for setting in ABLATED:
            ratios = [_ratio(means, name, stream, setting) for stream in TUNED]
            row += [_shown(_geometric(ratios)), _shown(max(ratios))]
        rows.append(row)
    columns = [f"{_named(s)}: {what}" for s in ABLATED for what in ("mean", "worst")]
    return Table("Ablations", "Tuned streams, two runs: geometric mean and worst ratio.", ["", *columns], rows)


def _revisions(means: pl.DataFrame) -> Table:
    rows = [
        [name, *(f"{_value(means, 'model revised', name, setting, 'revised'):.3f}" for setting in REVISED_AT)]
        for name in [*TUNED, *UNTOUCHED]
    ]
    return Table(
        "Revisions",
        "Error of bins of the tenth revision over that of the first release, one run.",
        ["stream", *map(_named, REVISED_AT)],
        rows,
    )


def _endless(means: pl.DataFrame) -> Table:
    rows = [
        [
            name,
            str(len(real(name).counts)),
            *(
                _shown(
                    _value(means, "model without a horizon", name, s, "absolute")
                    / _value(means, "model", name, s, "absolute")
                )
                for s in (("1", None, "0"), ("1", None, "1e-6"))
            ),
        ]
        for name in [*TUNED, *UNTOUCHED]
    ]
    return Table(
        "User level without a horizon",
        "Error of bins over that of the same model that knows the number of steps: the price of not saying it.",
        ["stream", "steps", "ε=1", "ε=1 δ=1e-6"],
        rows,
    )


def _speed(quick: bool) -> Table:
    """Processor time per bin and step, by one short simulation each."""
    bins, steps = (20_000 if quick else 100_000), 12
    counts = default_rng(1).poisson(np.exp(default_rng(2).normal(4, 1, bins)), (steps, bins))
    pure, slack = vs.Guarantee(1, w=40), vs.Guarantee(1, w=40, delta="1e-6")
    rows: list[list[str]] = []
    peer = 0.0
    for name, mechanism, guarantee in (
        ("uniform", Uniform(), pure),
        ("fast", Fast(samples=40), pure),
        ("model", ModelBased(), pure),
        ("model, δ", ModelBased(), slack),
        ("model, period 7", ModelBased(periods=(7,)), pure),
    ):
        begun = time.process_time()
        simulate(mechanism, guarantee, counts, seed=1)
        spent = (time.process_time() - begun) / (bins * steps) * 1e6
        peer = peer or spent
        rows.append([name, f"{spent:.2f}", f"{spent / peer:.1f}"])
    return Table(
        "Speed",
        f"Processor time, {bins:,} bins, {steps} steps.",
        ["mechanism", "µs per bin and step", "to Uniform"],
        rows,
    )
