"""Linear classifiers that minimise a regularised loss, as sealed vectors with a bound for every single person.

With people i of public weights 0 < w_i ≤ 1 (a person on the roster without a record adds nothing), N = Σ w_i over the
*roster*, features ‖x_i‖ ≤ 1, labels y_i = ±1 and a convex loss with |ℓ'| ≤ 1 and ℓ'' ≤ c,

    J(f) = (1/N) Σ w_i ℓ(y_i f·x_i) + Λ/2 ‖f‖² + (1/N) b·f.

Neighbours add or remove one record, N is public: bounds are half of those for replaced records.

*Output perturbation* (b = 0). J is Λ-strongly convex and a record adds a function with gradient at most w_i/N, so it
moves the minimiser by at most w_i/(NΛ) in the L2 norm, by √d times that in L1.

*Objective perturbation*. Let b have independent Laplace coordinates of scale s. The minimiser f determines
b = −NΛf − Σ w_i ℓ'(y_i f·x_i) y_i x_i. A record changes the b of a given f by at most w_i in L2, √d·w_i in L1: the
density changes by a factor of at most exp(√d·w_i/s). The determinant of ∂b/∂f = −(NΛ + Σ w_i ℓ'' x_i x_iᵀ) changes by a
factor between 1 and 1 + w_i c/(NΛ) ≤ exp(w_i c/(NΛ)) (where ℓ' is only Lipschitz, as for the Huber loss, almost
everywhere, which is enough for the area formula). So the exact minimiser costs w_i(√d/s + c/(NΛ)).

*What is computed* is not the exact minimiser: b is rounded down to a grid (an exact draw of the rounded law), the
solver stops early, the result is rounded. All of it together is off by at most τ in L2, proved from the gradient where
the solver stopped: ‖f̂ − f‖ ≤ ‖∇J(f̂)‖/Λ, with the rounding of the gradient itself bounded. Given the data, f determines
b and so everything that is computed; two neighbours' outputs for the same f are then within 2τ of each other, and
Laplace noise on the grid for √d·2τ at a small extra price hides it. Nothing rests on floating-point noise.

τ is public, so it must suffice for every b. It does for |b_j| ≤ 64·s: then J(f) ≤ J(0) gives ‖f‖ ≤ 2‖b‖/(NΛ) + √(2/Λ),
which bounds the rounding of a gradient. A larger b comes with probability at most d·e^−64 < 10⁻²⁴, whatever the data.
Only then, or if Newton's method should not end, is the minimum not certified and an error shown: the one event outside
of the pure guarantee. Output perturbation has no b.

Where the literature was corrected. Chaudhuri, Monteleoni, Sarwate (JMLR 2011) replace records, with (1 + c/(nΛ))²
for the determinant and twice the noise: adding or removing one record needs half of that, as above; and their proof is
of the exact minimiser. That an approximate one is to be hidden by a little noise more is due to Iyengar, Near, Song,
Thakkar, Thakurta, Wang (S&P 2019), there with Gaussian noise and (ε, δ) after Kifer, Smith, Thakurta (COLT 2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.noise.thinning import WordNoise
from veilstream.privacy.charge import Span
from veilstream.privacy.rationals import sqrt_up
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import opened
from veilstream.trusted.sealed import Opaque
from veilstream.trusted.statistics.losses import Loss

Floats: TypeAlias = NDArray[np.float64]
WEIGHT = 1 << 24
"""Weights are whole multiples of 1/WEIGHT: exact in floating point."""
SLACK = 1 + Fraction(1, 1 << 40)
"""For norms that were compared with 1 in floating point."""
LARGEST_SCALE = 1 << 39
MAX_GRID = 36
MAX_DIMENSIONS = 1 << 12
MAX_NEWTON = 200
SMALLEST_STEP = 1e-12
WIDEST_PULL = 64
"""Noise in the objective is certified up to so many times its scale."""


@runtime_checkable
class BitNoise(WordNoise, Protocol):
    """Laplace noise and uniform words from one source."""

    def laplace(self, scale: Fraction, size: int) -> NDArray[np.int64]: ...


class SealedExamples(Opaque[tuple[Floats, Floats, NDArray[np.int64]]]):
    """Features, labels ±1 and levels of people, one row each; how many there are is private.

    >>> SealedExamples(np.array([[0.6, 0.8]]), np.array([1]), np.array([0]))
    SealedExamples(dimensions=2)
    """

    __slots__ = ("dimensions", "span")
    contents: ClassVar[str] = "rows"

    def __init__(self, rows: Floats, signs: NDArray[Any], levels: NDArray[np.int64], t: int = 0) -> None:
        if rows.ndim != 2 or not 1 <= rows.shape[1] <= MAX_DIMENSIONS:
            raise InvalidInputError(
                f"features of {rows.ndim} axes: people × dimensions, of these at most {MAX_DIMENSIONS}"
            )
        if signs.shape != (rows.shape[0],) or levels.shape != signs.shape or not np.isin(signs, (-1, 1)).all():
            raise InvalidInputError("labels: one of -1 and +1 for each row is needed")
        if not np.isfinite(rows).all():
            raise InvalidInputError("features: a value is missing or infinite")
        if rows.size and float((rows**2).sum(axis=1).max()) > 1:
            raise InvalidInputError("features: a row has a norm above 1; divide by a public bound or clip first")
        super().__init__(
            (
                np.array(rows, dtype=np.float64),
                np.array(signs, dtype=np.float64),
                np.array(levels, dtype=np.int64),
            )
        )
        self.dimensions = int(rows.shape[1])
        self.span = Span(t, t)

    def sampled(self, rates: NDArray[np.int64], noise: WordNoise) -> SealedExamples:
        """A secret sample with probability rates[level]·2⁻³² for each person, independently."""
        rows, signs, levels = opened(self)
        words = noise.uniform_words(levels.size) >> np.uint64(32)
        drawn = words.astype(np.int64) < rates[levels]
        return SealedExamples(rows[drawn], signs[drawn], levels[drawn], self.span.first)

    def __repr__(self) -> str:
        return f"SealedExamples(dimensions={self.dimensions})"


@dataclass(frozen=True, slots=True)
class Risk:
    """The public part of a problem: everything but the data.

    ``total`` is N, ``smallest`` the smallest weight above 0, ``people`` the most rows there can be.
    """

    loss: Loss
    regularisation: float
    total: Fraction
    smallest: Fraction
    people: int
    dimensions: int

    @property
    def strength(self) -> Fraction:
        """Λ, exactly as the solver uses it."""
        return Fraction(self.regularisation)

    @property
    def root(self) -> Fraction:
        return sqrt_up(Fraction(self.dimensions))

    def reach(self, pull: Fraction) -> Fraction:
        """The size of the largest minimiser, for noise b of norm at most ``pull``."""
        return 2 * pull / (self.total * self.strength) + sqrt_up(2 / self.strength)

    def tolerance(self, pull: Fraction) -> Fraction:
        """The largest gradient, its rounding included, at which the solver may stop.

        Public, and four times ``_rounding`` where that is largest: for all people and the largest minimiser.
        """
        steep = max(self.loss.curvature, Fraction(1)) + self.strength
        steps = self.people + 16 + (self.dimensions + 8) * (1 + self.reach(pull)) * steep + 4 * pull / self.total
        return max(steps, Fraction(1 << 15)) / (1 << 49)

    def inexact(self, grid: int, pull: Fraction = Fraction(0)) -> Fraction:
        """How far neighbours' results may be apart, in L2, for want of exact arithmetic: 2τ."""
        return 2 * self.tolerance(pull) / self.strength + self.root / (1 << grid)


