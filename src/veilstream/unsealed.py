"""The one way to the numbers inside a Sealed or a SealedRecords, for the trust boundary alone.

An import contract lets only the Meter, the scores and the codec use this module.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from veilstream.sealed import Sealed
from veilstream.sparse import SealedRecords


def exact_values(sealed: Sealed) -> NDArray[np.int64]:
    """The whole numbers ``v`` of values ``v · 2^-grid``."""
    return cast(NDArray[np.int64], getattr(sealed, "_Sealed__exact"))  # noqa: B009 (a private name)


def exact_records(records: SealedRecords) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The filled cells in order, one a row, and their counts."""
    cells = getattr(records, "_SealedRecords__cells")  # noqa: B009 (a private name)
    counts = getattr(records, "_SealedRecords__counts")  # noqa: B009 (a private name)
    return cast(NDArray[np.int64], cells), cast(NDArray[np.int64], counts)
