"""Marginals of a table from its low-order Fourier coefficients, consistent with one another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.transforms import power_of_two, unpad, walsh
from veilstream.values.values import NoiseLaw, Values


@dataclass(frozen=True, slots=True)
class Barak:
    """Publishes the Walsh-Hadamard coefficients on which the marginals of some attributes depend, and no others.

    The marginal of attributes A is a function of the coefficients α whose support lies within A. With K coefficients
    kept each gets Lap(l1·K/ε), because a count enters every one with weight ±1. The table returned has exactly these
    coefficients and zeros elsewhere, so all of its kept marginals agree with one another and are unbiased; cells by
    themselves are only as good as the low-order coefficients describe them.

    ``order``: all marginals of that many attributes (default: 2, or 1 for a table of two attributes). ``marginals``
    names the wanted ones instead, e.g. ``((0, 1), (2,))``. Attributes with more than two values are padded to a power
    of two, as the paper encodes them in bits, but a support counts attributes, not bits. A one-dimensional histogram
    has the binary digits of its bin numbers as attributes.

    >>> import numpy as np
    >>> from fractions import Fraction
    >>> Barak(order=1).coefficients((2, 2, 2)).tolist(), Barak(marginals=((0, 2),)).coefficients((2, 2, 2)).tolist()
    ([0, 1, 2, 4], [0, 1, 4, 5])

    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.histograms import Geometric
    >>> from veilstream.mechanisms.streams import Sample
    >>> table, g = np.full((1, 1024), 50), Guarantee("1/10", w=1)
    >>> def error(histogram):
    ...     runs = [simulate(Sample(histogram), g, table, seed=s)[0] for s in range(40)]
    ...     return np.std([run.reshape(2, -1).sum(axis=1) for run in runs])
    >>> bool(error(Barak(order=1)) < error(Geometric()) / 2)
    True

    Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar: Privacy, accuracy, and consistency too: a holistic solution to
    contingency table release, PODS 2007, section 4.1. Left out: the linear programme for non-negative whole
    tables, which is exponential in the attributes; ``postprocess`` has projections instead. Changed: neighbours differ
    by one person added or removed.
    """

    order: int | None = None
    marginals: tuple[tuple[int, ...], ...] | None = None
    oblivious: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.order is not None and (type(self.order) is not int or self.order < 0):
            raise InvalidInputError(name="order", value=self.order, limit="a whole number from 0 upwards")
        if self.order is not None and self.marginals is not None:
            raise InvalidInputError(f"order {self.order} and marginals {self.marginals}: give one")
        if self.marginals is not None and not self.marginals:
            raise InvalidInputError("marginals (): at least one is needed")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        chosen = self.coefficients(x.shape)
        noisy = meter.laplace(x.walsh(chosen), epsilon, "marginals")
        padded = tuple(power_of_two(size) for size in x.shape)
        cells = math.prod(padded)
        batch = noisy.numbers.shape[:-1]
        spectrum = np.zeros((*batch, cells))
        spectrum[..., chosen] = noisy.numbers
        values = unpad((walsh(spectrum) / cells).reshape(*batch, *padded), x.shape)
        return Values(values, noisy.std * (math.sqrt(chosen.size) / cells), NoiseLaw.MIXED)

    def coefficients(self, shape: Sequence[int]) -> NDArray[np.int64]:
        """Flat positions of the coefficients kept, in the table padded to powers of two: public."""
        sizes = [power_of_two(size) for size in shape]
        if len(sizes) == 1:
            sizes = [2] * (sizes[0].bit_length() - 1)
        attributes = len(sizes)
        chosen: set[tuple[int, ...]] = {()}
        for wanted in self._wanted(attributes):
            for count in range(len(wanted) + 1):
                chosen.update(itertools.combinations(wanted, count))
        return np.sort(np.concatenate([_positions(support, sizes) for support in chosen]))

    def _wanted(self, attributes: int) -> Sequence[tuple[int, ...]]:
        if self.marginals is None:
            order = self.order if self.order is not None else 1 if attributes == 2 else 2
            return list(itertools.combinations(range(attributes), min(order, attributes)))
        for marginal in self.marginals:
            if sorted(set(marginal)) != sorted(marginal) or not all(0 <= a < attributes for a in marginal):
                raise InvalidInputError(
                    name="marginal", value=marginal, limit=f"distinct attributes from 0 to {attributes - 1} are needed"
                )
        return [tuple(sorted(marginal)) for marginal in self.marginals]


def _positions(support: tuple[int, ...], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Coefficients that are non-constant along every attribute of ``support`` and constant along the others."""
    positions = np.zeros(1, dtype=np.int64)
    for attribute in support:
        stride = math.prod(sizes[attribute + 1 :])
        positions = (positions[:, None] + stride * np.arange(1, sizes[attribute])[None, :]).reshape(-1)
    return positions