@hide_frames
def output_perturbed(examples: SealedExamples, weights: NDArray[np.int64], risk: Risk, epsilon: Fraction) -> Sealed:
    """The minimiser for b = 0; Laplace noise for its ``l1`` at ``epsilon`` costs a person at most epsilon · w_i.

    A person moves it by at most w_i/(NΛ) + 2τ ≤ w_i·(1/(NΛ) + 2τ/w_min), of which ``l1`` says the factor of w_i ≤ 1.
    """
    reach = SLACK / (risk.total * risk.strength)
    grid = _grid(risk.root * reach / epsilon)
    moved = reach + risk.inexact(grid) / risk.smallest
    rows, own = _weighted(examples, weights)
    solution = _minimise(rows, own, np.zeros(examples.dimensions), risk, Fraction(0))
    return _sealed(solution, grid, examples.span, risk.root * moved)


@hide_frames
def objective_perturbed(
    examples: SealedExamples, weights: NDArray[np.int64], risk: Risk, scale: Fraction, rest: Fraction, noise: BitNoise
) -> Sealed:
    """The minimiser for a secret b of Laplace coordinates of ``scale``: costs w_i(√d/scale + c/(NΛ)).

    What is left to hide is 2τ and what rounding b does; noise for ``l1`` at ``rest`` does it.
    """
    fine = min(30, int(LARGEST_SCALE / scale).bit_length() - 1)
    if fine < 0:
        raise InvalidInputError(f"noise of scale {float(scale):.3g}: wider than {LARGEST_SCALE}")
    rounding = 2 * risk.root / ((1 << fine) * risk.total * risk.strength)
    widest = WIDEST_PULL * scale * risk.root
    hidden = rounding + risk.inexact(MAX_GRID, widest)
    grid = _grid(risk.root * hidden / rest)
    pull = floored_laplace(noise, scale * (1 << fine), examples.dimensions)
    rows, own = _weighted(examples, weights)
    solution = _minimise(rows, own, np.ldexp(pull.astype(np.float64), -fine), risk, widest)
    return _sealed(solution, grid, examples.span, risk.root * (rounding + risk.inexact(grid, widest)))


