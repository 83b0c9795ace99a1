"""MST and AIM, written after their papers on the graphical models of ``mbi`` (private-pgm, version 2 or later).

McKenna, Miklau, Sheldon: Winning the NIST contest, 2021; McKenna, Mullins, Sheldon, Miklau: AIM, VLDB 2022. Both spend
zero-concentrated privacy and promise (ε, δ) with δ = 1e-9. They are peers to compare with, with ordinary floating-point
noise; nothing is released by them. Rows are sampled: rounding would invent dependence between sibling columns.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

Codes = NDArray[np.int64]
DELTA: Final = 1e-9
ITERATIONS: Final = 1000
AIM_MEGABYTES: Final = 4.0
"""Limit of AIM's model; its authors use 80 and many hours."""


def _rho(epsilon: float) -> float:
    """The zero-concentrated budget behind (epsilon, DELTA), by the conversion of Canonne, Kamath and Steinke."""

    def log_delta(rho: float) -> float:
        def bound(power: float) -> float:
            return (power - 1) * (power * rho - epsilon) + power * math.log1p(-1 / power) - math.log(power - 1)

        return float(minimize_scalar(bound, bounds=(1.0001, 1e5), method="bounded").fun)

    return float(brentq(lambda rho: log_delta(rho) - math.log(DELTA), 1e-9, 10 * epsilon))


class _Table:
    """A table of codes with noisy marginals and models of them."""

    def __init__(self, codes: Codes, shape: tuple[int, ...], seed: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.mbi: Any = import_module("mbi")
        self.rng = np.random.default_rng(seed)  # noqa: TID251 (a peer, not a release)
        self.names = [f"x{i}" for i in range(len(shape))]
        columns = {name: codes[:, i] for i, name in enumerate(self.names)}
        self.data: Any = self.mbi.Dataset(columns, self.mbi.Domain(self.names, shape))
        self.measured: list[Any] = []
        self.mapping: dict[str, NDArray[np.int64]] = {}

    def exact(self, clique: tuple[str, ...]) -> NDArray[np.float64]:
        return np.asarray(self.data.project(clique).datavector(), dtype=np.float64)

    def measure(self, clique: tuple[str, ...], sigma: float) -> None:
        exact = self.exact(clique)
        noisy = exact + self.rng.normal(0, sigma, exact.size)
        self.measured.append(self.mbi.LinearMeasurement(noisy, clique, stddev=sigma))

    def compress(self) -> None:
        """Values whose noisy count is below three standard deviations become one."""
        for each in self.measured:
            seen = np.asarray(each.noisy_measurement) >= 3 * each.stddev
            if not seen.all():
                self.mapping[each.clique[0]] = np.where(seen, np.cumsum(seen) - 1, seen.sum()).astype(np.int64)
        self.measured = [each.compress(self.mapping, self.data.domain) for each in self.measured]
        self.data = self.data.compress(self.mapping)

    def model(self, warm: Any = None, iterations: int = ITERATIONS) -> Any:
        extra = {} if warm is None else {"warm_start": warm}
        estimator = self.mbi.estimation.MirrorDescent()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return estimator.estimate(self.data.domain, self.measured, iters=iterations, **extra)

    def choose(self, scores: NDArray[np.float64], epsilon: float, sensitivity: float) -> int:
        noise = self.rng.gumbel(size=scores.size)
        return int(np.argmax(epsilon * scores / (2 * sensitivity) + noise))

    def draw(self, model: Any) -> Codes:
        np.random.seed(int(self.rng.integers(1 << 31)))  # noqa: TID251 (the sampler of mbi has no other)
        drawn = model.synthetic_data(method="sample")
        drawn = drawn.decompress(self.mapping) if self.mapping else drawn
        return np.stack([np.asarray(drawn.to_dict()[name]) for name in self.names], axis=1).astype(np.int64)


def mst(codes: Codes, shape: tuple[int, ...], epsilon: float, seed: int) -> Codes:
    """Single marginals, a spanning tree of pairs chosen by how wrong independence is about them, and those pairs."""
    table, rho = _Table(codes, shape, seed), _rho(epsilon)
    sigma = math.sqrt(3 * len(shape) / (2 * rho))
    for name in table.names:
        table.measure((name,), sigma)
    table.compress()
    independent = table.model()
    pairs = list(itertools.combinations(table.names, 2))
    wrong = {
        pair: float(np.abs(table.exact(pair) - np.asarray(independent.project(pair).datavector())).sum())
        for pair in pairs
    }
    group = {name: name for name in table.names}
    tree: list[tuple[str, str]] = []
    each = math.sqrt(8 * rho / 3 / (len(shape) - 1))
    while len(tree) < len(shape) - 1:
        open_pairs = [pair for pair in pairs if group[pair[0]] != group[pair[1]]]
        chosen = open_pairs[table.choose(np.array([wrong[pair] for pair in open_pairs]), each, 1.0)]
        tree.append(chosen)
        old, new = group[chosen[1]], group[chosen[0]]
        group = {name: new if label == old else label for name, label in group.items()}
    for pair in tree:
        table.measure(pair, math.sqrt(3 * len(tree) / (2 * rho)))
    return table.draw(table.model())


def aim(codes: Codes, shape: tuple[int, ...], epsilon: float, seed: int) -> Codes:
    """Round by round the pair that the model gets most wrong, with noise that is halved when a round taught nothing."""
    table, rho = _Table(codes, shape, seed), _rho(epsilon)
    rounds = 16 * len(shape)
    sigma, share = math.sqrt(rounds / (2 * 0.9 * rho)), math.sqrt(8 * 0.1 * rho / rounds)
    used = 0.0
    for name in table.names:
        table.measure((name,), sigma)
        used += 0.5 / sigma**2
    table.compress()
    sizes: Any = import_module("mbi.junction_tree")
    singles, pairs = [(name,) for name in table.names], list(itertools.combinations(table.names, 2))
    weight = {clique: float(sum(len({*clique} & {*pair}) for pair in pairs)) for clique in [*singles, *pairs]}
    model, last = table.model(), False
    while not last:
        if rho - used < 2 * (0.5 / sigma**2 + share**2 / 8):
            left = rho - used
            sigma, share, last = math.sqrt(1 / (2 * 0.9 * left)), math.sqrt(8 * 0.1 * left), True
        used += share**2 / 8 + 0.5 / sigma**2
        limit = AIM_MEGABYTES * used / rho
        present = [tuple(each.clique) for each in table.measured]
        fits = [
            clique
            for clique in weight
            if clique in present or sizes.hypothetical_model_size(table.data.domain, [*present, clique]) <= limit
        ]
        before = {clique: np.asarray(model.project(clique).datavector()) for clique in fits}
        scores = np.array(
            [
                weight[c] * (np.abs(table.exact(c) - before[c]).sum() - math.sqrt(2 / math.pi) * sigma * before[c].size)
                for c in fits
            ]
        )
        chosen = fits[table.choose(scores, share, max(weight[clique] for clique in fits))]
        table.measure(chosen, sigma)
        model = table.model(warm=model, iterations=ITERATIONS if last else ITERATIONS // 4)
        taught = float(np.abs(np.asarray(model.project(chosen).datavector()) - before[chosen]).sum())
        if taught <= sigma * math.sqrt(2 / math.pi) * before[chosen].size:
            sigma, share = sigma / 2, share * 2
    return table.draw(model)


PEERS: Final[dict[str, Callable[[Codes, tuple[int, ...], float, int], Codes]]] = (
    {"MST": mst, "AIM": aim} if find_spec("mbi") is not None else {}
)
