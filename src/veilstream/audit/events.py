"""How an auditor learns which outputs betray a person: scores that are large where the left side is likelier.

Each learner looks at outputs of both sides (trials × features) and gives named scores; ``bounds`` then chooses one
score and one cut. A score need not be good to be sound: whatever it is, its event is bounded on other trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Scorer: TypeAlias = Callable[[Floats], Floats]
Learner: TypeAlias = Callable[[Floats, Floats], Iterable[tuple[str, Scorer]]]

CELLS: Final = 32
COARSE: Final = 4
SINGLE: Final = 24
"""Features that are tried one by one: the most telling ones."""
TRAINING: Final = 10_000
PAIRED: Final = 6
"""Up to this many features a classifier also sees their products."""
SMOOTHING: Final = 0.5


def likelihood_ratio(left: Floats, right: Floats) -> Iterator[tuple[str, Scorer]]:
    """Logarithms of estimated density ratios: of single features, of all as if independent, and of joint patterns.

    A feature is cut into cells at its own quantiles, both sides together; a discrete one keeps its values as cells.
    """
    tables = [_Table.learn(left[:, j], right[:, j], CELLS) for j in range(left.shape[1])]
    telling = [j for j, table in enumerate(tables) if table.edges.size]
    for j in sorted(telling, key=lambda j: -tables[j].divergence)[:SINGLE]:
        yield f"likelihood ratio of feature {j}", _single(tables[j], j)
    if len(telling) > 1:
        yield "likelihood ratio of all features", lambda x: _summed(tables, telling, x)
        yield from _joint(left, right, telling)


def _single(table: _Table, j: int) -> Scorer:
    return lambda x: table.score(x[:, j])


def _summed(tables: list[_Table], telling: list[int], x: Floats) -> Floats:
    total = np.zeros(len(x))
    for j in telling:
        total += tables[j].score(x[:, j])
    return total


class _Table:
    """ln(P(cell | left)/P(cell | right)) of one number, by cells between ``edges``."""

    def __init__(self, edges: Floats, ratios: Floats, divergence: float) -> None:
        self.edges, self.ratios, self.divergence = edges, ratios, divergence

    @classmethod
    def learn(cls, left: Floats, right: Floats, cells: int) -> _Table:
        edges = _edges(np.concatenate([left, right]), cells)
        counts = [
            np.bincount(np.searchsorted(edges, side, "right"), minlength=edges.size + 1) for side in (left, right)
        ]
        one, other = ((count + SMOOTHING) / (count.sum() + SMOOTHING * count.size) for count in counts)
        ratios = np.log(one / other)
        return cls(edges, ratios, float(((one - other) * ratios).sum()))

    def score(self, x: Floats) -> Floats:
        found: Floats = self.ratios[np.searchsorted(self.edges, x, "right")]
        return found


def _edges(pooled: Floats, cells: int) -> Floats:
    """Values at which a new cell begins: all but the smallest if there are few, else quantiles."""
    few = np.unique(pooled[:: max(1, pooled.size // 4096)])
    if few.size <= cells:
        values = np.unique(pooled)
        if values.size <= 2 * cells:
            rest: Floats = values[1:]
            return rest
    inner = np.quantile(pooled, np.linspace(0, 1, cells + 1)[1:-1], method="nearest")
    edges: Floats = np.unique(inner)
    above: Floats = edges[edges > pooled.min()]
    return above


def _joint(left: Floats, right: Floats, telling: list[int]) -> Iterator[tuple[str, Scorer]]:
    pooled = np.concatenate([left, right])
    binary = [j for j in telling if np.unique(pooled[:: max(1, len(pooled) // 4096), j]).size == 2]
    if 1 < len(binary) <= 62:
        yield "likelihood ratio of the pattern of answers", _pattern(left, right, binary, 2)
    if COARSE ** len(telling) <= max(len(left) // 20, 16):
        yield "likelihood ratio of joint cells", _pattern(left, right, telling, COARSE)


def _pattern(left: Floats, right: Floats, features: list[int], cells: int) -> Scorer:
    edges = [_edges(np.concatenate([left[:, j], right[:, j]]), cells) for j in features]
    # A discrete feature may keep twice as many values as cells were asked for.
    base = max(edge.size for edge in edges) + 1

    def codes(x: Floats) -> NDArray[np.int64]:
        code = np.zeros(len(x), dtype=np.int64)
        for j, edge in zip(features, edges, strict=True):
            code = code * base + np.searchsorted(edge, x[:, j], "right")
        return code

    seen = [codes(left), codes(right)]
    known = np.unique(np.concatenate(seen))
    one, other = (np.bincount(np.searchsorted(known, side), minlength=known.size) + SMOOTHING for side in seen)
    ratios = np.log(one / other)

    def score(x: Floats) -> Floats:
        code = codes(x)
        at = np.minimum(np.searchsorted(known, code), known.size - 1)
        return np.where(known[at] == code, ratios[at], 0.0)

    return score


def threshold_count(left: Floats, right: Floats) -> Iterator[tuple[str, Scorer]]:
    """Single features and their sum as they are, and how many features lie on the left's side of a learned cut."""
    cuts, signs, gaps = (np.array(part) for part in zip(*map(_cut, left.T, right.T), strict=True))
    for j in np.argsort(-gaps)[:SINGLE].tolist():
        yield f"feature {j}", lambda x, j=j: x[:, j]  # type: ignore[misc]
    if left.shape[1] > 1:
        yield "sum of features", lambda x: x.sum(axis=1)
        yield "number of features beyond their cuts", lambda x: ((x - cuts) * signs > 0).sum(axis=1).astype(np.float64)


