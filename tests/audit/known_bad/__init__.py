"""Mechanisms as printed or as circulated that break their promise: the auditor must catch every one of them.

They live here alone and nothing in the package can select them. Each module says what is wrong, by which pair of
neighbours it shows, and by which event.
"""

from __future__ import annotations

from typing import Final

from .dft_printed import DFT_PRINTED
from .dissimilarity_share import BUDGET_ABSORPTION, BUDGET_DISTRIBUTION
from .dsat_clamped import DSAT_CLAMPED
from .dsat_persistent import DSAT_PERSISTENT
from .dsft_thesis import DSFT_THESIS
from .efpa_phases import EFPA_PHASES
from .example import KnownBad
from .fast_per_bin import FAST_PER_BIN
from .floating_point import FLOATING_POINT
from .kendall_private_n import KENDALL_PRIVATE_N
from .mle_by_index import MLE_BY_INDEX
from .presence_counted import PRESENCE_COUNTED

__all__ = ["KNOWN_BAD", "KnownBad"]

KNOWN_BAD: Final[tuple[KnownBad, ...]] = (
    DSFT_THESIS,
    DSAT_CLAMPED,
    DSAT_PERSISTENT,
    DFT_PRINTED,
    BUDGET_DISTRIBUTION,
    BUDGET_ABSORPTION,
    FAST_PER_BIN,
    KENDALL_PRIVATE_N,
    MLE_BY_INDEX,
    EFPA_PHASES,
    FLOATING_POINT,
    PRESENCE_COUNTED,
)
