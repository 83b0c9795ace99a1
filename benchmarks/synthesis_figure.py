"""``python -m benchmarks.synthesis_figure`` draws docs/figures/synthesis.png: a generated table and models of it."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.report import PAGE
from research.tables.methods import simulated_model
from research.tables.sources import CodedTable, Codes
from veilstream.release.plots import STYLE
from veilstream.synthesis import DPCopula

VALUES = 200


def generated(rows: int = 30_000) -> Codes:
    """Two attributes with a t copula of 4 degrees of freedom, one margin symmetric and one skewed."""
    rng = np.random.default_rng(3)  # noqa: TID251 (synthetic data)
    latent = rng.multivariate_normal([0, 0], [[1, 0.75], [0.75, 1]], rows)
    latent /= np.sqrt(rng.chisquare(4, rows) / 4)[:, None]
    first = np.clip(VALUES * (0.5 + 0.11 * latent[:, 0]), 0, VALUES - 1)
    second = np.clip(VALUES * 0.12 * np.exp(0.5 * latent[:, 1]), 0, VALUES - 1)
    return np.stack([first, second], axis=1).astype(np.int64)


def main() -> None:
    matplotlib: Any = import_module("matplotlib")
    figures: Any = import_module("matplotlib.figure")
    codes = generated()
    panels: dict[str, Codes] = {"the table (30,000 rows)": codes}
    for epsilon in ("1", "1/10"):
        model = simulated_model(CodedTable(codes, (VALUES, VALUES)), Fraction(epsilon), 1, DPCopula())
        panels[f"drawn rows, ε = {epsilon}"] = np.stack(model.sample_codes(len(codes), 1), axis=1)
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        figure = figures.Figure(figsize=(12, 4.2), layout="constrained")
        axes = figure.subplots(1, 3, sharex=True, sharey=True)
        for axis, (title, shown) in zip(axes, panels.items(), strict=True):
            counts, _, _ = np.histogram2d(shown[:, 0], shown[:, 1], bins=100, range=[[0, VALUES], [0, VALUES]])
            image = axis.imshow(
                np.log1p(counts).T, origin="lower", extent=(0, VALUES, 0, VALUES), cmap="Blues", vmin=0, vmax=4.5
            )
            axis.set_title(title, fontsize=11)
            axis.set_xlabel("first attribute")
            axis.set_ylim(0, 110)
            axis.set_aspect("auto")
        axes[0].set_ylabel("second attribute")
        figure.colorbar(image, ax=axes, shrink=0.85, label="log(1 + rows) in a cell of 2 × 2 values")
        figure.savefig(PAGE.parent / "figures" / "synthesis.png", dpi=110)


if __name__ == "__main__":
    main()
