"""Stretches of alike bins, found by repeated private bisection."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.privacy.rationals import round_down
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.statistics import bisection_scores, stretches
from veilstream.values.values import NoiseLaw, Values

CUTS = 256
DEEPEST = 10


@dataclass(frozen=True, slots=True)
class PHP:
    """P-HP: cuts the bins into clusters by private bisection and publishes every cluster's mean with noise.

    From one cluster of all bins, each of ``depth`` levels asks of every open cluster whether to cut it and where,
    by the exponential mechanism on −(Σ|v − mean| over the parts + l1/ε_C for the noise of each part); leaving it whole
    closes it. Clusters of a level are disjoint, so a whole level is one exponential mechanism and costs one share
    ε_P/depth. What closed clusters leave unspent goes to the counts: the sum of each cluster gets Lap(l1/ε_C) and is
    spread evenly. Good where neighbouring bins are alike: empty stretches, plateaus.

    At most 256 evenly spaced cuts are considered per cluster, which bounds the work to O(n log n). ``depth`` is
    log₂ of the number of bins by default, at most 10; ``structure`` is ε_P/ε. Shallower trees do better on sparse data
    and small epsilon, deeper ones on large counts: 6, 8, 10, 12 and shares 1/4, 1/2 were tried on the benchmark's data.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.histograms import Geometric
    >>> from veilstream.mechanisms.streams import Sample
    >>> steps = np.repeat([0, 9000, 0, 3000], 250)[None]
    >>> g = Guarantee("1/50", w=1)
    >>> error = {h: abs(simulate(Sample(h), g, steps, seed=1) - steps).mean() for h in (PHP(), Geometric())}
    >>> bool(error[PHP()] < error[Geometric()] / 2)
    True

    Ács, Castelluccia, Chen: Differentially private histogram publishing through lossy compression, ICDM 2012, section
    V (P-HP), and the authors' program, which DPBench distributes. Changed: the second exponential mechanism, with half
    of ε_P over the partitions met on the way, is left out, as leaving a cluster whole already ends its bisection;
    unspent levels go to the counts. The score's bound 2·l1 is proved in ``scores.clusters``.
    """

    depth: int | None = None
    structure: Fraction = Fraction(1, 4)
    batchable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.depth is not None and (type(self.depth) is not int or not 1 <= self.depth <= 30):
            raise InvalidInputError(name="depth", value=self.depth, limit="a whole number from 1 to 30")
        if not 0 < self.structure < 1:
            raise InvalidInputError(name="structure", value=self.structure, limit="a Fraction between 0 and 1")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        if x.size == 1:
            return meter.laplace(x, epsilon, "publish")
        depth = self.depth if self.depth is not None else min((x.size - 1).bit_length(), DEEPEST)
        share = round_down(epsilon * self.structure / depth)
        if share == 0:
            raise InvalidBudgetError(f"epsilon {epsilon} for {depth} levels of PHP: a share is below 2^-30")
        moved = x.l1 * meter.guarantee.steps_at_once(x.span.steps)
        penalty = moved / (epsilon - depth * share)
        data = stretches(x)
        left = epsilon
        closed: list[NDArray[np.int64]] = []
        active = np.array([[0, x.size]], dtype=np.int64)
        for _ in range(depth):
            if active.size == 0:
                break
            cuts, sizes = _cuts(active)
            chosen = meter.select_each(bisection_scores(data, active, cuts, sizes, penalty), share, "bisection")
            left -= share
            whole = chosen == 0
            closed.append(active[whole, 0])
            at = cuts[(np.cumsum(sizes) - sizes + chosen - 1)[~whole]]
            parts = np.concatenate(
                [np.stack([active[~whole, 0], at], axis=1), np.stack([at, active[~whole, 1]], axis=1)]
            )
            single = parts[:, 1] - parts[:, 0] == 1
            closed.append(parts[single, 0])
            active = parts[~single]
        starts = np.sort(np.concatenate([*closed, active[:, 0]]))
        return publish_means(x, starts, left, meter)


def _cuts(clusters: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Evenly spaced positions strictly inside every cluster, one cluster after the other, and how many each has."""
    widths = clusters[:, 1] - clusters[:, 0]
    sizes = np.minimum(widths - 1, CUTS)
    owner = np.repeat(np.arange(sizes.size), sizes)
    rank = np.arange(1, owner.size + 1) - (np.cumsum(sizes) - sizes)[owner]
    return clusters[owner, 0] + rank * widths[owner] // (sizes[owner] + 1), sizes


def publish_means(x: Sealed, starts: NDArray[np.int64], epsilon: Fraction, meter: Meter) -> Values:
    """The sums of the stretches that begin at ``starts``, with noise, spread evenly over their bins."""
    lengths = np.diff(starts, append=x.size)
    stretch = np.repeat(np.arange(starts.size, dtype=np.int64), lengths)
    noisy = meter.laplace(x.sums(stretch, starts.size), epsilon, "publish")
    return Values((noisy.numbers / lengths)[..., stretch], (noisy.std / lengths)[stretch], NoiseLaw.MIXED)