def _cut(left: Floats, right: Floats) -> tuple[float, float, float]:
    """The value at which the two distribution functions differ most, the sign of the left's side, and by how much."""
    pooled = np.unique(np.quantile(np.concatenate([left, right]), np.linspace(0, 1, 64), method="nearest"))
    between = (pooled[1:] + pooled[:-1]) / 2 if pooled.size > 1 else pooled
    gap = np.searchsorted(np.sort(left), between) / len(left) - np.searchsorted(np.sort(right), between) / len(right)
    at = int(np.argmax(np.abs(gap)))
    return float(between[at]), -1.0 if gap[at] > 0 else 1.0, float(abs(gap[at]))


def classifier(left: Floats, right: Floats) -> Iterator[tuple[str, Scorer]]:
    """Logistic regression of the side on features, their squares and, if they are few, their products."""
    one, other = left[:TRAINING], right[:TRAINING]
    pooled = np.concatenate([one, other])
    centre, spread = np.median(pooled, axis=0), pooled.std(axis=0)
    kept = np.flatnonzero(spread > 0)
    if kept.size == 0:
        return
    pairs = [(i, j) for i in range(kept.size) for j in range(i)] if kept.size <= PAIRED else []

    def design(x: Floats) -> Floats:
        z = np.clip((x[:, kept] - centre[kept]) / spread[kept], -6, 6)
        products = [z[:, i] * z[:, j] for i, j in pairs]
        return np.column_stack([np.ones(len(z)), z, z * z, *products])

    weights = _logistic(design(pooled), np.repeat([1.0, 0.0], [len(one), len(other)]))
    yield "logistic regression", lambda x: design(x) @ weights


def _logistic(x: Floats, y: Floats, ridge: float = 1.0, rounds: int = 8) -> Floats:
    """Ridge-penalised maximum likelihood by Newton's method."""
    weights = np.zeros(x.shape[1])
    penalty = ridge * np.eye(x.shape[1])
    for _ in range(rounds):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        slope = x.T @ (y - p) - ridge * weights
        curvature = (x * (p * (1 - p))[:, None]).T @ x + penalty
        weights = weights + np.linalg.solve(curvature, slope)
    return weights


EVENTS: Final[dict[str, Learner]] = {
    "likelihood ratio": likelihood_ratio,
    "threshold count": threshold_count,
    "classifier": classifier,
}
