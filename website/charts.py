"""Charts of the site as small SVG files that are the same every time they are drawn."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from numpy.typing import NDArray

GREY, BLUE, ORANGE, GREEN, RED = "#777777", "#3f51b5", "#e65100", "#2e7d32", "#c62828"
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "veilstream",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "path.simplify": True,
    "path.simplify_threshold": 0.5,
}


@contextmanager
def figure(path: Path, width: float = 7.0, height: float = 2.6) -> Generator[Figure]:
    """A figure that is written as SVG, without the date, when it is done."""
    styles: Any = mpl
    with styles.rc_context(_STYLE):
        drawn: Any = Figure(figsize=(width, height), layout="constrained")
        yield drawn
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        path.write_text(
            "\n".join(line.rstrip() for line in path.read_text(encoding="utf-8").splitlines()) + "\n", encoding="utf-8"
        )


def line_chart(
    path: Path, truth: NDArray[Any], published: NDArray[Any], fresh: NDArray[Any], step: str, what: str
) -> None:
    """One series in grey and what was published of it in blue, with points at fresh releases if they are few."""
    with figure(path) as drawn:
        axes: Any = drawn.subplots()
        axes.plot(truth, color=GREY, linewidth=1.6, label="exact")
        axes.plot(
            published, color=BLUE, linewidth=1.1, label="published", drawstyle="steps-mid" if fresh.size else "default"
        )
        if 0 < fresh.size <= len(truth) / 2:
            axes.plot(fresh, published[fresh], "o", color=BLUE, markersize=2.5)
        axes.set_xlabel(step)
        axes.set_ylabel(what if len(what) < 20 else "sum")
        axes.legend(frameon=False, ncols=2, loc="upper right")
