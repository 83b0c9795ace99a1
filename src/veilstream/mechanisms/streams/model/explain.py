"""In plain words: which models a stream is believed to follow, and why it was looked at or not."""

from __future__ import annotations

from typing import Final

import numpy as np

from veilstream.mechanisms.streams.model.bank import Bank
from veilstream.mechanisms.streams.model.experts import LEVELS, SEASONS, TRENDS
from veilstream.mechanisms.streams.model.looks import Looks, Reason
from veilstream.mechanisms.streams.model.observation import Floats

STILL: Final = 1e-3
"""Levels whose steps have less variance than this part of Uniform's noise hardly move."""
FREE: Final = 10.0
"""Levels whose steps have at least so many times the variance of Uniform's noise are as good as new at every step."""
REASONS: Final[dict[Reason, str]] = {
    Reason.OPENING: "It was looked at with a larger share of the budget, to know levels early.",
    Reason.EVERY_STEP: "It was looked at: the models err least with a look at every step.",
    Reason.BLOCK: "It was looked at as the first step of a block whose looks share one draw of noise.",
    Reason.DUE: "It was looked at: a longer gap since the last look would cost more than the look.",
    Reason.ALARM: "It was looked at and lay far from what was foreseen, so that the next steps are looked at too.",
    Reason.WAITING: "It was not looked at: what is published is a forecast, and the budget is kept for later looks.",
}


def shares_of_kinds(bank: Bank) -> dict[str, float]:
    """How much weight the experts of each kind have, over all bins."""
    shares: Floats = bank.shares.reshape(-1, bank.shares.shape[-1]).mean(axis=0)
    steps = np.array(LEVELS)
    levels, rest = shares[: steps.size], shares[steps.size :]
    kinds = {
        "a level that stands still": float(levels[steps < STILL].sum()),
        "a level that drifts": float(levels[(steps >= STILL) & (steps < FREE)].sum()),
        "a level that moves freely": float(levels[steps >= FREE].sum()),
    }
    if bank.trends is not None:
        kinds["a trend"] = float(rest[: len(TRENDS)].sum())
        rest = rest[len(TRENDS) :]
    for number, season in enumerate(bank.seasons):
        part = rest[number * len(SEASONS) : (number + 1) * len(SEASONS)]
        kinds[f"a season of {len(season.profile)} steps"] = float(part.sum())
    return kinds


def explained(bank: Bank, looks: Looks) -> str:
    """A sentence about the models and one about the last step."""
    kinds = shares_of_kinds(bank)
    named = [
        f"{kind} ({share:.0%})" for kind, share in sorted(kinds.items(), key=lambda item: -item[1]) if share >= 0.1
    ]
    return f"Believed: {', '.join(named)}. {REASONS[looks.reason]}"
