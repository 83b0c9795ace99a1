"""The picture of limits: how many rows people have, and what each limit costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from veilstream.data.bounding.frequency import level_names
from veilstream.evaluate.drawing import PALETTE, panels
from veilstream.evaluate.limits import LimitChoice, RowLevels
from veilstream.release.plots.style import INK, plain_numbers
from veilstream.release.sinks import replacing

FADED = "#c3cdd6"


def draw_limits(levels: RowLevels, choices: Sequence[LimitChoice], chosen: LimitChoice, path: str | Path) -> Path:
    """Write the picture."""
    figure, (left, right) = panels(2)
    figure.set_size_inches(11.5, 4.6)
    shown = min(len(levels.counts), len(choices) + 3)
    rows = np.arange(shown)
    colours = [PALETTE[0] if count > 0 else FADED for count in levels.seen[:shown]]
    bars = {"ecolor": INK, "elinewidth": 0.9, "capsize": 2}
    left.barh(rows, levels.counts[:shown], color=colours, xerr=levels.half_width, error_kw=bars)
    left.set_yticks(rows, level_names()[:shown])
    left.invert_yaxis()
    left.grid(visible=False, axis="y")
    left.set(xlabel="people, one step of each (noisy; grey: cannot be told from 0)", ylabel="rows in the step")
    plain_numbers(left.xaxis, 5)
    left.set_title("How many rows people have in a step", fontsize=10.5, loc="left")
    _draw_costs(right, choices, chosen)
    with replacing(path) as unfinished:
        figure.savefig(unfinished, dpi=150, format=Path(path).suffix.lstrip(".").lower())
    return Path(path)


def _draw_costs(axes: Any, choices: Sequence[LimitChoice], chosen: LimitChoice) -> None:
    at = np.arange(len(choices))
    if choices[0].error is None:
        kept = 100 * np.array([choice.kept for choice in choices])
        ends = 100 * np.array([[c.kept - c.low for c in choices], [c.high - c.kept for c in choices]])
        axes.errorbar(at, kept, np.maximum(ends, 0), color=PALETTE[0], marker="o", capsize=3)
        axes.set(ylabel="rows kept, %", ylim=(0, 103))
    else:
        noise = np.array([choice.noise or 0.0 for choice in choices])
        lost = np.array([choice.lost or 0.0 for choice in choices])
        axes.bar(at, noise, color=PALETTE[5], label="noise")
        axes.bar(at, lost, bottom=noise, color=PALETTE[1], label="rows left out")
        axes.legend(fontsize=8.5)
        axes.set(ylabel="mean error of a bin, rows")
        plain_numbers(axes.yaxis, 5)
    axes.axvline(choices.index(chosen), color="#8a949e", linestyle="--", linewidth=1.0, zorder=0)
    axes.set_xticks(at, [f"{choice.limit:,}" for choice in choices])
    axes.set_xlabel("rows of one person that count in a step (dashed: suggested)")
    axes.grid(visible=False, axis="x")
    axes.set_title("What a limit costs", fontsize=10.5, loc="left")
