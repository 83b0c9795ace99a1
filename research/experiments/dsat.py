"""The DSAT paper: adaptive sampling of dynamic histograms."""

from __future__ import annotations

from typing import Final

from research.experiments.dsat_user import USER_LEVEL
from research.experiments.dsat_window import W_EVENT
from research.experiments.figure import Paper

DSAT_PAPER: Final = Paper(
    "dsat",
    "DSAT: histograms of dynamic datasets by adaptive sampling",
    "H. Li, L. Xiong, X. Jiang, J. Liu: Differentially private histogram publication for dynamic datasets: an adaptive "
    "sampling approach. CIKM 2015.",
    (*USER_LEVEL, *W_EVENT),
)
