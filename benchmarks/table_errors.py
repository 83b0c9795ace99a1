"""How far drawn rows are from a table: marginals, ranges, correlations, and classifiers trained on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from research.tables.sources import CodedTable
from veilstream.synthesis.quality import random_boxes
from veilstream.trusted.statistics.pair_tables import count_ranges

Codes = NDArray[np.int64]
MOST_MARGINALS: Final = 60


def errors_of(table: CodedTable, drawn: Codes) -> list[float]:
    """Total variation of marginals of 2 and 3 attributes, errors of ranges and correlations, and the AUC."""
    return [
        variation(table, drawn, 2),
        variation(table, drawn, 3),
        range_error(table, drawn),
        correlation_error(table, drawn),
        _auc(table, drawn),
    ]


def variation(table: CodedTable, drawn: Codes, order: int) -> float:
    """Mean total variation of marginals of so many attributes."""
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


def range_error(table: CodedTable, drawn: Codes) -> float:
    """Mean error of ranges over single attributes, in shares of the rows."""
    errors: list[float] = []
    for axis in range(len(table.shape)):
        low, high = (ends[:, [axis]] for ends in random_boxes(table.shape, (axis,), seed=1))
        answers = [
            count_ranges([rows[:, axis].astype(np.int32)], low, high) / len(rows) for rows in (table.codes, drawn)
        ]
        errors.append(float(np.abs(answers[0] - answers[1]).mean()))
    return float(np.mean(errors))


def correlation_error(table: CodedTable, drawn: Codes) -> float:
    """Mean error of the correlations of codes."""
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
