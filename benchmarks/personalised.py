"""Personal budgets: partitioning against the textbook recursion, and the experiments of thesis chapter 5."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.report import Table, best_seconds, progress
from veilstream.evaluate.metrics import area_under_curve, misclassification
from veilstream.personalised import (
    CountMechanism,
    Minimum,
    Partitioned,
    PrivateLogisticRegression,
    PrivateSVM,
    Roster,
    Sampling,
    SimulatedMeter,
    Stretching,
    count_levels,
    privacy_aware,
    utility_based,
)
from veilstream.personalised.partition import count_loss, wasted

Floats: TypeAlias = NDArray[np.float64]
ROOT: Final = Path(__file__).resolve().parent.parent
DATA: Final = Path(os.environ.get("VEILSTREAM_DATA", ROOT.parent / "shared" / "data"))
FIGURES: Final = ROOT / "docs" / "figures"
THRESHOLDS: Final = ("0.05", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1")
FEW_THRESHOLDS: Final = ("0.1", "0.3", "0.5", "0.75", "1")
QUERIES: Final = 90
RUNS: Final = 3
FOLDS: Final = 2
PEOPLE: Final = 10**6
LEVELS: Final = 10**4
# Budgets and queries are public inputs of the experiments, not noise.
DRAW: Final = np.random.default_rng  # noqa: TID251


def run() -> Sequence[Table]:
    """All tables of the suite."""
    tables = [_partitioning()]
    if not (DATA / "uci_adult_raw.csv.gz").exists():
        progress(f"personalised: no data in {DATA.name}, experiments are left out")
        return tables
    return [*tables, *_experiments()]


def _partitioning() -> Table:
    draw = DRAW(0)
    budgets = (draw.permutation(np.arange(PEOPLE)) % LEVELS + 1) / LEVELS
    ids = np.arange(PEOPLE)
    roster = Roster(ids, budgets)
    small = Roster.of_budgets(np.arange(1, 2001) / 2000)
    quick = best_seconds(lambda: privacy_aware(small, k=10), 3)
    textbook = best_seconds(lambda: _textbook(small, 10), 1)
    assert abs(wasted(small, privacy_aware(small, k=10)) - _textbook(small, 10)) < 1e-9
    calls: list[tuple[str, Callable[[], object]]] = [
        ("reading the roster (10⁶ people, 10⁴ budgets)", partial(Roster, ids, budgets)),
        ("privacy-aware, k = 10", partial(privacy_aware, roster, 10, 1000)),
        ("privacy-aware, best of k = 1..64", partial(privacy_aware, roster, None, 1000)),
        ("utility-based, any k", partial(utility_based, roster, count_loss(0.1), 1000)),
    ]
    rows = [[name, f"{best_seconds(call, 3):.2f} s", ""] for name, call in calls]
    rows.append(["privacy-aware, k = 10, 2,000 budgets", f"{quick * 1e3:.1f} ms", f"{textbook / quick:,.0f}×"])
    return Table(
        title="Partitioning",
        notes=(
            "10⁶ people with 10⁴ different budgets, groups of at least 1,000. The peer of the last row is the "
            "recursion over all pairs of cuts, vectorised over one of them, on the same budgets; the waste found is "
            "equal."
        ),
        columns=["what", "time", "faster than all pairs"],
        rows=rows,
    )


def _textbook(roster: Roster, k: int) -> float:
    """Least waste by the dynamic programme over all pairs of cuts."""
    budgets, sizes = roster.units / 2.0**24, roster.sizes.astype(np.float64)
    sums = [np.concatenate([[0.0], np.cumsum(sizes * budgets**power)]) for power in range(3)]
    best = np.full(roster.levels + 1, np.inf)
    best[0] = 0.0
    for _ in range(k):
        following = np.full_like(best, np.inf)
        for end in range(1, roster.levels + 1):
            low = budgets[:end]
            n, s, q = (part[end] - part[:end] for part in sums)
            following[end] = (best[:end] + q - 2 * low * s + low * low * n).min()
        best = following
    return float(best[-1])


def _budgets(kind: str, people: int, seed: int) -> Floats:
    draw = DRAW((seed, 5))
    raw = draw.uniform(0.01, 1, people) if kind == "uniform" else draw.normal(0.1, 1, people)
    clipped: Floats = np.round(np.clip(raw, 0.01, 1), 2).astype(np.float64)
    return clipped


def _experiments() -> Iterator[Table]:
    tables = {"Adult": _adult(), "ACS": _acs()}
    counts = {(name, kind): _counts(tables[name][0], kind) for name in tables for kind in ("normal", "uniform")}
    yield _count_table(counts)
    _figure("personalised-counts.png", counts, "mean |relative frequency error|", THRESHOLDS, log=True)
    for model, metric, title in (
        (PrivateSVM, _auc, "SVM: area under the curve (figures 5.6 to 5.9)"),
        (PrivateLogisticRegression, _misclassified, "Logistic regression: misclassified share (figures 5.10, 5.11)"),
    ):
        results = {
            (name, kind): _classified(model, metric, *tables[name][1:], kind)
            for name in tables
            for kind in ("normal", "uniform")
        }
        yield _classifier_table(title, results, higher=metric is _auc)
        label = "area under the curve" if metric is _auc else "misclassified share"
        _figure(f"personalised-{'svm' if metric is _auc else 'logistic'}.png", results, label, FEW_THRESHOLDS)


def _adult() -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
    frame = pl.read_csv(DATA / "adult_pgm_discretized.csv.gz")
    table = frame.select("age", "sex", "education-num", "hours-per-week").to_numpy().astype(np.int64)
    raw = pl.read_csv(DATA / "uci_adult_raw.csv.gz")
    married = raw["marital_status"].str.starts_with("Married").cast(pl.Float64).to_numpy()
    single = (raw["marital_status"] == "Never-married").cast(pl.Float64).to_numpy()
    features = np.stack(
        [
            raw["age"].to_numpy() / 90,
            raw["education_num"].to_numpy() / 16,
            (raw["sex"].str.strip_chars() == "Male").cast(pl.Float64).to_numpy(),
            married,
            single,
            (raw["race"].str.strip_chars() == "White").cast(pl.Float64).to_numpy(),
            raw["hours_per_week"].to_numpy() / 99,
            (raw["native_country"].str.strip_chars() == "United-States").cast(pl.Float64).to_numpy(),
            np.minimum(raw["capital_gain"].to_numpy() / 10_000, 1),
            np.minimum(raw["capital_loss"].to_numpy() / 4_000, 1),
            raw["workclass"].str.strip_chars().str.starts_with("Self").cast(pl.Float64).to_numpy(),
        ],
        axis=1,
    )
    labels = raw["income"].str.contains(">50K").cast(pl.Int64).to_numpy()
    return table, features, labels


def _acs() -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
    table = pl.read_csv(DATA / "acs_privbayes.csv.gz").to_numpy().astype(np.int64)
    balanced = int(np.argmin(np.abs(table.mean(axis=0) - 0.5)))
    others = np.delete(table, balanced, axis=1)[:, :14].astype(np.float64)
    return table[:, :8], others, table[:, balanced]


def _counts(table: NDArray[np.int64], kind: str) -> dict[str, float]:
    """Mean absolute relative frequency error over random range counts, each asked with the whole budget."""
    mechanisms: dict[str, CountMechanism] = {
        "Minimum": Minimum(),
        "privacy-aware": Partitioned(by="waste", minimum=1000),
        "utility-based": Partitioned(by="utility", minimum=1000),
        "3 rounds": Partitioned(by="waste", k=4, minimum=1000, number=3),
        "Stretching": Stretching(spread=0),
        "Stretching, capped": Stretching(),
        **{f"Sampling {level}": Sampling(level) for level in THRESHOLDS},
    }
    errors: dict[str, list[float]] = {name: [] for name in mechanisms}
    for seed in range(RUNS):
        roster = Roster.of_budgets(_budgets(kind, len(table), seed))
        levels = roster.level_of(np.arange(len(table)))
        for number, inside in enumerate(_queries(table, seed)):
            x = count_levels(roster, levels, np.where(inside, 0, -1), bins=1)
            for at, (name, mechanism) in enumerate(mechanisms.items()):
                values = mechanism.estimate(x, SimulatedMeter(roster, (seed, 7, number, at)))
                errors[name].append(abs(float(values.numbers[0]) - int(inside.sum())) / len(table))
    progress(f"counts, {kind} budgets: done")
    return {name: float(np.mean(found)) for name, found in errors.items()}


def _queries(table: NDArray[np.int64], seed: int) -> Iterator[NDArray[np.bool_]]:
    draw = DRAW((seed, 6))
    top = table.max(axis=0)
    for _ in range(QUERIES // RUNS):
        ends = np.sort(draw.integers(0, top + 1, size=(2, table.shape[1])), axis=0)
        yield ((table >= ends[0]) & (table <= ends[1])).all(axis=1)


def _classified(
    model: Any,
    metric: Callable[[Any, Floats, NDArray[np.int64]], float],
    rows: Floats,
    labels: NDArray[np.int64],
    kind: str,
) -> dict[str, float]:
    """The metric on held-out people, mean over folds."""
    bound = float(np.sqrt(rows.shape[1]))
    settings: dict[str, dict[str, Any]] = {
        "Minimum": {"strategy": "minimum"},
        "privacy-aware": {"strategy": "waste", "minimum": 2000},
        "utility-based": {"strategy": "utility", "minimum": 2000},
        "weighted": {"strategy": "weighted"},
        **{f"Sampling {level}": {"strategy": "sampling", "threshold": level} for level in FEW_THRESHOLDS},
    }
    found: dict[str, list[float]] = {name: [] for name in [*settings, "epsilon 1000"]}
    fold = DRAW(1).integers(0, 10, len(rows))
    for number in range(FOLDS):
        train, test = fold != number, fold == number
        budgets = _budgets(kind, int(train.sum()), number)
        for at, (name, setting) in enumerate(settings.items()):
            private = model(data_norm=bound, regularisation=0.001, **setting)
            private.fit_simulated(rows[train], labels[train], budgets, (number, at))
            found[name].append(metric(private, rows[test], labels[test]))
        exact = model(epsilon=1000, data_norm=bound, regularisation=0.001, strategy="minimum")
        exact.fit_simulated(rows[train], labels[train], None, (number, 99))
        found["epsilon 1000"].append(metric(exact, rows[test], labels[test]))
    progress(f"{model.__name__}, {kind} budgets: done")
    return {name: float(np.mean(values)) for name, values in found.items()}


def _auc(model: Any, rows: Floats, labels: NDArray[np.int64]) -> float:
    return area_under_curve(model.decision_function(rows), labels)


def _misclassified(model: Any, rows: Floats, labels: NDArray[np.int64]) -> float:
    return misclassification(model.predict(rows), labels)


Results: TypeAlias = dict[tuple[str, str], dict[str, float]]


def _best(result: dict[str, float], higher: bool) -> tuple[str, float]:
    sampling = {name: value for name, value in result.items() if name.startswith("Sampling")}
    name = (max if higher else min)(sampling, key=lambda one: sampling[one])
    return name.removeprefix("Sampling "), sampling[name]


def _count_table(results: Results) -> Table:
    methods = [name for name in next(iter(results.values())) if not name.startswith("Sampling")]
    rows: list[list[str]] = []
    for (data, kind), result in results.items():
        level, best = _best(result, higher=False)
        cells = [f"{result[name] * 1e4:.2f} ({result[name] / best:.2f}×)" for name in methods]
        rows.append([f"{data}, {kind}", f"{best * 1e4:.2f} (T = {level})", *cells])
    return Table(
        title="Range counts: mean |relative frequency error| · 10⁴ (figures 5.2 to 5.5)",
        notes=(
            f"{QUERIES} random range counts over 4 (Adult, 48,842 people) and 8 (ACS, 47,461) attributes; budgets "
            "uniform on [0.01, 1] or normal(0.1, 1) clipped to it. In brackets: error over that of Sampling at the "
            "threshold that turned out best, which nobody knows beforehand."
        ),
        columns=["data, budgets", "Sampling at its best", *methods],
        rows=rows,
    )


def _classifier_table(title: str, results: Results, *, higher: bool) -> Table:
    methods = [name for name in next(iter(results.values())) if not name.startswith("Sampling")]
    rows: list[list[str]] = []
    for (data, kind), result in results.items():
        level, best = _best(result, higher)
        rows.append([f"{data}, {kind}", f"{best:.3f} (T = {level})", *(f"{result[name]:.3f}" for name in methods)])
    return Table(
        title=title,
        notes=(
            f"Mean over {FOLDS} of 10 folds; regularisation 0.001, objective perturbation. "
            + ("Higher is better." if higher else "Lower is better.")
        ),
        columns=["data, budgets", "Sampling at its best", *methods],
        rows=rows,
    )


def _figure(name: str, results: Results, label: str, thresholds: Sequence[str], *, log: bool = False) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(4 * len(results), 3.6), sharey="row")
    for axis, ((data, kind), result) in zip(np.atleast_1d(axes), results.items(), strict=True):
        levels = [float(level) for level in thresholds]
        axis.plot(levels, [result[f"Sampling {level}"] for level in thresholds], "o-", label="Sampling", color="black")
        lines = [method for method in result if not method.startswith("Sampling")]
        for number, method in enumerate(lines):
            axis.axhline(result[method], label=method, color=f"C{number}", linestyle=["-", "--"][number % 2])
        axis.set(title=f"{data}, {kind} budgets", xlabel="threshold of Sampling")
        if log:
            axis.set_yscale("log")
    np.atleast_1d(axes)[0].set_ylabel(label)
    figure.legend(*np.atleast_1d(axes)[0].get_legend_handles_labels(), loc="lower center", ncols=9, frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / name, dpi=110)
    plt.close(figure)
