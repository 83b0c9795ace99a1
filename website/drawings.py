"""Pictures that explain: ``python -m website draw``."""

from __future__ import annotations

from typing import Any, Final

from matplotlib.patches import FancyBboxPatch, Rectangle

from website.charts import BLUE, GREEN, GREY, ORANGE, RED, figure
from website.outside import ROOT

FOLDER: Final = ROOT / "docs" / "figures" / "how"
COSTS: Final = (0.5, 0.25, 0.25, 0.5, 0.25, 0.0, 0.75, 0.25, 0.0, 0.5, 0.5, 0.0)
STAGES: Final = (
    ("rows", "person, time,\nattributes", GREY),
    ("bound", "at most k rows\nper person, step", ORANGE),
    ("count", "public bins,\nsealed", ORANGE),
    ("meter", "charge, then\nexact noise", RED),
    ("commit", "charge + state\n+ release", BLUE),
    ("read", "tables, page,\npictures", GREEN),
)


def draw() -> None:
    """Draws every picture again."""
    draw_window()
    draw_step()


def draw_window(w: int = 3) -> None:
    """Costs of steps, one person's visits, and the fullest window."""
    with figure(FOLDER / "window.svg", 7.4, 3.2) as drawn:
        axes: Any = drawn.subplots()
        axes.bar(range(len(COSTS)), COSTS, color=BLUE, width=0.7)
        assert max(sum(COSTS[i : i + w]) for i in range(len(COSTS))) == sum(COSTS[:w]) == 1
        fullest = 0  # one of several that cost all of ε
        axes.add_patch(
            Rectangle((fullest - 0.45, -0.02), w - 0.1, 1.04, fill=False, edgecolor=RED, linestyle="--", linewidth=1.4)
        )
        axes.text(fullest - 0.45, 1.06, f"any {w} steps together: at most ε = 1", color=RED, ha="left")
        axes.plot([1, 2, 9], [-0.16] * 3, "o", color=ORANGE, markersize=8, clip_on=False)
        axes.text(-0.4, -0.13, "one person's visits", color=ORANGE, ha="left", va="bottom", fontsize=8)
        axes.annotate("refused: would cost 5/4", (5, 0.02), (5, 0.84), color=GREY, ha="center", fontsize=8,
                      arrowprops={"arrowstyle": "->", "color": GREY})  # fmt: skip
        axes.set(ylim=(-0.22, 1.2), ylabel="ε spent", xticks=range(len(COSTS)), yticks=[0, 0.5, 1])
        axes.set_xlabel("step")


def draw_step() -> None:
    """From rows to a release."""
    with figure(FOLDER / "step.svg", 9.2, 2.4) as drawn:
        axes: Any = drawn.subplots()
        axes.set(xlim=(-0.1, len(STAGES) * 1.5 - 0.2), ylim=(-0.75, 1.25))
        axes.axis("off")
        for number, (title, text, color) in enumerate(STAGES):
            _stage(axes, number * 1.5, title, text, color)
        axes.add_patch(Rectangle((1.42, -0.3), 4.46, 1.42, fill=False, edgecolor=RED, linestyle=":", linewidth=1.2))
        axes.text(3.65, -0.6, "trusted: exact values exist only in here, sealed", color=RED, ha="center", fontsize=8.5)


def _stage(axes: Any, left: float, title: str, text: str, color: str) -> None:
    style: dict[str, Any] = {"boxstyle": "round,pad=0.02,rounding_size=0.08", "linewidth": 1.5}
    axes.add_patch(FancyBboxPatch((left + 0.05, 0), 1.1, 0.9, edgecolor=color, facecolor="white", **style))
    axes.text(left + 0.6, 0.68, title, ha="center", va="center", fontweight="bold", color=color)
    axes.text(left + 0.6, 0.3, text, ha="center", va="center", fontsize=7.5)
    if title != STAGES[-1][0]:
        axes.annotate("", (left + 1.52, 0.45), (left + 1.2, 0.45), arrowprops={"arrowstyle": "->", "color": GREY})
