"""Figures of the DSAT paper: adaptive sampling of dynamic histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl

from veilstream.evaluate.grid import Reals, stream_jobs
from veilstream.evaluate.queries import RangeSums, random_ranges
from veilstream.evaluate.runner import Job
from veilstream.evaluate.workloads import Census
from veilstream.experiments.drawing import lines, panels, summary
from veilstream.experiments.figure import Drawing, Figure, Finding, Paper, Setting, Verdict
from veilstream.guarantee import Guarantee
from veilstream.streams import DSAT

RUNS: Final = 10
SHARES: Final = ("1/1000", "1/200", "1/100", "1/20", "1/10", "1/5", "1/2")


@dataclass(frozen=True, slots=True)
class RangeError:
    """Mean absolute error of random range counts over all steps."""

    shape: tuple[int, ...]
    queries: int = 500
    seed: int = 1

    def __call__(self, released: Reals, original: Reals) -> float:
        ranges = random_ranges(self.shape, self.queries, self.seed)
        gaps = (released - original).astype(np.float64)
        return float(np.mean([np.abs(RangeSums(gap, self.shape).answer(ranges)).mean() for gap in gaps]))


def _census(setting: Setting) -> Census:
    return Census(steps=60, people=20_000, size=60_000) if setting.small else Census()


def _share_jobs(setting: Setting) -> Sequence[Job]:
    census = _census(setting)
    jobs: list[Job] = []
    for share in SHARES[::3] if setting.small else SHARES:
        mechanism = DSAT(releases=10, horizon=census.steps, decision_share=Fraction(share))
        jobs += stream_jobs(
            {"dsat": mechanism},
            [Guarantee(1, w=None)],
            {"census": census},
            range(2 if setting.small else RUNS),
            {"range error": RangeError(census.shape)},
            k=float(Fraction(share)),
        )
    return jobs


def _draw_shares(table: pl.DataFrame) -> Drawing:
    figure, (axes,) = panels(1)
    labels = "share of the budget for decisions", "mean absolute error of ranges"
    lines(axes, table, "k", by="mechanism", metric="range error", labels=labels, log="x")
    return figure


def _judge_shares(table: pl.DataFrame) -> Finding:
    means = summary(table, ["k"], "range error").select("k", "mean", "low", "high", "runs")
    best = means.sort("mean").row(0, named=True)
    inside = 0.01 <= best["k"] <= 0.1
    verdict = Verdict.HOLDS if inside else Verdict.FAILS
    return Finding(verdict, f"The smallest error is {best['mean']:.0f} at k = {best['k']:g}.", means)


DSAT_PAPER: Final = Paper(
    "dsat",
    "DSAT: histograms of dynamic datasets by adaptive sampling",
    "H. Li, L. Xiong, X. Jiang, J. Liu: Differentially private histogram publication for dynamic datasets: an adaptive "
    "sampling approach. CIKM 2015.",
    (
        Figure(
            "dsat-2",
            "error by the share of the budget for decisions",
            "the error is smallest with k between 0.01 and 0.1, as its theorem 5.4 says (0.053 at C = 10), and grows "
            "on both sides.",
            "the census stream (500 steps, 500,000 people), ε = 1 at user level, C = 10.",
            _share_jobs,
            _draw_shares,
            _judge_shares,
        ),
    ),
)
