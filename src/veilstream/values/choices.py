"""What settings can be, by their names; it loads nothing, so that help answers at once."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

STATISTICS: Final = ("count", "sum", "mean", "variance", "median", "quantiles")
"""What can be asked of a measured column."""
MOST_CELLS: Final = 1024
DEFAULT_CELLS: Final = 64
"""Cells of a range of which quantiles are read."""
STEP: Final = "step"
SO_FAR: Final = "so-far"
SO_FAR_SETTINGS: Final = {"window": "user", "presence": 1, "mechanism": "running-total"}
"""What counting people so far is made of: everybody counts in the first step in which they come."""
Vintages: TypeAlias = Literal["first", "latest", "all"]
"""Which values of a step a table has: those of its release, the newest ones, or every version."""
