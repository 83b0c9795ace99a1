"""The FAST paper: filtering and adaptive sampling of count series."""

from __future__ import annotations

from typing import Final

from research.fast.filters import FILTERING
from research.fast.utility import UTILITY
from research.figure import Paper

FAST_PAPER: Final = Paper(
    "fast",
    "FAST: count series by filtering and adaptive sampling",
    "L. Fan, L. Xiong: An adaptive approach to real-time aggregate monitoring with differential privacy. IEEE TKDE "
    "26(9), 2014.",
    (*FILTERING, *UTILITY),
)
