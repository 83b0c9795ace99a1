"""Models of real tables against dpmm's MST and AIM in one run: marginals, ranges, correlations, classifiers, time.

MST and AIM need DPMM_PYTHON (see ``private_pgm``) and are left out without it. ``table_sources`` says where the tables
come from and which of them were looked at while shares were chosen.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.private_pgm import DELTA, PYTHON, GraphicalModel, kept_draw, may_draw
from benchmarks.report import Table, progress
from benchmarks.table_sources import ROWS, TUNED, RealTable, real_tables
from research.tables.sources import CodedTable
from veilstream.data import Categories, Grid
from veilstream.data.bounding.keyed import Key
from veilstream.mechanisms.session import Session
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.synthesis import DPCopula, TableDomain
from veilstream.synthesis.fitting import guarantee_of
from veilstream.synthesis.kinds import TableMechanism, TableModel, automatic, for_domain, model_of
from veilstream.synthesis.quality import random_boxes
from veilstream.synthesis.rows import content_hashes
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.rows import ordered_rows
from veilstream.trusted.statistics.pair_tables import count_ranges

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]
EPSILONS: Final = ("1",)
RUNS: Final = 1
PEERS: Final = tuple(os.environ.get("DPMM_PEERS", "AIM,MST").split(","))
MOST_MARGINALS: Final = 60
LEAST_MISSING: Final = 0.01
MEASURES: Final = ("2-way", "3-way", "ranges", "correlations", "AUC", "seconds")


@dataclass(frozen=True, slots=True)
class Ours:
    """One of this package's mechanisms, with simulated noise."""

    mechanism: TableMechanism
    delta: float = 0.0

    def model(self, table: RealTable, epsilon: Fraction, seed: int) -> TableModel:
        """The model of a table."""
        domain = table_domain_of(table)
        mechanism = for_domain(self.mechanism, domain)
        layout = mechanism.layout(domain.shape)
        columns = [np.ascontiguousarray(column) for column in table.codes.T]
        rows = ordered_rows(columns, content_hashes(columns, Key(bytes(16))), domain.shape, 0)
        guarantee = guarantee_of(epsilon, Fraction(str(self.delta)), self.mechanism)
        meter = Session(Accountant(guarantee, layout.size), ExactSampler(SeededSource(seed))).at(0)
        values = mechanism.estimate(layout.seal(rows), guarantee.pure, meter)
        return model_of(domain, layout, np.asarray(values.numbers, dtype=np.float64), epsilon)

    def draw(self, table: RealTable, epsilon: Fraction, seed: int) -> Codes:
        """As many rows as the table has."""
        return np.stack(self.model(table, epsilon, seed).sample_codes(len(table.codes), seed=seed), axis=1)


def table_domain_of(table: RealTable) -> TableDomain:
    """Numbers for ordered attributes, categories for the others."""
    sizes = zip(table.shape, table.ordered, strict=True)
    axes = {
        f"x{i}": Grid(0, size, size) if ordered else Categories(range(size)) for i, (size, ordered) in enumerate(sizes)
    }
    return TableDomain(axes)


def run(quick: bool = False) -> Sequence[Table]:
    """Errors on every table, ratios to the peers, and what a million rows take."""
    tables = real_tables()
    found: dict[tuple[str, str, str], Reals] = {}
    cells = list(itertools.product(tables.items(), EPSILONS))
    for kind in (_ours, _peers) if PYTHON and not quick else (_ours,):
        for (name, table), epsilon in cells:
            for label, method in kind(table, epsilon).items():
                if isinstance(method, GraphicalModel) and not may_draw(method, Fraction(epsilon), 0, name):
                    continue
                runs = RUNS if isinstance(method, Ours) and not quick else 1
                measured = [_measured(name, table, method, epsilon, seed) for seed in range(runs)]
                found[name, epsilon, label] = np.mean(measured, axis=0)
                progress(f"tables {name} {epsilon} {label} {found[name, epsilon, label].round(4).tolist()}")
    return [_errors(found), *_ratios(found)]


