"""Trials with personal budgets: range counts and classifiers over tables of people, for one draw of budgets each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from research.workloads.base import generator
from veilstream.evaluate.metrics import area_under_curve, misclassification, relative_frequency_error
from veilstream.evaluate.queries import random_ranges
from veilstream.evaluate.runner import Measures
from veilstream.personalised import (
    CountMechanism,
    Partitioned,
    PeopleCounts,
    PrivateLogisticRegression,
    PrivateSVM,
    Roster,
    SimulatedMeter,
    count_levels,
)

Floats: TypeAlias = NDArray[np.float64]
Budgets: TypeAlias = Literal["normal", "uniform"]
FREQUENCY, AREA, WRONG, BUDGET = "relative frequency error", "area under the curve", "misclassified", "mean budget"
FOLDS: Final = 10
REGULARISATION: Final = 0.001
LOWEST, HIGHEST = 0.01, 1.0
FILES: Final = {
    "Adult": ("adult_pgm_discretized.csv.gz", "uci_adult_raw.csv.gz"),
    "ACS": ("acs_privbayes.csv.gz",),
}
MODELS: Final[dict[str, Callable[..., Any]]] = {"SVM": PrivateSVM, "logistic": PrivateLogisticRegression}


@dataclass(frozen=True, slots=True, eq=False)
class PeopleTable:
    """Codes to be counted, and features with a label of 0 or 1; a row each."""

    codes: NDArray[np.int64]
    features: Floats
    labels: NDArray[np.int64]


@lru_cache(maxsize=2)
def people(name: str, data: Path, most: int | None) -> PeopleTable:
    """A table of ``FILES``, the first ``most`` rows of it if that is given."""
    table = _adult(data) if name == "Adult" else _acs(data)
    return PeopleTable(table.codes[:most], table.features[:most], table.labels[:most])


def _adult(data: Path) -> PeopleTable:
    coded, raw = (pl.read_csv(data / name) for name in FILES["Adult"])
    codes = coded.select("age", "sex", "education-num", "hours-per-week").to_numpy().astype(np.int64)
    features = raw.select(
        pl.col("age") / 90,
        pl.col("education_num") / 16,
        pl.col("sex").str.strip_chars() == "Male",
        pl.col("marital_status").str.starts_with("Married").alias("married"),
        (pl.col("marital_status") == "Never-married").alias("single"),
        pl.col("race").str.strip_chars() == "White",
        pl.col("hours_per_week") / 99,
        pl.col("native_country").str.strip_chars() == "United-States",
        (pl.col("capital_gain") / 10_000).clip(upper_bound=1),
        (pl.col("capital_loss") / 4_000).clip(upper_bound=1),
        pl.col("workclass").str.strip_chars().str.starts_with("Self"),
    )
    labels = raw["income"].str.contains(">50K").cast(pl.Int64).to_numpy()
    return PeopleTable(codes, features.cast(pl.Float64).to_numpy(), labels)


def _acs(data: Path) -> PeopleTable:
    """Attributes of 0 and 1: eight are counted, the most balanced is the label, fourteen others tell it."""
    table = pl.read_csv(data / FILES["ACS"][0]).to_numpy().astype(np.int64)
    balanced = int(np.argmin(np.abs(table.mean(axis=0) - 0.5)))
    others = np.delete(table, balanced, axis=1)[:, :14].astype(np.float64)
    return PeopleTable(table[:, :8], others, table[:, balanced])


def draw_budgets(kind: Budgets, count: int, seed: int) -> Floats:
    """Uniform, or normal(0.1, 1) clipped to the same range, in hundredths.

    >>> [float(draw_budgets(kind, 10_000, 1).mean().round(2)) for kind in ("normal", "uniform")]
    [0.36, 0.5]
    """
    source = generator(seed)
    raw = source.uniform(LOWEST, HIGHEST, count) if kind == "uniform" else source.normal(0.1, 1, count)
    return np.asarray(np.round(np.clip(raw, LOWEST, HIGHEST), 2), dtype=np.float64)


@lru_cache(maxsize=1)
def _asked(
    name: str, data: Path, most: int | None, kind: Budgets, queries: int, seed: int
) -> tuple[Roster, list[PeopleCounts], NDArray[np.int64]]:
    codes = people(name, data, most).codes
    roster = Roster.of_budgets(draw_budgets(kind, len(codes), seed))
    levels = roster.level_of(np.arange(len(codes)))
    ranges = random_ranges((codes.max(axis=0) + 1).tolist(), queries, seed)
    inside = [((codes >= low) & (codes < high)).all(axis=1) for low, high in zip(ranges.low, ranges.high, strict=True)]
    counts = [count_levels(roster, levels, np.where(one, 0, -1), bins=1) for one in inside]
    return roster, counts, np.asarray([int(one.sum()) for one in inside])


def count_trial(
    name: str, data: Path, most: int | None, kind: Budgets, mechanism: CountMechanism, queries: int, seed: int
) -> Measures:
    """Random range counts over all attributes at once, each asked with the whole budget of everybody."""
    roster, counts, exact = _asked(name, data, most, kind, queries, seed)
    ask = mechanism.estimate
    if isinstance(mechanism, Partitioned):
        ask = partial(mechanism.estimate_planned, mechanism.plan(roster))
    estimates = [float(ask(x, SimulatedMeter(roster, (seed, number))).numbers[0]) for number, x in enumerate(counts)]
    mean = float((roster.units * roster.sizes).sum() / roster.people) / 2**24
    return {FREQUENCY: relative_frequency_error([estimates], [exact], roster.people), BUDGET: mean}


def classifier_trial(
    model: str,
    name: str,
    data: Path,
    most: int | None,
    kind: Budgets,
    setting: tuple[tuple[str, Any], ...],
    fold: int,
    repeat: int,
) -> Measures:
    """A model of nine tenths of the people, measured on the others; ``kind`` draws budgets unless epsilon is set.

    Each ``repeat`` parts the people anew.
    """
    table = people(name, data, most)
    part = generator(1000 + repeat).integers(0, FOLDS, len(table.labels))
    train, test = part != fold, part == fold
    parameters = dict(setting)
    budgets = None if "epsilon" in parameters else draw_budgets(kind, int(train.sum()), 10 * repeat + fold)
    norm = float(np.sqrt(table.features.shape[1]))
    fitted = MODELS[model](data_norm=norm, regularisation=REGULARISATION, **parameters)
    fitted.fit_simulated(table.features[train], table.labels[train], budgets, (repeat, fold))
    rows, labels = table.features[test], table.labels[test]
    return {
        AREA: area_under_curve(fitted.decision_function(rows), labels),
        WRONG: misclassification(fitted.predict(rows), labels),
    }
