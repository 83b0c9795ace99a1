"""The DSAT paper: adaptive sampling of dynamic histograms."""

from __future__ import annotations

from typing import Final

from research.dsat.user_level import USER_LEVEL
from research.dsat.w_event import W_EVENT
from research.figure import Paper

DSAT_PAPER: Final = Paper(
    "dsat",
    "DSAT: histograms of dynamic datasets by adaptive sampling",
    "H. Li, L. Xiong, X. Jiang, J. Liu: Differentially private histogram publication for dynamic datasets: an adaptive "
    "sampling approach. CIKM 2015.",
    (*USER_LEVEL, *W_EVENT),
)
