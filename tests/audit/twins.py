"""veilstream's own versions of the known-bad mechanisms, run through the real Meter on the same pairs of neighbours.

Each gives trials × features that mean the same as those of its bad twin. Releases of the mechanisms by distance are a
fixed public histogram here as there, so that their decisions alone speak and could use all of ε.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.fft import rfft

from veilstream.audit.attack import Claim
from veilstream.audit.forks import forked_outputs
from veilstream.audit.pool import PooledNoise
from veilstream.audit.presence_entries import counted_steps
from veilstream.audit.runs import Seed
from veilstream.data.bounding.keyed import Key
from veilstream.mechanisms.histograms import EFPA
from veilstream.mechanisms.protocols import StreamMechanism, accountant_for
from veilstream.mechanisms.streams import DSAT, DSFT, BudgetAbsorption, BudgetDistribution, Fast, Uniform
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.series.fourier import FourierSeries
from veilstream.synthesis.rows import content_hashes
from veilstream.testing.batch import BatchMeter
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows, ordered_rows
from veilstream.trusted.statistics.blocks import block_correlations
from veilstream.trusted.statistics.kendall import kendall_sums
from veilstream.values.values import Values

from .known_bad import (
    KnownBad,
    dft_printed,
    dissimilarity_share,
    dsat_clamped,
    dsat_persistent,
    dsft_thesis,
    efpa_phases,
    fast_per_bin,
    floating_point,
    kendall_private_n,
    mle_by_index,
    presence_counted,
)
from .known_bad.example import Floats, laplace_ratio

Run: TypeAlias = Callable[[bool, int, PooledNoise], Floats]
NEARLY_ALL: Final = Fraction(1023, 1024)
"""The share of decisions: releases cost nothing here."""


@dataclass(frozen=True, slots=True)
class Twin:
    """``run(present, trials, noise)`` gives trials × features; ``trials`` a side take a second or two."""

    example: KnownBad
    trials: int
    deep: int
    run: Run = field(repr=False)

    def claim(self) -> Claim:
        """What veilstream promises: the epsilon that the bad twin was said to keep."""

        def draw(present: bool, trials: int, seed: Seed) -> Floats:
            return self.run(present, trials, PooledNoise((*np.atleast_1d(seed).tolist(), int(present))))

        return Claim(f"twin of {self.example.name}", Fraction(self.example.claimed), draw)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Publishes the same public histogram whatever the data: it costs nothing."""

    oblivious: ClassVar[bool] = True

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        public = dsft_thesis.PUBLIC
        return Values(
            np.broadcast_to(public, (*(meter.batch if isinstance(meter, BatchMeter) else ()), public.size)).copy(), 0.0
        )


def fresh_steps(
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    stream: NDArray[np.int64],
    trials: int,
    noise: PooledNoise,
) -> NDArray[np.bool_]:
    """Which steps were released anew, trials × steps."""

    def feed(t: int, published: NDArray[Any] | None) -> Sealed:
        return seal(stream[t], t)

    steps, bins = stream.shape
    return forked_outputs(mechanism, guarantee, feed, steps, bins, trials, noise)[1]


def dsft(present: bool, trials: int, noise: PooledNoise) -> Floats:
    stream = dsft_thesis.stream(present)
    mechanism = DSFT(
        threshold=dsft_thesis.THRESHOLD,
        releases=dsft_thesis.RELEASES,
        histogram=Fixed(),
        horizon=len(stream) + 1,
        decision_share=NEARLY_ALL,
    )
    fresh = fresh_steps(mechanism, Guarantee(2, w=None), stream, trials, noise)
    early, both = fresh[:, 1 : dsft_thesis.LONG + 1].any(axis=1), fresh[:, -dsft_thesis.SHORT :].all(axis=1)
    return np.where(early, 0.0, 1.0 + both)[:, None]


def dsat(present: bool, trials: int, noise: PooledNoise) -> Floats:
    """The step of the second release; distances lie where the first threshold makes a release as rare as there."""
    mechanism = DSAT(
        releases=dsat_clamped.RELEASES,
        histogram=Fixed(),
        horizon=dsat_clamped.HORIZON,
        decision_share=NEARLY_ALL,
        spacing=0.0,
    )
    guarantee = Guarantee(2, w=None)
    plan = mechanism.rule().plan(guarantee, dsft_thesis.PUBLIC.size)
    above = round(mechanism.margin * plan.noise_std(1.0)) - dsat_clamped.UNDER
    far = dsft_thesis.PUBLIC + np.array([above + present, 0])
    stream = np.vstack([dsft_thesis.PUBLIC, *[far] * (dsat_clamped.LAST - 1)])
    fresh = fresh_steps(mechanism, guarantee, stream, trials, noise)[:, 1:]
    first: Floats = np.where(fresh.any(axis=1), fresh.argmax(axis=1), fresh.shape[1]).astype(np.float64)
    return first[:, None]


