"""Which attributes and pairs of them a published model can be trusted in, and how far."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from veilstream.mechanisms.session import Session
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.synthesis.checking import LEVEL, Codes, Measurement, counts_of, labels_of
from veilstream.synthesis.junction import Scope
from veilstream.synthesis.kinds import TableMechanism, TableModel, for_domain, model_of
from veilstream.synthesis.restructuring import independent
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.rows import ordered_rows

REFITS: Final = {False: 10, True: 4}
"""Models of drawn rows; fewer if there are many pairs of attributes."""
MANY_PAIRS: Final = 2000
MOST_ROWS: Final = 50_000


@dataclass(frozen=True, slots=True)
class Trust:
    """How far the table of one attribute, or of two, is off: total variation, as shares of the rows.

    ``noise`` is what noise and sampling do on average, and ``noise_low`` and ``noise_high`` hold it for one more model
    with 95 %: all as if the published model were the truth. How far the model itself is from the table is in
    ``measured``, if it was.
    """

    scope: Scope
    names: tuple[str, ...]
    dependence: float
    """How far two attributes are from independence in drawn rows, which is the error of independent ones if the model
    were the truth; 0 for one."""
    noise: float
    noise_low: float
    noise_high: float
    measured: Measurement | None = None

    @property
    def verdict(self) -> str:
        """Whether the error, measured or else by noise alone, is well below what independent attributes would have.

        >>> Trust((0, 1), ("a", "b"), dependence=0.3, noise=0.05, noise_low=0.04, noise_high=0.06).verdict
        'use it'
        """
        low, high, apart_low, apart_high = self.noise_low, self.noise_high, self.dependence, self.dependence
        if self.measured is not None:
            drawn, independent = self.measured.drawn, self.measured.independent
            low, high, apart_low, apart_high = drawn.low, drawn.high, independent.low, independent.high
        if high < apart_low / 2:
            return "use it"
        return "with care" if low < apart_high else "no better than independence"


def marginal_trust(model: TableModel, mechanism: TableMechanism, guarantee: Guarantee, *, seed: int = 0) -> list[Trust]:
    """Every attribute, then every pair of them, the most dependent first: drawn rows are fitted again with simulated
    noise.

    It costs nothing, because only the published model is read, and speaks of noise and sampling alone.
    """
    count = min(max(model.rows, 1), MOST_ROWS)
    drawn = model.sample_codes(count, seed)
    layout = model.layout
    table = layout.seal(ordered_rows(drawn, SeededSource((seed, 7)).words(count), layout.shape, t=0))
    axes = range(len(layout.shape))
    scopes: list[Scope] = [*((axis,) for axis in axes), *itertools.combinations(axes, 2)]
    truth = _tables(drawn, scopes, layout.shape)
    refits = REFITS[len(scopes) > MANY_PAIRS]
    errors = np.zeros((refits, len(scopes)))
    for refit in range(refits):
        session = Session(Accountant(guarantee, layout.size), ExactSampler(SeededSource((seed, 8, refit))))
        values = for_domain(mechanism, model.domain).estimate(table, guarantee.pure, session.at(0))
        again = model_of(model.domain, layout, np.asarray(values.numbers, dtype=np.float64), Fraction(0))
        codes = again.sample_codes(count, seed + 1 + refit)
        errors[refit] = [_distance(*both) for both in zip(_tables(codes, scopes, layout.shape), truth, strict=True)]
    wide = float(stdtrit(refits - 1, (1 + LEVEL) / 2)) * math.sqrt(1 + 1 / refits)
    found: list[Trust] = []
    for scope, exact, error in zip(scopes, truth, errors.T, strict=True):
        mean, half = float(error.mean()), wide * float(error.std(ddof=1))
        names = tuple(model.domain.names[axis] for axis in scope)
        apart = _distance(exact, independent(exact)) if len(scope) == 2 else 0.0
        found.append(Trust(scope, names, apart, mean, max(mean - half, 0.0), min(mean + half, 1.0)))
    return sorted(found, key=lambda each: (len(each.scope), -each.dependence))


def with_measurements(trust: list[Trust], measured: Mapping[Scope, Measurement]) -> list[Trust]:
    """The same with what was measured of some of them."""
    return [replace(each, measured=measured.get(each.scope)) for each in trust]


def _tables(codes: Codes, scopes: list[Scope], shape: tuple[int, ...]) -> list[NDArray[np.float64]]:
    labels, rows = labels_of(shape), max(codes[0].size, 1)
    return [counts_of(codes, scope, labels) / rows for scope in scopes]


def _distance(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    return float(np.abs(one - two).sum()) / 2
