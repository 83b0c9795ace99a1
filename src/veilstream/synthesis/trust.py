"""Which pairs of attributes a published model can be trusted in, and how far, found without the table."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from veilstream.mechanisms.session import Session
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.synthesis.kinds import TableMechanism, TableModel, for_domain, model_of
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.rows import ordered_rows

Codes = list[NDArray[np.int64]]
REFITS: Final = 10
MOST_ROWS: Final = 50_000
LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True)
class PairTrust:
    """How far the table of two attributes is from independence, and how far off noise puts it: shares of the rows.

    ``low`` and ``high`` hold the error of one more model with 95 %, if the published model were the truth.
    """

    names: tuple[str, str]
    dependence: float
    error: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether noise leaves a dependence of this size standing.

        >>> PairTrust(("a", "b"), dependence=0.3, error=0.05, low=0.04, high=0.06).verdict
        'use it'
        """
        if self.high < self.dependence / 2:
            return "use it"
        return "with care" if self.low < self.dependence else "no better than independence"


def pair_trust(model: TableModel, mechanism: TableMechanism, guarantee: Guarantee, *, seed: int = 0) -> list[PairTrust]:
    """Every pair of attributes, the most dependent first: drawn rows are fitted again with simulated noise.

    It costs nothing, because only the published model is read, and speaks of noise and sampling alone.
    """
    count = min(max(model.rows, 1), MOST_ROWS)
    drawn = model.sample_codes(count, seed)
    layout = model.layout
    table = layout.seal(ordered_rows(drawn, SeededSource((seed, 7)).words(count), layout.shape, t=0))
    pairs = list(itertools.combinations(range(len(layout.shape)), 2))
    truth = [_table(drawn, pair, layout.shape) for pair in pairs]
    errors = np.zeros((REFITS, len(pairs)))
    for refit in range(REFITS):
        session = Session(Accountant(guarantee, layout.size), ExactSampler(SeededSource((seed, 8, refit))))
        values = for_domain(mechanism, model.domain).estimate(table, guarantee.pure, session.at(0))
        again = model_of(model.domain, layout, np.asarray(values.numbers, dtype=np.float64), Fraction(0))
        codes = again.sample_codes(count, seed + 1 + refit)
        errors[refit] = [_distance(_table(codes, p, layout.shape), t) for p, t in zip(pairs, truth, strict=True)]
    wide = float(stdtrit(REFITS - 1, (1 + LEVEL) / 2)) * math.sqrt(1 + 1 / REFITS)
    found: list[PairTrust] = []
    for (j, k), exact, error in zip(pairs, truth, errors.T, strict=True):
        mean, half = float(error.mean()), wide * float(error.std(ddof=1))
        alone = np.outer(exact.sum(axis=1), exact.sum(axis=0))
        names = (model.domain.names[j], model.domain.names[k])
        found.append(PairTrust(names, _distance(exact, alone), mean, max(mean - half, 0.0), min(mean + half, 1.0)))
    return sorted(found, key=lambda pair: -pair.dependence)


def _table(codes: Codes, pair: tuple[int, int], shape: tuple[int, ...]) -> NDArray[np.float64]:
    sizes = (shape[pair[0]], shape[pair[1]])
    counts = np.bincount(codes[pair[0]] * sizes[1] + codes[pair[1]], minlength=sizes[0] * sizes[1])
    return np.asarray(counts.reshape(sizes) / max(codes[0].size, 1), dtype=np.float64)


def _distance(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    return float(np.abs(one - two).sum()) / 2