def _ours(table: RealTable, epsilon: str) -> dict[str, Any]:
    domain = table_domain_of(table)
    methods: dict[str, Any] = {
        "auto": Ours(automatic(domain)),
        "auto, δ": Ours(automatic(domain, DELTA), DELTA),
    }
    return {"independent": None, **methods, "copula": Ours(DPCopula())} if epsilon == "1" else methods


def _peers(_table: RealTable, epsilon: str) -> dict[str, Any]:
    return {kind: GraphicalModel(kind) for kind in PEERS} if epsilon == "1" else {}


def _errors(found: dict[tuple[str, str, str], Reals]) -> Table:
    names = list(dict.fromkeys(key[0] for key in found))
    listed = sorted(found, key=lambda key: (names.index(key[0]), EPSILONS.index(key[1])))
    rows = [[*key, *(f"{number:.3g}" for number in found[key])] for key in listed]
    judged = [name for name in names if name not in TUNED]
    return Table(
        "Models of real tables",
        f"At most {ROWS:,} rows of each; {RUNS} run of ours, one of {' and '.join(PEERS)} (dpmm 0.1.9). Total "
        f"variation of {MOST_MARGINALS} marginals of 2 and of 3 attributes, mean error of 200 ranges over single "
        "attributes in shares of the rows, mean error of correlations, area under the curve of three classifiers "
        f"trained on drawn rows, processor seconds. {', '.join(TUNED)} were looked at while shares were chosen, "
        f"{', '.join(judged)} were not. {', '.join(PEERS)} and 'auto, δ' have δ = {DELTA:g}, the others 0; "
        "'independent' has the exact margins and no noise. The peers draw by dpmm's sampler that does not round; AIM's "
        "model has at most 4 MB and its fits between rounds 50 steps. Where a peer is missing, its fit did not end in "
        "time.",
        ["table", "ε", "model", *MEASURES],
        rows,
    )


def _ratios(found: dict[tuple[str, str, str], Reals]) -> list[Table]:
    """Of what is wrong: below 1 is better than the peer."""
    rows: list[list[str]] = []
    for peer, ours in itertools.product(PEERS, ("auto", "auto, δ")):
        ratios = {
            name: _wrong(found[name, epsilon, ours]) / np.maximum(_wrong(found[name, epsilon, label]), 1e-4)
            for name, epsilon, label in found
            if label == peer
        }
        for name, ratio in ratios.items():
            rows.append([peer, ours, name, *(f"{number:.2f}" for number in ratio)])
        if ratios:
            mean = np.exp(np.nanmean(np.log(np.maximum(list(ratios.values()), 1e-4)), axis=0))
            rows.append([peer, ours, "geometric mean", *(f"**{number:.2f}**" for number in mean)])
    if not rows:
        return []
    notes = (
        "Error divided by the peer's at ε = 1, in the same run; of AUC what is missing to 1, at least 0.01. Below "
        "1 is better. Of a fit whose time was not taken there is no ratio."
    )
    return [Table("Against the peers", notes, ["peer", "model", "table", *MEASURES], rows)]


def _wrong(numbers: Reals) -> Reals:
    wrong = numbers.copy()
    wrong[4] = max(1 - wrong[4], LEAST_MISSING)
    return wrong


def _measured(name: str, table: RealTable, method: Any, epsilon: str, seed: int) -> list[float]:
    begun = time.process_time()
    seconds = float("nan")
    if method is None:
        rng = np.random.default_rng(seed)  # noqa: TID251 (no release)
        drawn = np.stack([rng.permutation(column) for column in table.codes.T], axis=1)
    elif isinstance(method, GraphicalModel):
        peer = kept_draw(method, table, Fraction(epsilon), seed, name)
        drawn, seconds = peer.codes, peer.seconds
    else:
        drawn = method.draw(table, Fraction(epsilon), seed)
    if not isinstance(method, GraphicalModel):
        seconds = time.process_time() - begun
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
        low, high = (ends[:, [axis]] for ends in random_boxes(table.shape, (axis,), seed=1))
        answers = [
            count_ranges([rows[:, axis].astype(np.int32)], low, high) / len(rows) for rows in (table.codes, drawn)
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
