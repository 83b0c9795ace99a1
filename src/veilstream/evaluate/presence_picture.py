"""The picture of a presence that is chosen: how often people come, and what each c costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from veilstream.evaluate.drawing import PALETTE, panels
from veilstream.privacy.presence_choice import PresenceCurve, Promise
from veilstream.release.plots.style import INK, plain_numbers
from veilstream.release.sinks import replacing

MOST_SHOWN = 40
FADED = "#c3cdd6"
WHERE = {Promise.WINDOW: "a window", Promise.BLOCK: "a block", Promise.FOR_EVER: "all"}


def draw_presence(visits: Sequence[float], noise: float, curve: PresenceCurve, path: str | Path) -> Path:
    """Write the picture; ``noise`` is the standard deviation of each number of people, 0 where they are public."""
    figure, (left, right) = panels(2)
    figure.set_size_inches(11.5, 4.6)
    at = np.arange(1, len(visits) + 1)
    bars = {"ecolor": INK, "elinewidth": 0.9, "capsize": 2}
    left.bar(
        at,
        visits,
        color=[PALETTE[0] if number > 2 * noise else FADED for number in visits],
        yerr=1.96 * noise if noise else None,
        error_kw=bars,
    )
    left.axhline(0, color=INK, linewidth=0.8)
    left.set(
        xlabel="steps of a stretch in which a person comes",
        ylabel="people" + (" (noisy; grey: cannot be told from 0)" if noise else ""),
    )
    left.grid(visible=False, axis="x")
    plain_numbers(left.yaxis, 5)
    left.set_title("How often people come", fontsize=10.5, loc="left")
    counts = range(1, min(MOST_SHOWN, len(curve.noise)) + 1)
    right.plot(counts, [curve.error(c) for c in counts], marker="o", color=PALETTE[0], label="expected error")
    right.plot(counts, [curve.noise[c - 1] for c in counts], linestyle=":", color=PALETTE[5], label="noise alone")
    right.plot(counts, [curve.left_out[c - 1] for c in counts], linestyle=":", color=PALETTE[1], label="rows left out")
    right.axhline(curve.plain, color="#8a949e", linewidth=1.0)
    right.text(counts[-1], curve.plain, "people count in every step", ha="right", va="bottom", fontsize=8.5)
    if curve.best is not None:
        right.axvline(curve.best, color="#8a949e", linestyle="--", linewidth=1.0, zorder=0)
    right.set(xlabel=f"c, steps of {WHERE[curve.promise]} in which a person counts", ylabel="mean error of a bin")
    right.set_ylim(0, 1.15 * max(curve.plain, curve.error(curve.best or 1)))
    right.legend(fontsize=8.5, loc="center right")
    plain_numbers(right.yaxis, 5)
    chosen = "no c pays" if curve.best is None else f"c = {curve.best} errs least"
    right.set_title(f"What c costs: {chosen}", fontsize=10.5, loc="left")
    with replacing(path) as unfinished:
        figure.savefig(unfinished, dpi=150, format=Path(path).suffix.lstrip(".").lower())
    return Path(path)
