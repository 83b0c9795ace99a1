"""All that a mechanism can publish on a tiny stream, with exact probabilities: its own code over every noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.protocols import StreamMechanism, accountant_for
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter, NoiseSource

Output = TypeVar("Output", bound=Hashable)
Floats = NDArray[np.float64]


def laplace_tail(scale: float, level: int | NDArray[Any]) -> Floats:
    """P(X ≥ level) of discrete Laplace noise."""
    q = math.exp(-1 / scale)
    up = q ** np.maximum(level, 0) / (1 + q)
    return np.where(np.asarray(level) > 0, up, 1 - q ** np.maximum(1 - np.asarray(level), 0) / (1 + q))


def laplace_pmf(scale: float, x: int | NDArray[Any]) -> Floats:
    q = math.exp(-1 / scale)
    return np.asarray((1 - q) / (1 + q) * q ** np.abs(x))


@dataclass
class Every:
    """A source that gives every number from −reach to reach in turn; the two outermost stand for all beyond.

    After each run ``advance`` goes to the next path of the tree of draws, until it says that there is none.
    """

    reach: int
    path: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    probability: float = 1.0
    at: int = 0

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        inner = np.arange(1 - self.reach, self.reach)
        tail = float(laplace_tail(float(scale), self.reach))
        chances = [tail, *laplace_pmf(float(scale), inner).tolist(), tail]
        drawn = [self._branch(chances) - self.reach for _ in range(int(np.prod(size)))]
        return np.array(drawn, dtype=np.int64).reshape(size)

    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        raise NotImplementedError("enumeration of Gaussian noise is not needed")

    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        weights = np.exp(-float(rate) * gaps)
        return self._branch((weights / weights.sum()).tolist())

    def _branch(self, chances: list[float]) -> int:
        if self.at == len(self.path):
            self.path.append(0)
            self.widths.append(len(chances))
        chosen = self.path[self.at]
        self.at += 1
        self.probability *= chances[chosen]
        return chosen

    def advance(self) -> bool:
        self.at, self.probability = 0, 1.0
        while self.path:
            self.path[-1] += 1
            if self.path[-1] < self.widths[-1]:
                return True
            self.path.pop()
            self.widths.pop()
        return False


def law(run: Callable[[NoiseSource], Output], reach: int) -> dict[Output, float]:
    """The probability of everything that ``run`` can give."""
    source, chances = Every(reach), dict[Output, float]()
    while True:
        output = run(source)
        chances[output] = chances.get(output, 0.0) + source.probability
        if not source.advance():
            return chances


def published(
    mechanism: StreamMechanism[Any], guarantee: Guarantee, stream: NDArray[np.int64], noise: NoiseSource
) -> tuple[tuple[tuple[Any, ...], ...], list[Charge]]:
    """What a stream publishes, fresh or not, step by step, and what it was charged."""
    accountant, state = (
        accountant_for(mechanism, guarantee, stream.shape[1]),
        mechanism.start(guarantee, stream.shape[1]),
    )
    seen: list[tuple[Any, ...]] = []
    charges: list[Charge] = []
    for t, counts in enumerate(stream):
        meter = Meter(accountant, noise, t)
        state, values = mechanism.step(state, seal(counts, t), meter)
        seen.append((values.fresh, *values.numbers.tolist()))
        charges += meter.charges
    return tuple(seen), charges


def worst_loss(laws: list[dict[Output, float]], within: Callable[[Output], bool]) -> float:
    """The largest |ln(P/Q)| over the outputs that ``within`` keeps (outermost draws stand for many, and are left out).

    An output that only one side can give makes it infinite.
    """
    one, other = laws
    kept = [output for output in one.keys() | other.keys() if within(output)]
    ratios = [(one.get(output, 0.0), other.get(output, 0.0)) for output in kept]
    return max(abs(math.log(p / q)) if p and q else math.inf for p, q in ratios)


@dataclass
class Recorder:
    """Notes what is asked for and draws nothing but zeros."""

    scales: list[Fraction] = field(default_factory=list)
    sigmas: list[Fraction] = field(default_factory=list)
    choices: list[tuple[NDArray[np.int64], Fraction]] = field(default_factory=list)

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        self.scales.append(scale)
        return np.zeros(size, dtype=np.int64)

    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        self.sigmas.append(sigma)
        return np.zeros(size, dtype=np.int64)

    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        self.choices.append((gaps, rate))
        return 0


def choice_law(gaps: NDArray[np.int64], rate: Fraction) -> Floats:
    """The probabilities of an exponential choice."""
    weights = np.exp(-float(rate) * gaps)
    return np.asarray(weights / weights.sum())