def dsat_windows(present: bool, trials: int, noise: PooledNoise, history: int = 8) -> Floats:
    """Releases in a (short) history where none came in the window after it, else −1."""
    window = dsat_persistent.WINDOW
    mechanism = DSFT(threshold=10.0, releases=dsat_persistent.RELEASES, histogram=Fixed(), decision_share=NEARLY_ALL)
    at = dsft_thesis.PUBLIC + np.array([10, 0])
    pause = [dsft_thesis.PUBLIC] * (window - 1)
    stream = np.vstack(
        [dsft_thesis.PUBLIC, *pause, *[at] * history, *pause, *[at + np.array([int(present), 0])] * window]
    )
    fresh = fresh_steps(mechanism, Guarantee(2, w=window), stream, trials, noise)
    return np.where(fresh[:, -window:].any(axis=1), -1.0, fresh.sum(axis=1))[:, None]


def fourier(present: bool, trials: int, noise: PooledNoise) -> Floats:
    snapshots = [seal(np.array([int(x)]), t) for t, x in enumerate(dft_printed.stream(present))]
    meter = _meter(Guarantee(1, w=None), noise, t=dft_printed.STEPS - 1, batch=(trials,))
    published = FourierSeries(dft_printed.KEPT).estimate(snapshots, Fraction(1), meter).numbers
    means: Floats = published.mean(axis=1)
    assert means.shape == (trials, 1)
    return means


def dissimilarity(
    mechanism: StreamMechanism[Any], share: float, present: bool, trials: int, noise: PooledNoise
) -> Floats:
    """The exact log-likelihood ratio of a publication's noise, and whether there was one, and how far the first lay."""
    count = int(dissimilarity_share.COUNT)
    seen = np.empty((trials, 3))
    for trial in range(trials):
        values, fresh = _run(mechanism, Guarantee(1, w=1), np.array([[count], [count + present]]), noise)
        told = float(laplace_ratio(values[1], count, 1 / share)[0]) if fresh[1] else 0.0
        seen[trial] = told, fresh[1], values[0, 0] - count
    return seen


def absorption(present: bool, trials: int, noise: PooledNoise) -> Floats:
    return dissimilarity(BudgetAbsorption(), 0.5, present, trials, noise)


def distribution(present: bool, trials: int, noise: PooledNoise) -> Floats:
    return dissimilarity(BudgetDistribution(), 0.25, present, trials, noise)


def fast(present: bool, trials: int, noise: PooledNoise) -> Floats:
    """What the estimates at looks of the bins where the person may be tell, and how many looks there were."""
    samples, steps = fast_per_bin.SAMPLES, fast_per_bin.STEPS
    mechanism = Fast(samples=samples, horizon=steps, process_variance=fast_per_bin.PROCESS_VARIANCE)
    without = fast_per_bin.stream(False)
    bins = np.where(np.arange(steps) < samples, 0, 1)
    seen = np.empty((trials, 2))
    for trial in range(trials):
        values, fresh = _run(mechanism, Guarantee(2, w=None), fast_per_bin.stream(present), noise)
        told = laplace_ratio(values - without, 0.0, samples / fast_per_bin.EPSILON)[np.arange(steps), bins]
        seen[trial] = round(float(told[fresh].sum()), 9), fresh.sum()
    return seen


def kendall(present: bool, trials: int, noise: PooledNoise) -> Floats:
    """Noisy τ of at most three rows, a public number."""
    codes = kendall_private_n.ROWS if present else kendall_private_n.ROWS[:-1]
    sums = kendall_sums(_sealed_rows(codes + 1, (4, 4)), sample_size=3)
    return np.asarray(_meter(Guarantee(1, w=1), noise, batch=(trials,)).laplace(sums, Fraction(1), "tau").numbers / 3)


def block_mle(present: bool, trials: int, noise: PooledNoise) -> Floats:
    scores = [mle_by_index.SCORES] * 2
    sums = block_correlations(_sealed_rows(mle_by_index.rows(present), (4, 4)), scores, mle_by_index.BLOCKS)
    noisy = _meter(Guarantee(1, w=1), noise, batch=(trials,)).laplace(sums, Fraction(1), "blocks")
    return np.asarray(noisy.numbers, dtype=np.float64)


