"""The claim about a presence that is chosen anew: two epochs, the choice between them, and one block of a person.

All that one person does in one block of the first epoch goes. The releases of that epoch and the histogram of visits
change; the second epoch reads no row of the block, but its c, its noise and who counts in it follow from the histogram.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.attack import Claim
from veilstream.audit.pairs import Pair
from veilstream.audit.presence_entries import OTHERS, presence_pair
from veilstream.audit.runs import Seed, stream_outputs
from veilstream.mechanisms.streams import Sample, Uniform
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence_renewal import Renewal

EPSILON: Final = Fraction(1)
REGULARS: Final = (0, 0, 3)
"""Three others come in every step of a block: by exact numbers a fourth one makes c 2 instead of 1."""
CLOSE: Final = Renewal(block=3, blocks=1, first=1, budget="1/2", most=3)
"""Blocks of three steps, each an epoch: the person's own entry weighs most in the choice."""


def renewal_claim(name: str, present: Sequence[int], visits: Sequence[int], renewal: Renewal = CLOSE) -> Claim:
    """The claim of a renewal about a person who is present in these steps of two epochs of one block each, and whose
    first block goes; ``visits`` is how many others come once, twice, … in it."""
    return Claim(name, EPSILON + renewal.budget, renewed_outputs(present, visits, renewal), quick=4_000)


def renewed_outputs(
    present: Sequence[int], visits: Sequence[int], renewal: Renewal, *, noisy: bool = True
) -> Callable[[bool, int, Seed], NDArray[np.float64]]:
    """Releases of the first epoch, the histogram, and releases of the second, one row a trial.

    Without ``noisy`` the choice follows the exact visits, which are not published: that is no renewal of ours.
    """
    block = renewal.block
    mine = sum(step < block for step in present)
    entry = np.zeros((1, renewal.most), dtype=np.int64)
    entry[0, min(mine, renewal.most) - 1] = 1
    histogram = Pair("visits", np.array([visits], dtype=np.int64), entry)
    later = [step - block for step in present if step >= block]

    def draw(there: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        seeds = seed if isinstance(seed, tuple) else (seed,)
        first = Guarantee(EPSILON, per=block, presence=renewal.first)
        gone = presence_pair("first epoch", first, [s for s in present if s < block], range(block), block)
        before = stream_outputs(Uniform(), first, gone, there, trials, (*seeds, 1))
        once = Guarantee(renewal.budget, w=1)
        published = stream_outputs(Sample(), once, histogram, there, trials, (*seeds, 2))
        exact = np.broadcast_to(histogram.others + there * histogram.person, published.shape)
        chosen = np.array([renewal.chosen(row, EPSILON) for row in (published if noisy else exact)])
        after = np.empty((trials, block))
        for c in np.unique(chosen).tolist():
            here = np.flatnonzero(chosen == c)
            second = Guarantee(EPSILON, per=block, presence=c)
            same = presence_pair("second epoch", second, later, [], block, OTHERS)
            after[here] = stream_outputs(Uniform(), second, same, True, len(here), (*seeds, 3, c))
        return np.hstack([before, published, after] if noisy else [before, after])

    return draw


RENEWAL_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {
    Renewal.__name__: lambda: [
        renewal_claim("a regular on whom c hangs", range(6), REGULARS),
        renewal_claim("a visitor among many", [1, 3], [40, 3, 1]),
    ]
}
"""The claims about choosing c anew (``veilstream.jobs.renewal``)."""
