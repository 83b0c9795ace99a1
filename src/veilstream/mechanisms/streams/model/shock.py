"""A common shock: all bins grow or shrink by one factor, which many noisy looks tell better than any single one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from veilstream.mechanisms.streams.model.bank import Mixture
from veilstream.mechanisms.streams.model.observation import Floats, Look

FEWEST_BINS: Final = 4
MANY_BINS: Final = 64
"""From here on one bin's own look hardly moves the common factor."""
SPREADS: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Standard deviations of the factor around its centre that are weighed against each other."""
PERSISTENCE: Final = 0.8
FORGETTING: Final = 0.95
TRUSTED: Final = 4.0
"""Mean squared surprise over its expected size above which bins do not move together."""
MOST: Final = 3.0
"""Standard deviations to which a single bin's surprise is cut."""


@dataclass(frozen=True, slots=True, eq=False)
class Shock:
    """``last`` is the growth at the last look, ``evidence`` that for each centre (none, persistence) and spread."""

    last: Floats
    evidence: Floats

    @classmethod
    def begun(cls, runs: tuple[int, ...]) -> Self:
        return cls(np.zeros((*runs, 1)), np.zeros((*runs, 2 * len(SPREADS))))

    def shared(self, look: Look, prior: Mixture) -> tuple[Shock, Floats]:
        """How far each bin moves with all others, x ← x·(1 + g), by a look at them.

        With surprises v = look − m of variance S, the likelihood of g is e^{A·g − B·g²/2}, A = Σ m·v/S, B = Σ m²/S. A
        prior N(c, s²) gives the mean (A + c/s²)/(B + 1/s²) and the evidence

            A·c − B·c²/2 − ½ ln(1 + s²B) + ½ s²(A − B·c)²/(1 + s²B).

        Few bins leave a bin's own look out of its factor: it will be used once more, by the bin itself.
        """
        total = prior.variance + look.variance
        surprise = look.numbers - prior.mean
        calm = np.mean(np.square(surprise) / total, axis=-1, keepdims=True) <= TRUSTED
        limit = MOST * np.sqrt(total)
        surprise = np.clip(surprise, -limit, limit)
        size = np.maximum(prior.mean, 0.0)
        each_a, each_b = size * surprise / total, np.square(size) / total
        a, b = each_a.sum(axis=-1, keepdims=True), each_b.sum(axis=-1, keepdims=True)
        centre = np.concatenate([np.zeros_like(a), PERSISTENCE * self.last], axis=-1).repeat(len(SPREADS), -1)
        spread = np.square(np.tile(SPREADS, 2))
        rest = a - b * centre
        gain = a * centre - 0.5 * b * np.square(centre)
        gain += 0.5 * spread * np.square(rest) / (1 + spread * b) - 0.5 * np.log1p(spread * b)
        evidence = FORGETTING * self.evidence + gain
        evidence -= evidence.max(axis=-1, keepdims=True)
        weights = np.exp(evidence)
        weights /= weights.sum(axis=-1, keepdims=True)
        common = np.sum(weights * (centre + spread * rest / (1 + spread * b)), axis=-1, keepdims=True)
        if look.numbers.shape[-1] < MANY_BINS:
            others_b = (b - each_b)[..., None]
            others = (a - each_a)[..., None] - others_b * centre[..., None, :]
            growth = np.sum(
                weights[..., None, :] * (centre[..., None, :] + spread * others / (1 + spread * others_b)), -1
            )
        else:
            growth = common
        after = Shock(np.where(calm, common, 0.0), np.where(calm, evidence, 0.0))
        return after, np.where(calm, growth, 0.0) * size
