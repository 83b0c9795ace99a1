"""The picture of docs/model.md: looks, bands and beliefs on a stream that comes with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from research.datasets import dataset
from veilstream.mechanisms.protocols import accountant_for
from veilstream.mechanisms.streams import ModelBased
from veilstream.mechanisms.streams.model.explain import shares_of_kinds
from veilstream.noise import ExactSampler
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.values.values import half_width

FIGURE: Final = Path(__file__).resolve().parent.parent / "docs" / "figures" / "model.png"
SHOWN: Final = 32
"""The bin that is drawn."""


def draw(path: Path = FIGURE) -> None:
    """Published values with their 95 % band, the true counts, marks where the stream was looked at, and beliefs."""
    counts = dataset("ilinet-regions")
    mechanism, guarantee = ModelBased(periods=(52,)), Guarantee("1/4", w=26)
    accountant = accountant_for(mechanism, guarantee, counts.shape[1])
    noise, state = ExactSampler(SeededSource(1)), mechanism.start(guarantee, counts.shape[1])
    values, widths, looked, beliefs = list[float](), list[float](), list[bool](), list[dict[str, float]]()
    for t, row in enumerate(counts):
        meter = Meter(accountant, noise, t)
        state, released = mechanism.step(state, seal(row, t), meter)
        assert state.belief is not None
        values.append(float(released.numbers[SHOWN]))
        width: NDArray[np.float64] = half_width(0.95, released.std, released.law, integer=False)
        widths.append(float(width[SHOWN]))
        looked.append(any(charge.purpose == "look" for charge in meter.charges))
        beliefs.append(shares_of_kinds(state.belief.bank))
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    steps, middle, half = np.arange(len(counts)), np.array(values), np.array(widths)
    above.fill_between(steps, np.maximum(middle - half, 0), middle + half, alpha=0.25, label="95 % of the true count")
    above.plot(steps, middle, label="published")
    above.plot(steps, counts[:, SHOWN], color="black", linewidth=0.8, label="true count (not public)")
    above.plot(steps[looked], np.zeros(sum(looked)), "|", color="grey", label="looks")
    above.set(ylabel="visits per week", title="Influenza-like illness, one of 50 bins, ε = 1/4 within 26 weeks")
    above.legend(fontsize="small")
    kinds = list(beliefs[0])
    below.stackplot(steps, [[belief[kind] for belief in beliefs] for kind in kinds], labels=kinds)
    below.set(xlabel="week", ylabel="weight of models", ylim=(0, 1))
    below.legend(fontsize="x-small", loc="lower left")
    figure.savefig(path, dpi=110)
