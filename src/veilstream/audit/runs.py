"""Outputs of many independent runs of a real stream mechanism through the real Meter, as trials × features."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.forks import forked_outputs
from veilstream.audit.pairs import Pair
from veilstream.audit.pool import PooledNoise
from veilstream.mechanisms.histograms import Gaussian, Geometric
from veilstream.mechanisms.protocols import StreamMechanism, is_batchable
from veilstream.mechanisms.session import StreamSession
from veilstream.mechanisms.traits import Traits
from veilstream.privacy.guarantee import Guarantee

PLAIN: Final = (Geometric, Gaussian)
"""Histograms that add noise to the counts as they are."""

Seed = int | tuple[int, ...]


def stream_outputs(
    mechanism: StreamMechanism[Any], guarantee: Guarantee, pair: Pair, present: bool, trials: int, seed: Seed
) -> NDArray[np.float64]:
    """Published values of all steps and bins, then which steps were fresh: one row a trial.

    Batchable mechanisms run all at once, in groups that fork where they decide; all others run by run. When
    an oblivious mechanism releases is known beforehand and left out.
    """
    steps, bins = pair.steps, pair.bins
    # Data that follow what each run published differ from run to run, which scores and transforms do not take.
    plain = not pair.follows or isinstance(getattr(mechanism, "histogram", None), (*PLAIN, type(None)))
    if plain and is_batchable(mechanism):
        feed, noise = pair.feed(present), PooledNoise(seed)
        values, fresh = forked_outputs(mechanism, guarantee, feed, steps, bins, trials, noise)
    else:
        values, fresh = one_by_one(mechanism, guarantee, pair, present, trials, seed)
    seen = pair.seen(values).reshape(trials, steps * bins)
    if Traits.of(mechanism).oblivious:
        return seen
    return np.hstack([seen, fresh.astype(np.float64)])


def one_by_one(
    mechanism: StreamMechanism[Any], guarantee: Guarantee, pair: Pair, present: bool, trials: int, seed: Seed
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values (trials × steps × bins) and whether they were fresh (trials × steps), one run after the other."""
    feed, steps, bins, noise = pair.feed(present), pair.steps, pair.bins, PooledNoise(seed)
    values, fresh = np.empty((trials, steps, bins)), np.empty((trials, steps), dtype=np.bool_)
    for trial in range(trials):
        session = StreamSession(mechanism, guarantee, bins, noise)
        published: NDArray[Any] | None = None
        for t in range(steps):
            released = session.step(feed(t, published), t)
            values[trial, t], fresh[trial, t], published = released.numbers, released.fresh, released.numbers
    return values, fresh
