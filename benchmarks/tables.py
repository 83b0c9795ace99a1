"""Models of real tables against dpmm's MST and AIM in one run: marginals, ranges, correlations, classifiers, time.

MST and AIM need DPMM_PYTHON (see ``private_pgm``) and are left out without it. Tables come from the directory that
VEILSTREAM_DATA names, cut to ``ROWS`` rows, because a fit of AIM takes minutes. Adult, NLTCS and ACS were looked at
while the shares of ``MarginalGraph`` were chosen; IPUMS was not.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.private_pgm import DELTA, PYTHON, GraphicalModel
from benchmarks.report import Table, progress
from benchmarks.table_sources import RealTable
from research.tables.sources import CodedTable
from veilstream.data import Categories, Grid
from veilstream.data.bounding.keyed import Key
from veilstream.mechanisms.session import Session
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.synthesis import DPCopula, MarginalGraph, TableDomain
from veilstream.synthesis.fitting import guarantee_of
from veilstream.synthesis.kinds import TableMechanism, for_domain, model_of
from veilstream.synthesis.quality import random_boxes
from veilstream.synthesis.rows import content_hashes
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.rows import ordered_rows
from veilstream.trusted.statistics.pair_tables import count_ranges

Codes = NDArray[np.int64]
DATA: Final = Path(os.environ.get("VEILSTREAM_DATA", "."))
FILES: Final = {
    "Adult": "adult_pgm_discretized",
    "NLTCS": "nltcs_hd",
    "ACS": "acs_privbayes",
    "IPUMS": "ipums_acs_temporal_nist",
}
ROWS: Final = 10_000
EPSILONS: Final = ("1/10", "1")
RUNS, PEER_RUNS = 3, 1
MOST_MARGINALS: Final = 60
LARGEST_CATEGORY: Final = 40
"""Attributes with more values are taken as numbers."""


@dataclass(frozen=True, slots=True)
class Ours:
    """One of this package's mechanisms, with simulated noise."""

    mechanism: TableMechanism
    delta: float = 0.0

    def draw(self, table: RealTable, epsilon: Fraction, seed: int) -> Codes:
        axes = {
            f"x{i}": Grid(0, size, size) if ordered else Categories(range(size))
            for i, (size, ordered) in enumerate(zip(table.shape, table.ordered, strict=True))
        }
        domain = TableDomain(axes)
        mechanism = for_domain(self.mechanism, domain)
        layout = mechanism.layout(domain.shape)
        columns = [np.ascontiguousarray(column) for column in table.codes.T]
        rows = ordered_rows(columns, content_hashes(columns, Key(bytes(16))), domain.shape, 0)
        guarantee = guarantee_of(epsilon, Fraction(str(self.delta)))
        meter = Session(Accountant(guarantee, layout.size), ExactSampler(SeededSource(seed))).at(0)
        values = mechanism.estimate(layout.seal(rows), guarantee.pure, meter)
        model = model_of(domain, layout, np.asarray(values.numbers, dtype=np.float64), epsilon)
        return np.stack(model.sample_codes(len(table.codes), seed=seed), axis=1)


def run(quick: bool = False) -> Sequence[Table]:
    tables = {name: _load(file) for name, file in FILES.items() if _present(file)}
    methods: dict[str, Any] = {
        "independent": None,
        "copula": Ours(DPCopula()),
        "marginals": Ours(MarginalGraph()),
        "marginals, delta": Ours(MarginalGraph(noise="gaussian"), DELTA),
    }
    if PYTHON and not quick:
        methods |= {kind: GraphicalModel(kind) for kind in ("MST", "AIM")}
    rows: list[list[str]] = []
    for (name, table), epsilon in itertools.product(tables.items(), EPSILONS):
        for label, method in methods.items():
            runs = 1 if quick else PEER_RUNS if isinstance(method, GraphicalModel) else RUNS
            found = [_measured(table, method, epsilon, seed) for seed in range(runs)]
            rows.append([name, epsilon, label, *(f"{number:.3g}" for number in np.mean(found, axis=0))])
            progress(f"tables {rows[-1]}")
    return [
        Table(
            "Models of real tables",
            f"{ROWS:,} rows of each; means of {RUNS} runs, {PEER_RUNS} of MST and AIM (dpmm). Total variation of "
            f"{MOST_MARGINALS} marginals of 2 and of 3 attributes, mean error of 200 ranges over single attributes in "
            "shares of the rows, mean error of correlations, area under the curve of three classifiers trained on "
            "drawn rows, seconds. Adult, NLTCS and ACS were looked at while shares were chosen, IPUMS was not. MST, "
            f"AIM and 'marginals, delta' have δ = {DELTA:g}, the others 0; 'independent' has the exact margins and no "
            "noise.",
            ["table", "ε", "model", "2-way", "3-way", "ranges", "correlations", "AUC", "seconds"],
            rows,
        )
    ]


