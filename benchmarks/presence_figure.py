"""The pictures of docs/presence.md: ``python -m benchmarks.presence_figure``."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import numpy as np

import veilstream as vs
from benchmarks.presence_streams import purchases
from benchmarks.report import PAGE
from veilstream.audit.presence_entries import counted_steps
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence_choice import presence_curve

STEPS: Final = 36
PRESENT: Final = (1, 2, 13, 15, 16, 19, 20, 22, 25, 26, 27, 30, 33)
plt: Any = import_module("matplotlib.pyplot")
lines: Any = import_module("matplotlib.lines")
patches: Any = import_module("matplotlib.patches")
FIGURES: Final = PAGE.parent / "figures"
LOST, GAINED, COUNTED, SHADE = "#c0392b", "#1f7a4d", "#34495e", "#f2e3c6"


def promises() -> None:
    """One person's visits under the three promises: what counts, and what changes when a unit goes."""
    cases = (
        (Guarantee(1, w=None, presence=4), range(STEPS), "for ever, c = 4: all that the person does is the unit"),
        (Guarantee(1, w=12, presence=3), range(12, 24), "any window of 12 steps, c = 3: twelve steps are the unit"),
        (Guarantee(1, per=12, presence=3), range(12, 24), "blocks of 12 steps, c = 3: one block is the unit"),
    )
    figure, axes = plt.subplots(3, 1, figsize=(9.5, 4.6), sharex=True, layout="constrained")
    here = np.isin(np.arange(STEPS), PRESENT)
    for axis, (guarantee, unit, title) in zip(axes, cases, strict=True):
        _draw(axis, guarantee, here, unit)
        axis.set_title(f"{title}; charged for {guarantee.reach} steps", loc="left", fontsize=10)
    axes[-1].set_xlabel("step")
    handles = [
        lines.Line2D([], [], marker="o", ls="", mfc="white", mec="grey", label="present, does not count"),
        lines.Line2D([], [], marker="o", ls="", color=COUNTED, label="counts"),
        lines.Line2D([], [], marker="o", ls="", color=LOST, label="counts, and no more when the unit goes"),
        lines.Line2D([], [], marker="o", ls="", color=GAINED, label="counts only when the unit goes"),
        patches.Rectangle((0, 0), 1, 1, color=SHADE, label="the unit that goes"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    figure.savefig(FIGURES / "presence_promises.png", dpi=130)


def _draw(axis: Any, guarantee: Guarantee, here: np.ndarray[Any, np.dtype[np.bool_]], unit: range) -> None:
    gone = np.isin(np.arange(STEPS), unit)
    before, after = counted_steps(guarantee, here), counted_steps(guarantee, here & ~gone)
    axis.axvspan(unit.start - 0.5, unit.stop - 0.5, color=SHADE, zorder=0)
    for t in np.flatnonzero(here):
        colour = COUNTED if before[t] and after[t] else LOST if before[t] else GAINED if after[t] else "white"
        axis.plot(t, 0, "o", ms=11, mfc=colour, mec="grey" if colour == "white" else colour)
    if guarantee.per is not None:
        for border in range(0, STEPS + 1, 12):
            axis.axvline(border - 0.5, color="grey", lw=0.8, ls=":")
    axis.set(yticks=[], xlim=(-0.8, STEPS - 0.2), ylim=(-1, 1))
    for side in ("left", "right", "top"):
        axis.spines[side].set_visible(False)


def choice() -> None:
    """The expected error over c from a histogram of visits that cost 1/10, and what the purchases really err."""
    stream, window = purchases(), 40
    pairs = stream.person * 10**6 + stream.step // window
    visits = np.bincount(np.minimum(np.unique(pairs, return_counts=True)[1], 12), minlength=13)[1:]
    guarantee = Guarantee("1/10", w=1)
    noisy = vs.simulate(vs.STREAMS["uniform"](), guarantee, visits[None], seed=1, max_contribution=4)[0]
    stretches = stream.steps / window
    truth = stream.counts()
    figure, axis = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
    for name, table, style in (("exact visits", visits, "--"), ("visits at ε = 1/10", noisy, "-")):
        curve = presence_curve((np.asarray(table) / stretches).tolist(), 1, steps=window)
        counts = range(1, 16)
        axis.plot(counts, [curve.error(c) for c in counts], style, label=f"expected from {name}: best c = {curve.best}")
    real: list[float] = []
    for c in range(1, 16):
        left_out = (truth - stream.counts(Guarantee(1, w=window, presence=c)))[:, 0]
        real.append(float((left_out + 2 * c * np.exp(-left_out / (2 * c))).mean()))
    axis.plot(range(1, 16), real, "o", label=f"purchases: best c = {1 + int(np.argmin(real))}")
    axis.axhline(window, color="grey", lw=0.8)
    axis.text(15, window, "no bound", ha="right", va="bottom", color="grey")
    axis.set(xlabel="c, steps of a window of 40 in which a person counts", ylabel="mean absolute error", ylim=(0, 55))
    axis.legend(frameon=False)
    figure.savefig(FIGURES / "presence_choice.png", dpi=130)


if __name__ == "__main__":
    promises()
    choice()
