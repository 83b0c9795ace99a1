"""Pictures of a synthetic table: dependence and errors of pairs, margins, correlations."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.extras import drawing
from veilstream.release.plots import BAND, INK, LINE, STYLE, TRUTH
from veilstream.release.plots.labels import borders
from veilstream.synthesis.correlation import upper_of
from veilstream.synthesis.kinds import TableModel
from veilstream.synthesis.margins import shares
from veilstream.synthesis.model import CopulaModel
from veilstream.synthesis.trust import Trust

MOST_MARGINS: Final = 24
MOST_NAMES: Final = 16
LONGEST_NAME: Final = 14
"""Values of an attribute whose names a panel has room for, and letters of such a name."""


def _figure(width: float, height: float) -> Any:
    figures: Any = drawing("figure")
    agg: Any = drawing("backends.backend_agg")
    figure = figures.Figure(figsize=(width, height), layout="constrained")
    agg.FigureCanvasAgg(figure)
    return figure


def picture(figure: Any) -> str:
    """A figure as part of a page."""
    stream = io.BytesIO()
    figure.savefig(stream, dpi=110, format="png")
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}">'


def draw_margins(model: TableModel, drawn: list[NDArray[np.int64]]) -> Any:
    """Published margins and those of drawn rows."""
    matplotlib: Any = drawing()
    names = model.domain.names[:MOST_MARGINS]
    across = min(3, len(names))
    down = -(-len(names) // across)
    with matplotlib.rc_context(STYLE):
        figure = _figure(4 * across, 2.4 * down)
        axes = figure.subplots(down, across, squeeze=False).reshape(-1)
        for name, codes, panel in zip(names, drawn, axes, strict=False):
            published = shares(model.margin(name))
            shown = np.bincount(codes, minlength=published.size) / max(codes.size, 1)
            _draw_margin(panel, [str(label) for label in model.domain.axes[name].labels()], published, shown)
            panel.set_title(name, fontsize=10)
            panel.set_ylim(bottom=0)
        for panel in axes[len(names) :]:
            panel.set_visible(False)
    return figure


def _draw_margin(panel: Any, labels: list[str], published: NDArray[np.float64], shown: NDArray[np.float64]) -> None:
    """Shares over the values of an attribute: along its numbers, or one place for each name."""
    ends = borders(labels)
    lined_up = ends is not None and bool(np.allclose(ends[1:, 0], ends[:-1, 1]))
    edges = np.append(ends[:, 0], ends[-1, 1]) if ends is not None and lined_up else np.arange(len(labels) + 1) - 0.5
    panel.stairs(shown, edges, fill=True, color=BAND, alpha=0.5, linewidth=0)
    panel.stairs(published, edges, color=LINE, linewidth=0.9)
    panel.margins(x=0.01)
    if not lined_up and len(labels) <= MOST_NAMES:
        short = [label if len(label) <= LONGEST_NAME else label[: LONGEST_NAME - 1] + "…" for label in labels]
        panel.set_xticks(range(len(labels)), short, fontsize=7.5, rotation=60 if sum(map(len, short)) > 30 else 0)
    elif not lined_up:
        panel.set_xlabel("number of the value in the domain", fontsize=8)


def draw_pairs(pairs: Sequence[Trust]) -> Any:
    """Dots of dependence beside the errors of the same pairs."""
    matplotlib: Any = drawing()
    with matplotlib.rc_context(STYLE):
        figure = _figure(9.5, 0.9 + 0.27 * len(pairs))
        panel = figure.subplots()
        places = np.arange(len(pairs))
        low, high = (np.array([100 * getattr(pair, end) for pair in pairs]) for end in ("noise_low", "noise_high"))
        panel.barh(places, high - low, left=low, height=0.55, color=BAND, alpha=0.6, label="error by noise alone, 95 %")
        known = [(place, pair.measured) for place, pair in zip(places, pairs, strict=True) if pair.measured is not None]
        for colour, said, ends in (
            (TRUTH, "error, measured", [each.drawn for _, each in known]),
            (INK, "error of independence, measured", [each.independent for _, each in known]),
        ):
            if known:
                lows, highs = ([100 * getattr(end, side) for end in ends] for side in ("low", "high"))
                panel.hlines([place for place, _ in known], lows, highs, color=colour, linewidth=1.6, label=said)
        dots = [100 * (pair.measured.independent.error if pair.measured else pair.dependence) for pair in pairs]
        panel.plot(dots, places, "o", color=INK, markersize=5, label="error of independence")
        panel.set_yticks(places, [" × ".join(map(_short, pair.names)) for pair in pairs], fontsize=8.5)
        panel.set_ylim(len(pairs) - 0.4, -0.6)
        panel.set_xlim(left=0)
        panel.set_xlabel("percent of the rows")
        panel.grid(visible=False, axis="y")
        panel.legend(loc="lower right", fontsize=8.5)
    return figure


def draw_map(model: TableModel, pairs: Sequence[Trust]) -> Any:
    """The dependence of all pairs at once."""
    matplotlib: Any = drawing()
    names = model.domain.names
    matrix = np.full((len(names), len(names)), np.nan)
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        side = 2.2 + 0.3 * len(names)
        figure = _figure(min(side + 1.2, 10), min(side, 9))
        panel = figure.subplots()
        for pair in pairs:
            matrix[pair.scope[::-1]] = 100 * pair.dependence
            if pair.verdict == "no better than independence":
                panel.text(pair.scope[0], pair.scope[1], "×", ha="center", va="center", fontsize=8, color=INK)
        image = panel.imshow(matrix, vmin=0, cmap="Blues")
        panel.set_xticks(range(len(names) - 1), [_short(name) for name in names[:-1]], rotation=90, fontsize=8)
        panel.set_yticks(range(1, len(names)), [_short(name) for name in names[1:]], fontsize=8)
        panel.set_xlim(-0.5, len(names) - 1.5)
        panel.set_ylim(len(names) - 0.5, 0.5)
        figure.colorbar(image, ax=panel, shrink=0.7, label="percent of the rows")
    return figure


def _short(name: str) -> str:
    return name if len(name) <= 2 * LONGEST_NAME else name[: 2 * LONGEST_NAME - 1] + "…"


def draw_correlations(model: CopulaModel, drawn: list[NDArray[np.int64]]) -> Any:
    """Published correlations beside those of drawn rows."""
    matplotlib: Any = drawing()
    names = [model.domain.names[axis] for axis in model.layout.modelled]
    published = model.correlation
    sampled = np.eye(len(names))
    if len(names) > 1 and drawn[0].size > 1:
        columns = np.stack([drawn[axis] for axis in model.layout.modelled], axis=1).astype(np.float64)
        varied = columns.std(axis=0) > 0
        ranks = np.argsort(np.argsort(columns[:, varied], axis=0), axis=0)
        sampled[np.ix_(varied, varied)] = np.corrcoef(ranks, rowvar=False) if varied.sum() > 1 else 1.0
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        figure = _figure(9.5, 4.4)
        left, right = figure.subplots(1, 2)
        for panel, matrix in ((left, published), (right, sampled)):
            image = panel.imshow(matrix, vmin=-1, vmax=1, cmap="RdBu")
            panel.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
            panel.set_yticks(range(len(names)), names, fontsize=8)
            if len(names) <= 10:
                for cell in np.ndindex(matrix.shape):
                    colour = "white" if abs(matrix[cell]) > 0.6 else INK
                    text = f"{matrix[cell]:.2f}"
                    panel.text(cell[1], cell[0], text, ha="center", va="center", fontsize=7, color=colour)
        strongest = float(np.abs(upper_of(published)).max(initial=0.0))
        figure.suptitle(f"strongest published correlation {strongest:.2f}", fontsize=10)
        figure.colorbar(image, ax=[left, right], shrink=0.8)
    return figure
