"""Revisions: what later looks say about steps that were published before. They cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from veilstream.mechanisms.streams.model.bank import Mixture
from veilstream.mechanisms.streams.model.observation import Floats
from veilstream.mechanisms.streams.model.output import Usual
from veilstream.values.revision import Revision
from veilstream.values.values import Values

UNSURE: Final = 1.5
"""How much wider than it was what a step foresaw of the next one is taken to be: revisions must never be worse."""


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """A published step: the belief behind it, and what had been foreseen of it one step before."""

    step: int
    believed: Mixture
    foreseen: Mixture


def revised(past: Sequence[Past], usual: Usual, shared: Floats | float = 0.0) -> list[Revision]:
    """All but the last of some successive steps once more, oldest first, smoothed by those that followed.

    Backwards from the last step, with m, v the estimate of a step, p, P what was foreseen of the next one, and s its
    smoothed estimate (Rauch, Tung, Striebel 1965),

        s ← m + G·(s − p),     v ← v + G²·(V − P'),     G = v/P',     P' = 1.5·P·max(1, (s − p)²/P).

    The last factors are not theirs: where the next step lies further off than was foreseen something has changed in
    between, and what came after says the less about what was before. ``shared`` is the variance of an error that all
    bins share, which smoothing does not take away.
    """
    revisions: list[Revision] = []
    smoothed, spread = past[-1].believed.mean, past[-1].believed.variance
    for earlier, later in zip(reversed(past[:-1]), reversed(past[1:]), strict=True):
        surprise = np.square(smoothed - later.foreseen.mean)
        width = np.maximum(later.foreseen.variance, 1e-12)
        wider = UNSURE * width * np.maximum(1.0, surprise / width)
        gain: Floats = np.minimum(earlier.believed.variance / wider, 1.0)
        smoothed = earlier.believed.mean + gain * (smoothed - later.foreseen.mean)
        spread = earlier.believed.variance + np.square(gain) * np.minimum(spread - wider, 0.0)
        spread = np.maximum(spread, 0.1 * earlier.believed.variance)
        # What cannot be told from nothing is doubted as it was at first.
        values = usual.published(replace(earlier.believed, mean=smoothed), earlier.believed.variance)
        narrower = spread / earlier.believed.variance
        values = Values(values.numbers, np.sqrt(np.square(values.std) * narrower + shared), values.law)
        revisions.append(Revision(earlier.step, past[-1].step - earlier.step, values))
    return revisions[::-1]
