"""The picture of an advice: error over epsilon for windows, and the mechanisms side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from veilstream.evaluate.advise import EPSILONS, Choice, Facts, uniform_choice
from veilstream.evaluate.drawing import MARKERS, PALETTE, panels
from veilstream.release.plots.style import plain_numbers
from veilstream.release.sinks import replacing

MOST_BARS: Final = 14


def draw_advice(
    facts: Mapping[str, Facts], choices: Sequence[Choice], chosen: Choice, path: str | Path, *, unit: str
) -> Path:
    """Write the picture; ``facts`` are the same facts under other windows, by name."""
    figure, (left, right) = panels(2)
    figure.set_size_inches(11.5, 4.6)
    _draw_windows(left, facts, chosen)
    _draw_mechanisms(right, choices, chosen, unit)
    with replacing(path) as unfinished:
        figure.savefig(unfinished, dpi=150, format=Path(path).suffix.lstrip(".").lower())
    return Path(path)


def _draw_windows(axes: Any, facts: Mapping[str, Facts], chosen: Choice) -> None:
    ticker: Any = import_module("matplotlib.ticker")
    epsilons = [float(epsilon) for epsilon in EPSILONS]
    for number, (name, known) in enumerate(facts.items()):
        shares = [100 * uniform_choice(known, epsilon).relative_error for epsilon in EPSILONS]
        axes.plot(epsilons, shares, color=PALETTE[number], marker=MARKERS[number], label=name)
    axes.axvline(float(chosen.epsilon), color="#8a949e", linewidth=1.0, linestyle="--")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="epsilon of a window (dashed: taken)",
        ylabel="mean error of a bin, % of its count",
    )
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set_title("Released in every step (exact)", fontsize=10.5, loc="left")
    axes.legend(fontsize=8.5, frameon=False, title="window", title_fontsize=8.5)


def _draw_mechanisms(axes: Any, choices: Sequence[Choice], chosen: Choice, unit: str) -> None:
    shown = list(choices[:MOST_BARS])
    means = np.array([choice.mean_error for choice in shown])
    spread = np.array([[c.mean_error - c.low for c in shown], [c.high - c.mean_error for c in shown]])
    colours = [PALETTE[0] if choice == chosen else "#b9c4cd" for choice in shown]
    rows = np.arange(len(shown))
    axes.barh(rows, means, xerr=np.maximum(spread, 0), color=colours, error_kw={"elinewidth": 1.0, "capsize": 2})
    axes.set_yticks(rows, [f"{c.mechanism}{' (exact)' if c.exact else ''}" for c in shown], fontsize=8.5)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"mean error of a bin, {unit}")
    plain_numbers(axes.xaxis, 5)
    axes.set_title(f"At epsilon {float(chosen.epsilon):g} (bars: 95 % of the mean)", fontsize=10.5, loc="left")
