"""Tables of the model-based release from the means of its measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final, TypeAlias

import numpy as np
import polars as pl

from benchmarks.model_streams import TUNED, UNTOUCHED, real
from benchmarks.model_trials import contender, stream_called
from benchmarks.report import Table
from veilstream.mechanisms.protocols import divided
from veilstream.privacy.guarantee import Guarantee

Setting: TypeAlias = tuple[str, int | None, str]
"""Epsilon, window (None for user level) and delta."""
BASELINES: Final = ("uniform", "sample")
MEASURED: Final = ("absolute", "relative", "total", "sums", "missed", "late")
ADDED: Final = {"missed": 0.01, "late": 1.0}
"""Metric -> what is added to both sides of a ratio, since either may be 0; 1e-9 to all others."""
LOWEST, HIGHEST = 0.93, 0.97
"""Coverage of 95 % intervals that is near enough."""


Known: TypeAlias = dict[tuple[str, ...], float]
"""Means over runs by mechanism, stream, epsilon, window, delta and metric."""


def known(table: pl.DataFrame) -> Known:
    keys = ("mechanism", "stream", "epsilon", "w", "delta", "metric")
    return {tuple(str(row[key]) for key in keys): float(row["value"]) for row in table.iter_rows(named=True)}


@cache
def known_as(name: str, stream: str, setting: Setting) -> Setting:
    """The setting that was measured: baselines, and models where it buys nothing, have no delta."""
    epsilon, w, delta = setting
    if delta != "0" and name not in BASELINES:
        chosen = stream_called(stream)
        made = contender(name, chosen, w)
        if divided(made, Guarantee(epsilon, w, delta), chosen.counts.shape[1]).mu_squared:
            return setting
    return epsilon, w, "0"


def value(means: Known, name: str, stream: str, setting: Setting, metric: str = "absolute") -> float:
    epsilon, w, delta = known_as(name, stream, setting)
    return means.get((name, stream, epsilon, str(w or 0), delta, metric), math.nan)


def ratio(means: Known, name: str, stream: str, setting: Setting, metric: str = "absolute") -> float:
    """To the better of the baselines."""
    best = min(value(means, baseline, stream, setting, metric) for baseline in BASELINES)
    added = ADDED.get(metric, 1e-9)
    return (value(means, name, stream, setting, metric) + added) / (best + added)


def named(setting: Setting) -> str:
    epsilon, w, delta = setting
    return f"ε={epsilon} {'user' if w is None else f'w={w}'}" + ("" if delta == "0" else f" δ={delta}")


def geometric(values: Iterable[float]) -> float:
    """The geometric mean, where all are known."""
    return float(np.exp(np.mean(np.log(list(values)))))


def worst(values: Iterable[float]) -> float:
    """The largest, where all are known."""
    found = list(values)
    return math.nan if any(map(math.isnan, found)) else max(found)


def shown(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.2f}"


def summary(means: Known, settings: Sequence[Setting]) -> Table:
    rows: list[list[str]] = []
    for setting in settings:
        row = [named(setting)]
        for half in (TUNED, UNTOUCHED):
            ratios = [ratio(means, "model", stream, setting) for stream in half]
            row += [shown(geometric(ratios)), shown(worst(ratios))]
        covered = [value(means, "model", stream, setting, "coverage") for stream in (*TUNED, *UNTOUCHED)]
        if any(map(math.isnan, covered)):
            rows.append([*row, "", "", ""])
            continue
        row += [f"{min(covered):.3f}", str(sum(LOWEST <= each <= HIGHEST for each in covered))]
        rows.append([*row, str(sum(each > HIGHEST for each in covered))])
    columns = ["setting", "tuned: mean", "tuned: worst", "untouched: mean", "untouched: worst", "least coverage"]
    return Table(
        "Errors and coverage over all streams",
        "Mean absolute error of bins over that of the better of Uniform and Sample under the same epsilon (baselines "
        "always pure, also against a model with δ), geometric mean and worst stream; what was chosen was chosen on the "
        f"{len(TUNED)} tuned streams, the {len(UNTOUCHED)} others were left alone. Then the least share of true counts "
        f"inside 95 % intervals on any stream, and on how many of {len(TUNED) + len(UNTOUCHED)} streams it lies "
        f"within {LOWEST:.0%} to {HIGHEST:.0%}, and above.",
        [*columns, "within", "above"],
        rows,
    )


def by_stream(means: Known, settings: Sequence[Setting]) -> list[Table]:
    """Ratios and coverage of every stream at some settings."""
    delta = settings[0][2]
    kind = "pure ε" if delta == "0" else f"δ = {delta}"
    rows: list[list[str]] = []
    covered: list[list[str]] = []
    between: list[list[str]] = []
    for half, names in (("tuned", TUNED), ("untouched", UNTOUCHED)):
        for name in names:
            rows.append([name, half, *(shown(ratio(means, "model", name, s)) for s in settings)])
            covered.append([name, *(shown(value(means, "model", name, s, "coverage")) for s in settings)])
            apart = [value(means, "model", name, s, "coverage between looks") for s in settings]
            between.append([name, *map(shown, apart)])
    head = list(map(named, settings))
    tables = [
        Table(
            f"Error of bins, {kind}",
            "Mean absolute error over that of the better of Uniform and Sample, both pure.",
            ["stream", "half", *head],
            rows,
        ),
        Table(
            f"Coverage, {kind}",
            "Share of true counts within the 95 % interval, all steps. Where most counts are 0 every interval that "
            "holds 0 covers more, and where a level hardly moves its one error covers all steps or none.",
            ["stream", *head],
            covered,
        ),
    ]
    if delta == "0":
        tables.append(
            Table("Coverage of steps without a look", "Where there were such.", ["stream", *head], between),
        )
    return tables


def other_errors(means: Known, settings: Sequence[Setting]) -> Table:
    def of(setting: Setting, metric: str, summed: Callable[[Iterable[float]], float]) -> str:
        ratios = [ratio(means, "model", stream, setting, metric) for stream in (*TUNED, *UNTOUCHED)]
        # Some streams have nothing to detect.
        found = [each for each in ratios if metric not in ADDED or not math.isnan(each)]
        return shown(summed(found) if found else math.nan)

    rows = [
        [
            named(setting),
            *(of(setting, metric, geometric) for metric in MEASURED),
            *(of(setting, metric, worst) for metric in MEASURED[1:]),
        ]
        for setting in settings
    ]
    return Table(
        "Other errors",
        "Geometric mean over all streams of the ratio to the better baseline of each: errors of bins, relative errors, "
        "errors of the total over bins, of sums over 10 steps, rises missed (1 − F1), and steps until a release shows "
        "that the total has passed its 90 % quantile, at most 10, at thresholds that give every mechanism one false "
        "alarm in 20 steps (0.01 and 1 are added to the last two, which may be 0); then the worst stream.",
        ["setting", *MEASURED, *(f"worst {metric}" for metric in MEASURED[1:])],
        rows,
    )


def stressed(means: Known, streams: Sequence[str], settings: Sequence[Setting]) -> Table:
    compared = (("model", "uniform"), ("safe", "uniform"), ("model", "sample"))
    rows = [
        [
            name,
            *(shown(value(means, m, name, s) / value(means, peer, name, s)) for s in settings for m, peer in compared),
        ]
        for name in streams
    ]
    columns = [f"{named(s)}: {what}" for s in settings for what in ("to Uniform", "safe to Uniform", "to Sample")]
    return Table("Stress", "Error of bins over that of one baseline.", ["stream", *columns], rows)


def ablations(means: Known, parts: Sequence[str], settings: Sequence[Setting]) -> Table:
    rows: list[list[str]] = []
    for part in parts:
        name = f"model without {part}" if part else "model"
        row = [name]
        for setting in settings:
            ratios = [ratio(means, name, stream, setting) for stream in TUNED]
            row += [shown(geometric(ratios)), shown(worst(ratios))]
        rows.append(row)
    columns = [f"{named(s)}: {what}" for s in settings for what in ("mean", "worst")]
    return Table("Ablations", "Tuned streams: geometric mean and worst ratio.", ["", *columns], rows)


def revisions(means: Known, settings: Sequence[Setting]) -> Table:
    rows = [
        [
            name,
            *(
                f"{value(means, 'model revised', name, setting, 'revised'):.3f}".replace("nan", "")
                for setting in settings
            ),
        ]
        for name in [*TUNED, *UNTOUCHED]
    ]
    return Table(
        "Revisions",
        "Error of bins of the tenth revision over that of the first release.",
        ["stream", *map(named, settings)],
        rows,
    )


def endless(means: Known, settings: Sequence[Setting]) -> Table:
    rows = [
        [
            name,
            str(len(real(name).counts)),
            *(
                shown(value(means, "model without a horizon", name, s) / value(means, "model", name, s))
                for s in settings
            ),
        ]
        for name in [*TUNED, *UNTOUCHED]
    ]
    return Table(
        "User level without a horizon",
        "Error of bins over that of the same model that knows the number of steps: the price of not saying it.",
        ["stream", "steps", *map(named, settings)],
        rows,
    )


def paced(means: Known, names: Sequence[str], settings: Sequence[Setting]) -> Table:
    rows = [
        [
            stream,
            f"{real(stream).counts.mean():,.1f}",
            *(
                shown(value(means, name, stream, s) / value(means, "uniform", stream, s))
                for s in settings
                for name in names
            ),
        ]
        for stream in [*TUNED, *UNTOUCHED]
    ]
    return Table(
        "FAST and DSAT",
        "Error of bins over that of Uniform, one run: at every step, which is the default, and with 15 % of the steps "
        "(FAST) or ⌊√w⌋ releases in a window (DSAT).",
        ["stream", "mean count", *(f"{named(s)}: {name}" for s in settings for name in names)],
        rows,
    )
