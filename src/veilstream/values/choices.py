"""What can be asked of a measured column, by the names of settings; it loads nothing, so that help answers at once."""

from __future__ import annotations

from typing import Final

STATISTICS: Final = ("count", "sum", "mean", "variance", "median", "quantiles")
MOST_CELLS: Final = 1024
DEFAULT_CELLS: Final = 64
"""Cells of a range of which quantiles are read."""