def _weighted(examples: SealedExamples, weights: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Rows times their labels, and weights as floats; people of weight 0 are left out."""
    rows, signs, levels = opened(examples)
    own = weights[levels]
    counted = own > 0
    return rows[counted] * signs[counted, None], own[counted] / WEIGHT


def floored_laplace(noise: BitNoise, scale: Fraction, size: int) -> NDArray[np.int64]:
    """⌊L⌋ for continuous Laplace L of ``scale``, exactly.

    ⌊|L|⌋ is geometric, and so is a discrete Laplace variable Z of the same scale if it is ≥ 0, and −1 − Z if it is
    < 0. A fair sign then makes G or −1 − G of the geometric G, which is ⌊L⌋ for L ≥ 0 or L < 0.
    """
    drawn = noise.laplace(scale, size)
    geometric = np.where(drawn >= 0, drawn, -1 - drawn)
    heads = (noise.uniform_words(size) >> np.uint64(63)).astype(np.bool_)
    return np.where(heads, geometric, -1 - geometric)


def _minimise(rows: Floats, weights: Floats, pull: Floats, risk: Risk, widest: Fraction) -> Floats:
    """Newton's method with halved steps, until the gradient is proved small enough.

    Far off, a step must lower J; near the end, where J no longer tells points apart, the gradient's norm.
    """
    total, strength, tolerance = float(risk.total), risk.regularisation, float(risk.tolerance(widest))
    point = np.zeros(rows.shape[1])

    def height(at: Floats) -> float:
        lost = float(weights @ risk.loss.value(rows @ at))
        return (lost + float(pull @ at)) / total + strength / 2 * float(at @ at)

    def gradient(at: Floats, margin: Floats) -> Floats:
        slope: Floats = rows.T @ (weights * risk.loss.slope(margin)) / total + strength * at + pull / total
        return slope

    for _ in range(MAX_NEWTON):
        margin = rows @ point
        slope = gradient(point, margin)
        size = float(np.linalg.norm(slope))
        if size + _rounding(rows, point, pull, risk) <= tolerance / 2:
            break
        bend = weights * risk.loss.bend(margin)
        curvature = (rows.T * bend) @ rows / total + strength * np.eye(rows.shape[1])
        direction = -np.linalg.solve(curvature, slope)
        here, gain = height(point), float(slope @ direction)
        step = 1.0
        while step > SMALLEST_STEP:
            tried = point + step * direction
            if height(tried) <= here + step / 4 * gain:
                break
            if size < 1e-4 and float(np.linalg.norm(gradient(tried, rows @ tried))) <= (1 - step / 4) * size:
                break
            step /= 2
        point = point + step * direction
    left = float(np.linalg.norm(gradient(point, rows @ point)))
    if left + _rounding(rows, point, pull, risk) > tolerance:
        raise InvalidInputError("classifier: the minimum could not be found exactly enough")
    return point


def _rounding(rows: Floats, point: Floats, pull: Floats, risk: Risk) -> float:
    """Four times a bound on the floating-point error of the gradient, in units of 2⁻⁵³.

    The sum over n rows of at most 1/N each: n. A margin is d products, off by (d + 2)‖f‖, and moves a slope by at most
    c times that; the slope's own rounding, 4. Λf and b/N: twice their size.
    """
    people, dimensions = rows.shape
    steep = max(float(risk.loss.curvature), 1.0) + risk.regularisation
    steps = people + 16 + (dimensions + 8) * (1 + float(np.linalg.norm(point))) * steep
    return float(4 * 2.0**-53 * (steps + 4 * float(np.linalg.norm(pull)) / float(risk.total)))


def _grid(scale: Fraction) -> int:
    """The finest grid on which noise of ``scale`` can be drawn."""
    return max(0, min(MAX_GRID, math.floor(LARGEST_SCALE / scale / 2).bit_length() - 1))


def _sealed(solution: Floats, grid: int, span: Span, l1: Fraction) -> Sealed:
    limit = float(1 << 61)
    exact = np.clip(np.rint(np.ldexp(solution, grid)), -limit, limit).astype(np.int64)
    return Sealed(exact, span, l1, grid=grid)
