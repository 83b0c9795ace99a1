"""A page about a synthetic table: margins, correlations, errors of range counts. Everything on it is public."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.extras import drawing
from veilstream.release.plots import BAND, INK, LINE, STYLE
from veilstream.release.plots.labels import borders
from veilstream.release.sinks import replacing
from veilstream.synthesis.correlation import upper_of
from veilstream.synthesis.graph_model import GraphModel
from veilstream.synthesis.kinds import TableModel
from veilstream.synthesis.margins import shares
from veilstream.synthesis.quality import Errors
from veilstream.synthesis.trust import PairTrust

MOST_MARGINS = 12
MOST_PAIRS = 30
MOST_NAMES: Final = 16
LONGEST_NAME: Final = 14
"""Values of an attribute whose names a panel has room for, and letters of such a name."""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; color: #22313f; max-width: 62rem; margin: 2rem auto }}
table {{ border-collapse: collapse }} td, th {{ padding: .2rem 1rem .2rem 0; text-align: left }}
img {{ max-width: 100% }}
</style></head><body><h1>{title}</h1>
<p>{introduction}</p>
<table>{facts}</table>
<h2>Margins</h2><p>Published counts (line) and drawn rows (area), as shares of all rows.</p>{margins}
<h2>Correlations</h2><p>Of the normal scores behind the attributes: published (left), and of the drawn rows (right),
which ties make weaker.</p>{correlations}
<h2>Pairs of attributes</h2><p>How far the published table of a pair is from independence, and how far noise and
sampling put it off, both as total variation in percent of the rows: the mean, and an interval that holds it with 95 %.
Both speak as if the published model were the truth; what the model leaves out only a measurement would tell.</p>
<table>{trust}</table>
<h2>Random range counts</h2><p>{errors_note}</p><table>{errors}</table>
</body></html>
"""


def write_report(
    path: str | Path,
    model: TableModel,
    drawn: list[NDArray[np.int64]],
    *,
    introduction: str,
    expected: Errors,
    measured: Errors | None = None,
    trust: Sequence[PairTrust] = (),
) -> Path:
    """Write the page, pictures included, to one HTML file."""
    facts = {
        "rows of the table, by its noisy count": f"{model.rows:,}",
        "rows drawn for this page": f"{drawn[0].size:,}",
        "spent on the model": f"epsilon {model.spent}",
        "spent on this page": f"epsilon {measured.epsilon}" if measured else "nothing",
        "copula": ", ".join(sorted(set(model.copulas))),
        **_structure(model),
    }
    text = _PAGE.format(
        title="Synthetic table",
        introduction=html.escape(introduction),
        facts="".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items()),
        margins=_picture(_margins(model, drawn)),
        correlations=_picture(_correlations(model, drawn)),
        trust=_table_of_trust(trust),
        errors_note=_words_of_errors(measured),
        errors=_table_of_errors(model, expected, measured),
    )
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return Path(path)


def _structure(model: TableModel) -> dict[str, str]:
    """Into how many parts a copula divides the table, or which tables a graph has."""
    if isinstance(model, GraphModel):
        return {"tables": ", ".join(" × ".join(names) for names in model.measured) or "none"}
    return {"parts": str(model.layout.parts)}


def _table_of_trust(trust: Sequence[PairTrust]) -> str:
    heads = ("pair", "from independence", "error", "95 % interval", "advice")
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for pair in trust[:MOST_PAIRS]:
        numbers = (f"{100 * pair.dependence:.3g}%", f"{100 * pair.error:.3g}%")
        interval = f"{100 * pair.low:.3g}% to {100 * pair.high:.3g}%"
        cells = (html.escape(" × ".join(pair.names)), *numbers, interval, pair.verdict)
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    if len(trust) > MOST_PAIRS:
        lines.append(f"<tr><td>and {len(trust) - MOST_PAIRS} pairs that depend less on one another</td></tr>")
    return "".join(lines)


def _words_of_errors(measured: Errors | None) -> str:
    first = (
        "Mean absolute error of 200 random ranges, in percent of the rows. Expected errors come from noise and "
        "sampling alone: drawn rows were fitted again with simulated noise, without a look at the table."
    )
    if measured is None:
        return first + " How well a copula describes the table itself was not measured; that would cost budget."
    return first + " Measured errors compare with the table itself, with noise that their own budget paid for."


def _table_of_errors(model: TableModel, expected: Errors, measured: Errors | None) -> str:
    names = ["all attributes at once", *(html.escape(name) for name in model.domain.names)]
    columns = [[expected.all_attributes, *expected.each]]
    heads = ["ranges over", "expected"]
    if measured is not None:
        columns.append([measured.all_attributes, *measured.each])
        heads.append("measured")
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for name, *values in zip(names, *columns, strict=True):
        lines.append(f"<tr><td>{name}</td>" + "".join(f"<td>{100 * value:.3g}%</td>" for value in values) + "</tr>")
    return "".join(lines)


def _figure(width: float, height: float) -> Any:
    figures: Any = drawing("figure")
    agg: Any = drawing("backends.backend_agg")
    figure = figures.Figure(figsize=(width, height), layout="constrained")
    agg.FigureCanvasAgg(figure)
    return figure


def _picture(figure: Any) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, dpi=110, format="png")
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}">'


def _margins(model: TableModel, drawn: list[NDArray[np.int64]]) -> Any:
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


def _correlations(model: TableModel, drawn: list[NDArray[np.int64]]) -> Any:
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
