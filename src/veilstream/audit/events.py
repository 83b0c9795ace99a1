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
TAILS: Final = (0.0005, 0.002, 0.008)
"""Shares of outputs that get cells of their own at either end: rare outputs may betray most."""
FEWEST_IN_TAIL: Final = 50
PATTERNS: Final = 32
"""Patterns of discrete features, the most frequent ones, within which others are judged apart."""
DISCRETE: Final = 8
FEWEST_IN_PATTERN: Final = 500


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
        yield from _within(left, right, telling)


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
        scores: Floats = self.ratios[np.searchsorted(self.edges, x, "right")]
        return scores


def _edges(pooled: Floats, cells: int) -> Floats:
    """Values at which a new cell begins: all but the smallest if there are few, else quantiles."""
    few = np.unique(pooled[:: max(1, pooled.size // 4096)])
    if few.size <= cells:
        values = np.unique(pooled)
        if values.size <= 2 * cells:
            rest: Floats = values[1:]
            return rest
    shares, fine = np.linspace(0, 1, cells + 1)[1:-1], cells > COARSE
    rare = np.array([share for share in TAILS if fine and share * pooled.size >= FEWEST_IN_TAIL])
    inner = np.quantile(pooled, np.sort(np.concatenate([rare, shares, 1 - rare])), method="nearest")
    # A value that several quantiles meet is an atom, and a cell of its own.
    atoms = inner[1:][inner[1:] == inner[:-1]] if fine else inner[:0]
    edges: Floats = np.unique(np.concatenate([inner, np.nextafter(atoms, np.inf)]))
    above: Floats = edges[(edges > pooled.min()) & (edges <= pooled.max())]
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


def _within(left: Floats, right: Floats, telling: list[int]) -> Iterator[tuple[str, Scorer]]:
    """Ratios given the pattern of all discrete features: what a number betrays depends on what was decided."""
    patterns = _Patterns(np.concatenate([left, right]), telling)
    of_left, of_right = patterns.codes(left), patterns.codes(right)
    judges: list[_Judge] = []
    for code in range(patterns.size):
        one, other = left[of_left == code], right[of_right == code]
        judges.append(_Judge(one, other, patterns.others, len(left) / len(right)))

    def score(x: Floats) -> Floats:
        codes, scores = patterns.codes(x), np.empty(len(x))
        for code, judge in enumerate(judges):
            rows = np.flatnonzero(codes == code)
            scores[rows] = judge.score(x[rows])
        return scores

    yield "likelihood ratio within patterns", score


class _Patterns:
    """Rows by the values of their discrete features: the most frequent combinations, and all others together."""

    def __init__(self, pooled: Floats, telling: list[int]) -> None:
        thin = pooled[:: max(1, len(pooled) // 4096)]
        self.discrete = [j for j in telling if np.unique(thin[:, j]).size <= DISCRETE]
        self.others = [j for j in telling if j not in self.discrete]
        names, counts = np.unique(self._names(pooled), return_counts=True)
        self.frequent: Floats = np.sort(names[np.argsort(-counts, kind="stable")[:PATTERNS]])
        self.size = self.frequent.size + 1

    def _names(self, x: Floats) -> Floats:
        """One number for a combination, by a mixture in which two combinations hardly ever meet."""
        named: Floats = np.round(x[:, self.discrete] @ np.sqrt(np.arange(2.0, 2.0 + len(self.discrete))), 6)
        return named

    def codes(self, x: Floats) -> NDArray[np.int64]:
        names = self._names(x)
        at = np.minimum(np.searchsorted(self.frequent, names), self.frequent.size - 1)
        return np.where(self.frequent[at] == names, at, self.frequent.size)


class _Judge:
    """Log-odds of the left side: ratios of single features, weighed by logistic regression."""

    def __init__(self, left: Floats, right: Floats, features: list[int], size_ratio: float) -> None:
        self.ratio = float(np.log((len(left) + SMOOTHING) / (len(right) + SMOOTHING) / size_ratio))
        self.tables: dict[int, _Table] = {}
        self.weights = np.zeros(0)
        if min(len(left), len(right)) < FEWEST_IN_PATTERN:
            return
        learned = {j: _Table.learn(left[:, j], right[:, j], CELLS // 2) for j in features}
        self.tables = {j: table for j, table in learned.items() if table.edges.size}
        one, other = left[:TRAINING], right[:TRAINING]
        design = self._design(np.concatenate([one, other]))
        sides = np.repeat([1.0, 0.0], [len(one), len(other)])
        self.weights = _logistic(np.column_stack([np.ones(len(design)), design]), sides)[1:]

    def _design(self, x: Floats) -> Floats:
        columns = [table.score(x[:, j]) for j, table in self.tables.items()]
        return np.column_stack(columns) if columns else np.zeros((len(x), 0))

    def score(self, x: Floats) -> Floats:
        scores: Floats = self.ratio + self._design(x) @ self.weights
        return scores


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
    varying = np.flatnonzero(spread > 0)
    if varying.size == 0:
        return
    pairs = [(i, j) for i in range(varying.size) for j in range(i)] if varying.size <= PAIRED else []

    def design(x: Floats) -> Floats:
        z = np.clip((x[:, varying] - centre[varying]) / spread[varying], -6, 6)
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
