"""Marginals of a table with budgets that fit a declared set of them, consistent with one another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.histograms._strategies import Law, Reals, exact_shares
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.boxes import require_dense
from veilstream.values.values import NoiseLaw, Values

MOST_MARGINALS: Final = 1024
Subset = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Marginals:
    """Measures marginals of a table, each with the budget that makes all wanted ones best, and fits a table to them.

    ``order``: all marginals of that many attributes are wanted (2 by default, at most the table's), or ``marginals``
    names them, e.g. ``((0, 1), (2,))``. Measured are they, all that lie within them, and the table itself, if that
    helps. If the marginal of attributes A has noise of variance 1/w_A², least squares separates: what varies with
    exactly the attributes S has the precision λ_S = Σ_{A ⊇ S} w_A² · (cells of the table per cell of the marginal A).
    Weights minimise the total variance Σ_S c_S/λ_S over the cells of all wanted marginals under Σ w = 1 (Laplace) or
    Σ w² = 1 (Gaussian). The fit is two cosine transforms, whose coefficients belong to one S each.

    The table that comes out has these marginals, consistent and unbiased, and nothing beyond: single cells are only as
    good as low-order marginals describe them.

    >>> [(a, round(float(share), 2)) for a, share in Marginals(order=1).shares((9, 9, 9)).items()]
    [((0,), 0.33), ((1,), 0.33), ((2,), 0.33)]
    >>> Marginals(order=1).shares((2, 2, 2))
    {(0, 1, 2): Fraction(1, 1)}

    McKenna, Miklau, Hay, Machanavajjhala: HDMM, VLDB 2018 (strategies of weighted marginals); Xiao, He, Zhang, Kifer:
    An optimal and scalable matrix mechanism for noisy marginals, NeurIPS 2023 (the decomposition by S). Changed: also
    with Laplace noise, by the same variances.
    """

    order: int = 2
    marginals: tuple[Subset, ...] | None = None
    noise: Law = "laplace"
    oblivious: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if type(self.order) is not int or self.order < 1:
            raise InvalidInputError(name="order", value=self.order, limit="a whole number from 1")
        if self.noise not in ("laplace", "gaussian"):
            raise InvalidInputError(name="noise", value=self.noise, limit="'laplace' or 'gaussian'")
        if self.marginals is not None and not self.marginals:
            raise InvalidInputError("marginals (): at least one is needed")

    def shares(self, shape: Sequence[int]) -> dict[Subset, Fraction]:
        """The measured marginals and their shares of the budget: public."""
        return dict(best_shares(tuple(shape), self._wanted(len(shape)), self.noise))

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        from scipy.fft import dctn, idctn

        require_dense(x.shape)
        shares = self.shares(x.shape)
        total: Reals | float = 0.0
        variance = 0.0
        for subset, share in shares.items():
            values = self._measured(_marginal(x, subset), epsilon, share, meter)
            precision = float(share) ** 2 if self.noise == "laplace" else float(share)
            variance = max(variance, float(np.max(values.std)) ** 2 * precision)
            batch = values.numbers.shape[:-1]
            shape = [size if axis in subset else 1 for axis, size in enumerate(x.shape)]
            total = total + precision * np.asarray(values.numbers, dtype=np.float64).reshape(*batch, *shape)
        assert isinstance(total, np.ndarray)
        axes = range(-len(x.shape), 0)
        lambdas = _precisions(x.shape, shares, self.noise)
        spectrum = dctn(np.broadcast_to(total, (*total.shape[: total.ndim - len(x.shape)], *x.shape)), axes=axes)
        known = lambdas > 0
        spectrum = np.divide(
            spectrum, lambdas, out=np.zeros_like(spectrum), where=np.broadcast_to(known, spectrum.shape)
        )
        table = np.asarray(idctn(spectrum, axes=axes), dtype=np.float64)
        cell = float(np.divide(1, lambdas, out=np.zeros(lambdas.shape), where=known).sum()) / x.size
        law = NoiseLaw.GAUSSIAN if self.noise == "gaussian" else NoiseLaw.MIXED
        return Values(table.reshape(*total.shape[: total.ndim - len(x.shape)], -1), math.sqrt(variance * cell), law)

    def _measured(self, counts: Sealed, epsilon: Fraction, share: Fraction, meter: Meter) -> Values:
        if self.noise == "laplace":
            return meter.laplace(counts, epsilon * share, "marginal")
        guarantee = meter.guarantee
        if guarantee.mu_squared == 0 or guarantee.pure == 0:
            raise InvalidBudgetError(f"Gaussian noise under {guarantee}: delta and pure_share must both be above 0")
        return meter.gaussian(counts, guarantee.mu_squared * epsilon / guarantee.pure * share, "marginal")

    def _wanted(self, attributes: int) -> tuple[Subset, ...]:
        if self.marginals is None:
            return tuple(itertools.combinations(range(attributes), min(self.order, attributes)))
        for marginal in self.marginals:
            if sorted(set(marginal)) != sorted(marginal) or not all(0 <= a < attributes for a in marginal):
                raise InvalidInputError(
                    name="marginal", value=marginal, limit=f"distinct attributes from 0 to {attributes - 1} are needed"
                )
        return tuple(dict.fromkeys(tuple(sorted(marginal)) for marginal in self.marginals))


def _marginal(x: Sealed, subset: Subset) -> Sealed:
    if len(subset) == len(x.shape):
        return x
    labels = np.zeros(x.shape, dtype=np.int64)
    for axis in subset:
        along = np.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(x.shape))])
        labels = labels * x.shape[axis] + along
    return x.sums(labels.reshape(-1), math.prod(x.shape[axis] for axis in subset))


def _precisions(shape: tuple[int, ...], shares: dict[Subset, Fraction], law: Law) -> Reals:
    """λ of every coefficient of the cosine transform: that of the attributes along which it varies."""
    table = np.zeros(shape)
    cells = math.prod(shape)
    for subset, share in shares.items():
        weight = float(share) ** (2 if law == "laplace" else 1) * cells / math.prod(shape[axis] for axis in subset)
        table[tuple(slice(None) if axis in subset else 0 for axis in range(len(shape)))] += weight
    return table


@lru_cache(maxsize=64)
def best_shares(shape: tuple[int, ...], wanted: tuple[Subset, ...], law: Law) -> tuple[tuple[Subset, Fraction], ...]:
    """Shares of a budget for marginals within the wanted ones that make the total variance of those least."""
    from scipy.optimize import minimize

    inside = {
        part
        for marginal in wanted
        for size in range(len(marginal) + 1)
        for part in itertools.combinations(marginal, size)
    }
    # The table itself is worth measuring where it has few cells for the marginals that are wanted.
    subsets = sorted({*inside, tuple(range(len(shape)))}, key=lambda subset: (len(subset), subset))
    if len(subsets) > MOST_MARGINALS:
        raise InvalidInputError(f"{len(subsets)} marginals within the wanted ones: at most {MOST_MARGINALS}")
    per_cell = np.array([math.prod(shape) / math.prod(shape[axis] for axis in subset) for subset in subsets])
    below = np.array([[set(s) <= set(a) for a in subsets] for s in subsets], dtype=np.float64)
    dimension = np.array([math.prod(shape[axis] - 1 for axis in subset) for subset in subsets], dtype=np.float64)
    asked = np.array([float(subset in wanted) for subset in subsets])
    costs = dimension * (below @ (asked * per_cell))
    power = 2 if law == "laplace" else 1

    def error(logits: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        lambdas = below @ (shares**power * per_cell)
        each = costs / np.maximum(lambdas, 1e-300)
        slope = -(below.T @ (each / np.maximum(lambdas, 1e-300))) * per_cell * power * shares ** (power - 1)
        total = float(each.sum())
        return math.log(total), shares * (slope - shares @ slope) / total

    whole = np.arange(len(subsets)) == len(subsets) - 1
    starts = [np.where(heavy, 0.0, -4.0) for heavy in (asked > 0, whole)]
    runs = [minimize(error, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}) for start in starts]
    found = min(runs, key=lambda run: float(run.fun))
    exact = exact_shares(np.exp(found.x - np.max(found.x)), keep_last=False)
    return tuple((subset, share) for subset, share in zip(subsets, exact, strict=True) if share)
