"""The picture of range-query errors, one panel per epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

COLOURS = ("#332288", "#88ccee", "#44aa99", "#117733", "#999933", "#ddcc77", "#cc6677", "#882255", "#aa4499", "#888888")

LEFT_OUT = ("geometric", "barak")
"""The measure itself, and a method for marginals."""


def draw(errors: Mapping[tuple[str, ...], Mapping[str, float]], path: Path) -> None:
    """Errors as multiples of plain noise, on a log scale: points below the line are better."""
    epsilons = list(dict.fromkeys(epsilon for _, epsilon in errors))
    names = list(dict.fromkeys(name for name, _ in errors))
    methods = [method for method in next(iter(errors.values())) if method not in LEFT_OUT]
    figure = Figure(figsize=(15, 5.2), layout="constrained")
    panels = figure.subplots(1, len(epsilons), sharey=True)
    for panel, epsilon in zip(panels, epsilons, strict=True):
        panel.axhline(1, color="black", linewidth=1)
        for index, method in enumerate(methods):
            ratios = [errors[name, epsilon][method] / errors[name, epsilon]["geometric"] for name in names]
            places = [place + 0.7 * (index / (len(methods) - 1) - 0.5) for place in range(len(names))]
            panel.plot(
                places,
                ratios,
                marker="os^vDPX<>*"[index % 10],
                linestyle="none",
                color=COLOURS[index % len(COLOURS)],
                markerfacecolor="none" if index >= len(COLOURS) else None,
                label=method,
            )
        panel.set_yscale("log")
        panel.set_title(f"epsilon {epsilon}")
        panel.set_xticks(range(len(names)), names, rotation=70)
        panel.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel("error of random ranges / that of plain noise")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
