"""From drawn codes to a table of values, whatever the model."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence  # noqa: TID251 (what is drawn here reads a public model alone)
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.synthesis.domain import TableDomain


def checked_rows(noisy: int, rows: int | None) -> int:
    """How many rows to draw: as many as wanted, or the noisy number of rows."""
    count = noisy if rows is None else rows
    if type(count) is not int or count < 0:
        raise InvalidInputError(name="rows", value=rows, limit="a whole number of at least 0")
    return count


def as_table(
    columns: list[NDArray[np.int64]],
    domain: TableDomain,
    seed: int | None,
    kind: Literal["polars", "pandas", "arrow"],
) -> Any:
    """Drawn codes as a table of values: numbers at random inside their bins, in types that the domain gives."""
    if kind not in ("polars", "pandas", "arrow"):
        raise InvalidInputError(name="kind", value=kind, limit="'polars', 'pandas' or 'arrow'")
    generator = Generator(PCG64(SeedSequence(None if seed is None else (seed, 1))))
    frame = domain.values(columns, [generator.random(column.size) for column in columns])
    return frame if kind == "polars" else getattr(frame, f"to_{kind}")()