def _present(file: str) -> bool:
    return any((DATA / f"{file}{end}").exists() for end in (".csv.gz", ".parquet"))


def _load(file: str) -> CodedTable:
    parquet = DATA / f"{file}.parquet"
    frame = pl.read_parquet(parquet) if parquet.exists() else pl.read_csv(DATA / f"{file}.csv.gz")
    sizes: dict[str, int] = json.loads((DATA / f"{file}-domain.json").read_text())
    names = [name for name in sizes if name in frame.columns]
    codes = np.stack([frame[name].to_numpy().astype(np.int64) for name in names], axis=1)
    rng = np.random.default_rng(0)  # noqa: TID251 (a public table is cut)
    return CodedTable(codes[rng.permutation(len(codes))[:ROWS]], tuple(int(sizes[name]) for name in names))


def _measured(table: CodedTable, method: Any, epsilon: str, seed: int) -> list[float]:
    begun = time.perf_counter()
    if method is None:
        rng = np.random.default_rng(seed)  # noqa: TID251 (no release)
        drawn = np.stack([rng.permutation(column) for column in table.codes.T], axis=1)
    else:
        drawn = method.draw(table, Fraction(epsilon), seed)
    seconds = time.perf_counter() - begun
    return [
        _variation(table, drawn, 2),
        _variation(table, drawn, 3),
        _ranges(table, drawn),
        _correlations(table, drawn),
        _auc(table, drawn),
        seconds,
    ]


def _variation(table: CodedTable, drawn: Codes, order: int) -> float:
    rng = np.random.default_rng(0)  # noqa: TID251 (which marginals are asked)
    subsets = list(itertools.combinations(range(len(table.shape)), order))
    distances: list[float] = []
    for at in rng.permutation(len(subsets))[:MOST_MARGINALS].tolist():
        chosen = list(subsets[at])
        shape = [table.shape[axis] for axis in chosen]
        cells = [np.ravel_multi_index(tuple(rows[:, chosen].T), shape) for rows in (table.codes, drawn)]
        _, place = np.unique(np.concatenate(cells), return_inverse=True)
        first, second = place[: len(cells[0])], place[len(cells[0]) :]
        counts = [np.bincount(part, minlength=int(place.max()) + 1) / part.size for part in (first, second)]
        distances.append(float(np.abs(counts[0] - counts[1]).sum()) / 2)
    return float(np.mean(distances))


def _ranges(table: CodedTable, drawn: Codes) -> float:
    errors: list[float] = []
    for axis in range(len(table.shape)):
        low, high = random_boxes(table.shape, (axis,), seed=1)
        answers = [
            count_ranges([column.astype(np.int32) for column in rows.T], low, high) / len(rows)
            for rows in (table.codes, drawn)
        ]
        errors.append(float(np.abs(answers[0] - answers[1]).mean()))
    return float(np.mean(errors))


def _correlations(table: CodedTable, drawn: Codes) -> float:
    varied = (table.codes.std(axis=0) > 0) & (drawn.std(axis=0) > 0)
    both = [np.corrcoef(rows[:, varied], rowvar=False) for rows in (table.codes, drawn)]
    return float(np.abs(both[0] - both[1]).mean())


def _auc(table: CodedTable, drawn: Codes) -> float:
    """Whether the last attribute is its most frequent value, predicted from the others, on the table itself."""
    linear: Any = import_module("sklearn.linear_model")
    trees: Any = import_module("sklearn.tree")
    bayes: Any = import_module("sklearn.naive_bayes")
    metrics: Any = import_module("sklearn.metrics")
    frequent = int(np.bincount(table.codes[:, -1]).argmax())
    labels = [rows[:, -1] == frequent for rows in (drawn, table.codes)]
    if labels[0].all() or not labels[0].any():
        return 0.5
    makers: list[Callable[[], Any]] = [
        lambda: linear.LogisticRegression(max_iter=200),
        lambda: trees.DecisionTreeClassifier(max_depth=6, random_state=0),
        bayes.GaussianNB,
    ]
    scale = np.maximum(np.array(table.shape[:-1]) - 1, 1)
    areas: list[float] = []
    for make in makers:
        model = make().fit(drawn[:, :-1] / scale, labels[0])
        areas.append(float(metrics.roc_auc_score(labels[1], model.predict_proba(table.codes[:, :-1] / scale)[:, 1])))
    return float(np.mean(areas))
