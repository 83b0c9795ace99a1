"""Whether it pays to choose c anew: Uniform by its formula on real streams, with c from the block or window before."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.random import Generator, default_rng  # noqa: TID251 (measures, releases nothing)
from numpy.typing import NDArray

from benchmarks.presence_streams import Visits, distances, present
from benchmarks.report import Table
from veilstream.privacy.presence_choice import Promise, presence_curve

RUNS: Final = 40
BUDGET: Final = 0.1
MOST: Final = 12
SHARING: Final = {40: 3, 120: 1}
"""How many blocks of this length share one c."""
PRESENCES: Final = range(1, 41)
STREAMS_OF_DAYS: Final = 3
"""The others have three or four blocks in all."""


def renewed() -> list[Table]:
    """Blocks with the cost of choosing, and windows where choosing is free."""
    streams = present()[:STREAMS_OF_DAYS]
    return [_blocks(streams), _windows(streams)]


def _blocks(streams: list[Visits]) -> Table:
    rows: list[list[str]] = []
    for stream in streams:
        for block, sharing in SHARING.items():
            if block not in stream.windows:
                continue
            found = _errors(stream, block, block * sharing, block=True)
            once, anew = _chosen(stream, block, sharing, found)
            mean = found.sum(axis=1) / stream.steps
            rows.append([stream.name, f"{sharing} of {block}", f"{once:.1f}", f"{anew:.1f}", f"{once / anew:.2f}"])
            rows[-1] += [f"{mean.min():.1f} (c = {PRESENCES[int(mean.argmin())]})"]
            rows[-1] += [f"{found.min(axis=0).sum() / stream.steps:.1f}"]
    return Table(
        "Renewing c in blocks",
        f"Uniform at ε = 1 per block and ε′ = {BUDGET} for each choice: the same promise on both sides. c is chosen "
        "from a histogram of visits per person and block: of the first epoch, once, or of each epoch for the next one; "
        f"{MOST} bins, {RUNS} choices. The first epoch has the c that its own histogram asks for. Then, for free: the "
        "best c in hindsight, kept, and in each epoch its own best c.",
        ["stream", "epoch, blocks", "chosen once", "renewed", "times", "one c in hindsight", "the best of each"],
        rows,
    )


def _windows(streams: list[Visits]) -> Table:
    rows: list[list[str]] = []
    for stream in streams:
        for w in stream.windows:
            found = _errors(stream, w, w, block=False)
            picks = found.argmin(axis=0)
            first = found[picks[0]].sum() / stream.steps
            lagged = sum(found[picks[max(0, n - 1)], n] for n in range(len(picks))) / stream.steps
            fixed, free = found.sum(axis=1).min() / stream.steps, found.min(axis=0).sum() / stream.steps
            rows.append([stream.name, str(w), *(f"{value:.1f}" for value in (first, lagged, fixed, free))])
    return Table(
        "Renewing c in sliding windows, were it free",
        "Uniform at ε = 1, c by exact numbers and at no cost, not even that of a c that rises: kept from the first "
        "stretch of w steps; from the stretch before; one c in hindsight; and in each stretch its own best c.",
        ["stream", "w", "from the first stretch", "from the one before", "one c in hindsight", "the best of each"],
        rows,
    )


def _errors(stream: Visits, length: int, epoch: int, *, block: bool) -> NDArray[np.float64]:
    """[c, n]: the sum of the errors in the steps of the n-th epoch."""
    stretch = np.arange(stream.steps) // epoch
    factor = 1 if block else 2
    return np.array(
        [
            np.bincount(stretch, weights=distances(stream.left_out(c, length, block=block), factor * c))
            for c in PRESENCES
        ]
    )


def _chosen(stream: Visits, block: int, sharing: int, errors: NDArray[np.float64]) -> tuple[float, float]:
    """The mean error where c is chosen in the first epoch, and where it is renewed in each."""
    rng, once, anew = default_rng(5), 0.0, 0.0
    epochs = errors.shape[1]
    histograms = [_visits(stream, block, range(n * sharing, (n + 1) * sharing)) for n in range(epochs)]
    for _ in range(RUNS):
        picks = [_pick(histogram, block, sharing, rng) for histogram in histograms]
        once += errors[picks[0]].sum()
        anew += sum(errors[picks[max(0, n - 1)], n] for n in range(epochs))
    return once / RUNS / stream.steps, anew / RUNS / stream.steps


def _visits(stream: Visits, block: int, numbers: range) -> NDArray[np.int64]:
    """How many people came 1, 2, … times in these blocks."""
    histogram = np.zeros(MOST, dtype=np.int64)
    for number in numbers:
        times = np.unique(stream.person[stream.step // block == number], return_counts=True)[1]
        histogram += np.bincount(np.minimum(times, MOST), minlength=MOST + 1)[1:]
    return histogram


def _pick(histogram: NDArray[np.int64], block: int, sharing: int, rng: Generator) -> int:
    """The place of the chosen c in ``PRESENCES``."""
    noisy = (histogram + rng.laplace(scale=1 / BUDGET, size=len(histogram))) / sharing
    curve = presence_curve(noisy.tolist(), 1, steps=block, promise=Promise.BLOCK)
    return min(curve.best or block, PRESENCES[-1]) - 1