def efpa(present: bool, trials: int, noise: PooledNoise) -> Floats:
    counts = efpa_phases.histogram(present)
    seen = np.zeros((trials, 1))
    for trial in range(trials):
        published = EFPA().estimate(seal(counts, 0), Fraction(1), _meter(Guarantee(1, w=1), noise)).numbers
        first = rfft(published)[1]
        # With one coordinate kept there is no first coefficient but rounding errors.
        seen[trial] = first.imag / first.real if abs(first) > 1e-6 else 0.0
    return seen


def discrete_laplace(present: bool, trials: int, noise: PooledNoise) -> Floats:
    x = seal(np.array([int(present)]), 0)
    published = _meter(Guarantee(1, w=1), noise, batch=(trials,)).laplace(x, Fraction(1), "count").numbers
    scaled = np.ldexp(published[:, 0].astype(np.float64), 53)
    return np.column_stack([published[:, 0], scaled == np.rint(scaled)])


def _meter(guarantee: Guarantee, noise: PooledNoise, t: int = 0, batch: tuple[int, ...] = ()) -> Meter:
    accountant = Accountant(guarantee, 1)
    return BatchMeter(accountant, noise, t, batch) if batch else Meter(accountant, noise, t)


def _run(
    mechanism: StreamMechanism[Any], guarantee: Guarantee, stream: NDArray[np.int64], noise: PooledNoise
) -> tuple[Floats, NDArray[np.bool_]]:
    steps, bins = stream.shape
    accountant, state = accountant_for(mechanism, guarantee, bins), mechanism.start(guarantee, bins)
    values, fresh = np.empty((steps, bins)), np.empty(steps, dtype=np.bool_)
    for t in range(steps):
        state, released = mechanism.step(state, seal(stream[t], t), Meter(accountant, noise, t))
        values[t], fresh[t] = released.numbers, released.fresh
    return values, fresh


def _sealed_rows(codes: NDArray[np.int64], shape: tuple[int, ...]) -> SealedRows:
    columns = list(codes.T.astype(np.int64))
    return ordered_rows(columns, content_hashes(columns, Key(b"sixteen bytes...")), shape, t=0)


def presence(present: bool, trials: int, noise: PooledNoise) -> Floats:
    """Uniform on what the presence history lets count; w = 3, for a window of 2 gains nothing by presence."""
    guarantee = Guarantee(1, w=3, presence=presence_counted.PRESENCE)
    left, right = (
        presence_counted.OTHERS + counted_steps(guarantee, presence_counted.presences(whole)) for whole in (True, False)
    )
    stream = (left if present else right).astype(np.int64)[:, None]
    accountant, mechanism = Accountant(guarantee, bins=1), Uniform()
    state, told, scale = mechanism.start(guarantee, 1), np.zeros(trials), float(2 * presence_counted.PRESENCE)
    for t in range(presence_counted.STEPS):
        meter = BatchMeter(accountant, noise, t, (trials,))
        state, values = mechanism.step(state, seal(stream[t], t), meter)
        noisy = values.numbers[..., 0].astype(np.float64)
        told += (np.abs(noisy - right[t]) - np.abs(noisy - left[t])) / scale
    return np.round(told, 9)[:, None]


TWINS: Final = (
    Twin(dsft_thesis.DSFT_THESIS, 50_000, 2_000_000, dsft),
    Twin(dsat_clamped.DSAT_CLAMPED, 20_000, 1_000_000, dsat),
    Twin(dsat_persistent.DSAT_PERSISTENT, 10_000, 200_000, dsat_windows),
    Twin(dft_printed.DFT_PRINTED, 20_000, 100_000, fourier),
    Twin(dissimilarity_share.BUDGET_DISTRIBUTION, 400, 10_000, distribution),
    Twin(dissimilarity_share.BUDGET_ABSORPTION, 400, 10_000, absorption),
    Twin(fast_per_bin.FAST_PER_BIN, 150, 2_000, fast),
    Twin(kendall_private_n.KENDALL_PRIVATE_N, 200_000, 5_000_000, kendall),
    Twin(mle_by_index.MLE_BY_INDEX, 200_000, 5_000_000, block_mle),
    Twin(efpa_phases.EFPA_PHASES, 200, 5_000, efpa),
    Twin(floating_point.FLOATING_POINT, 200_000, 5_000_000, discrete_laplace),
    Twin(presence_counted.PRESENCE_COUNTED, 100_000, 2_000_000, presence),
)
