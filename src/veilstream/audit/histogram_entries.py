"""Claims of the one-time histograms of the catalogue and of whole series published at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.attack import Claim, stream_claim
from veilstream.audit.pairs import Pair, cliff, empty, every_bin, ties
from veilstream.audit.pool import PooledNoise
from veilstream.audit.runs import Seed
from veilstream.mechanisms.histograms import (
    DAWA,
    EFPA,
    HISTOGRAMS,
    PSD,
    Auto,
    FilterPriority,
    Haar,
    Marginals,
    Matrix,
    Privelet,
    StructureFirst,
)
from veilstream.mechanisms.protocols import HistogramMechanism, is_batchable
from veilstream.mechanisms.session import Session
from veilstream.mechanisms.streams import Sample
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.series.fourier import FourierSeries
from veilstream.testing.batch import BatchMeter
from veilstream.trusted.counts import seal
from veilstream.trusted.records import seal_records

EVENT: Final = Guarantee(1, w=1)
APPROXIMATE: Final = Guarantee(1, w=1, delta="1/1000", pure_share="1/100")
"""Nearly all of the budget for Gaussian noise, and a delta large enough for the tail in which it fails to be seen."""
BINS: Final = 4


def _pairs() -> list[Pair]:
    grid = Pair("a person in the corner of a grid", *_corner(), shape=(2, 2))
    return [
        ties(BINS),
        ties(BINS, position=BINS // 2),
        cliff(BINS),
        empty(1, steps=1, bins=BINS),
        every_bin(1, 1, BINS),
        grid,
    ]


def _corner() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    person = np.zeros((1, BINS), dtype=np.int64)
    person[0, -1] = 1
    return np.array([[9, 0, 0, 4]], dtype=np.int64), person


def claims_of(histogram: HistogramMechanism, guarantee: Guarantee = EVENT, said: str = "") -> list[Claim]:
    """One release of a histogram with all of the budget, on every pair of one step."""
    # Those that cut the bins otherwise in every run make one at a time.
    quick, deep = (10_000, 1_000_000) if is_batchable(Sample(histogram)) else (300, 20_000)
    return [
        replace(stream_claim(Sample(histogram), guarantee, pair, quick=quick, deep=deep), name=f"{pair.name}{said}")
        for pair in _pairs()
    ]


def gaussian() -> list[Claim]:
    return claims_of(HISTOGRAMS["gaussian"](), APPROXIMATE)


def privelet() -> list[Claim]:
    """With wavelets on every axis: by default so few bins would get plain noise."""
    return claims_of(Privelet(direct=()))


def structure_first() -> list[Claim]:
    """In two buckets: as many as there are bins, the default for so few, would leave nothing to choose."""
    return claims_of(StructureFirst(buckets=2))


def psd() -> list[Claim]:
    """Boxes cut in the middle, and at private medians."""
    return [*claims_of(PSD()), *claims_of(PSD(kind="kd"), said=", cut at medians")]


def efpa() -> list[Claim]:
    """Fourier coordinates alone, and with plain noise as one more candidate; the attacker looks at coordinates too."""

    def looked_at(claim: Claim) -> Claim:
        def draw(present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
            return _with_spectra(claim.draw(present, trials, seed))

        return replace(claim, draw=draw)

    claims = [*claims_of(EFPA()), *claims_of(EFPA(fallback=True), said=", with fallback")]
    return [looked_at(claim) for claim in claims]


def _with_spectra(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Published bins, their Fourier coordinates, of which those left out are 0, and which of them are not."""
    spectra = np.fft.rfft(rows, axis=1, norm="ortho")
    coordinates = np.hstack([spectra.real, spectra.imag]).round(6)
    return np.hstack([rows, coordinates, coordinates != 0])


def matrix() -> list[Claim]:
    """For prefixes, which get several levels of a tree even over four bins; and with Gaussian noise."""
    gaussian_noise = claims_of(Matrix("prefixes", "gaussian"), APPROXIMATE, said=", gaussian")
    return [*claims_of(Matrix("prefixes")), *gaussian_noise]


def marginals() -> list[Claim]:
    return [
        *claims_of(Marginals(order=1)),
        *claims_of(Marginals(order=1, noise="gaussian"), APPROXIMATE, said=", gaussian"),
    ]


def dawa() -> list[Claim]:
    """The partition takes half of the budget and lucky blocks are not refused, so that it changes often."""
    return [*claims_of(DAWA()), *claims_of(DAWA(structure=Fraction(1, 2), patience=0.0), said=", without a price")]


def haar() -> list[Claim]:
    """Also with blocks beside the bins, and along a curve."""
    other = Haar(blocks=Fraction(1, 3), order="z")
    return [
        *claims_of(Haar()),
        *claims_of(other, said=", with blocks"),
        *claims_of(Haar(side=2), said=", on boxes"),
    ]


def auto() -> list[Claim]:
    return [*claims_of(Auto()), *claims_of(Auto(use="bins"), said=", for bins")]


def filter_priority() -> list[Claim]:
    """Also the list of cells of a domain too large to hold: that a cell is listed at all must not tell."""

    def draw(present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        noise, domain, fp = PooledNoise(seed), (1 << 10, 1 << 10), FilterPriority(levels=1)
        rows = np.array([[700, 3]] * (fp.level(domain, 1.0) - int(not present)), dtype=np.int64)
        records, listed = seal_records(rows, domain, 0), np.zeros((trials, 2))
        for trial in range(trials):
            boxes = fp.estimate_records(records, Fraction(1), Session(Accountant(EVENT, 1), noise).at(0))
            at = np.flatnonzero((boxes.low == [700, 3]).all(axis=1))
            listed[trial] = [at.size, boxes.values[at[0]] if at.size else 0]
        return listed

    sparse = Claim("one cell of a sparse domain of 2²⁰", Fraction(1), draw, quick=200, deep=40_000)
    return [*claims_of(FilterPriority()), sparse]


def fourier_series() -> list[Claim]:
    """A person who is there at every step of a series that is published at its end."""

    def draw(present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        noise, steps = PooledNoise(seed), 5
        series = [seal(np.array([20 + t + int(present)]), t) for t in range(steps)]
        many = partial(BatchMeter, batch=(trials,))
        meter = Session(Accountant(Guarantee(1, w=None), 1), noise, many).at(steps - 1)
        values = FourierSeries(coefficients=2).estimate(series, Fraction(1), meter)
        return np.asarray(values.numbers[..., 0], dtype=np.float64)

    return [Claim("a person at every step", Fraction(1), draw, quick=20_000)]


HISTOGRAM_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {
    "geometric": partial(claims_of, HISTOGRAMS["geometric"]()),
    "gaussian": gaussian,
    "efpa": efpa,
    "p-hp": partial(claims_of, HISTOGRAMS["p-hp"]()),
    "privelet": privelet,
    "noise-first": partial(claims_of, HISTOGRAMS["noise-first"]()),
    "structure-first": structure_first,
    "barak": partial(claims_of, HISTOGRAMS["barak"]()),
    "psd": psd,
    "fp": filter_priority,
    "dpcube": partial(claims_of, HISTOGRAMS["dpcube"]()),
    "hb": partial(claims_of, HISTOGRAMS["hb"]()),
    "matrix": matrix,
    "marginals": marginals,
    "dawa": dawa,
    "ag": partial(claims_of, HISTOGRAMS["ag"]()),
    "haar": haar,
    "auto": auto,
}
"""Name in ``HISTOGRAMS`` -> its claims."""
SERIES_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {"FourierSeries": fourier_series}
"""Class in ``veilstream.series.fourier`` -> its claims."""
