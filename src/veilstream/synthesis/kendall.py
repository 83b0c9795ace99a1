"""Dependence by Kendall's rank correlation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.synthesis.bivariate import latent_correlation
from veilstream.synthesis.margins import Margins
from veilstream.trusted.meter import MAX_SCALE, Meter
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.statistics.kendall import kendall_sums, pairs_of

LARGEST_SAMPLE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Kendall:
    """Correlations from noisy τ-a of every pair of attributes: ρ = sin(πτ/2), corrected for ties.

    τ-a of n̂ rows is S/(n̂(n̂−1)/2), where S counts concordant minus discordant pairs of rows. All S together move by
    at most ⌊m²/2⌋(n̂−1) when a person comes or goes (proved in ``trusted.statistics.kendall``), so that noise of
    about m²/(n̂ε) in each τ pays for all of them; coefficient by coefficient, as in the thesis, it
    would be twice as much for large m.

    ``sample_size`` is the public n̂. By default it is the number of rows that the margins, already published, add up to,
    at most 2²⁰: larger samples mean less noise. If the table has fewer rows than n̂, missing pairs count 0, and
    the coefficient is divided by the published share of pairs that are there.

    >>> Kendall(sample_size=1)
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: sample_size 1 of Kendall: a whole number of at least 2, or None; nothing was
    released

    Li, Xiong, Jiang: Differentially private synthesization of multi-dimensional data using copula functions, EDBT 2014;
    thesis algorithms 4 and 5. Corrected: the sample size in the sensitivity is public (the thesis uses the private n);
    the sample is chosen by a keyed hash; ties lower τ-a, and the published margins tell by how much.
    """

    sample_size: int | None = None

    def __post_init__(self) -> None:
        size = self.sample_size
        if size is not None and (type(size) is not int or not 2 <= size <= 1 << 30):
            raise InvalidInputError(
                name="sample_size", of="Kendall", value=size, limit="a whole number of at least 2, or None"
            )

    def correlations(self, rows: SealedRows, margins: Margins, epsilon: Fraction, meter: Meter) -> NDArray[np.float64]:
        """A noisy correlation for every pair of attributes, between −1 and 1."""
        size = self._public_size(margins.total, len(rows.shape), rows.l1, epsilon)
        sums = meter.laplace(kendall_sums(rows, size), epsilon, "kendall")
        present = min(max(margins.total, 2.0), float(size))
        pairs = present * (present - 1) / 2
        noisy = np.asarray(sums.numbers, dtype=np.float64) / pairs
        taus = np.clip(_beyond_noise(noisy, float(np.max(sums.std)) / pairs), -1.0, 1.0)
        p = margins.probabilities()
        estimates = [latent_correlation(taus[..., at], p[j], p[k]) for at, (j, k) in enumerate(pairs_of(len(p)))]
        return np.stack(estimates, axis=-1)

    def _public_size(self, total: float, attributes: int, max_contribution: Fraction, epsilon: Fraction) -> int:
        if self.sample_size is not None:
            return self.sample_size
        # Noise wider than the Meter draws would be refused; a smaller sample has less.
        widest = math.floor(MAX_SCALE * epsilon / (max_contribution * (attributes * attributes // 2)))
        return max(2, min(round(total), LARGEST_SAMPLE, widest))


def _beyond_noise(taus: NDArray[np.float64], std: float) -> NDArray[np.float64]:
    """Coefficients drawn to 0 as far as all of them together are no larger than noise makes them (James and Stein).

    Without it a table whose correlations are below the noise would be drawn with noise for dependence, which is worse
    than none.
    """
    squares = np.square(taus).sum(axis=-1, keepdims=True)
    expected = max(int(taus.shape[-1]) - 2, 1) * std**2
    kept = np.maximum(1 - expected / np.maximum(squares, 1e-300), 0.0)
    return np.asarray(taus * kept, dtype=np.float64)
