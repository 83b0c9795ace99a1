"""Names of bins: numeric intervals rounded by their own width."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

INTERVAL: Final = re.compile(r"\[(-?[\d.e+-]+), (-?[\d.e+-]+)[)\]]")
LONGEST: Final = 34


def borders(labels: Sequence[Any]) -> NDArray[np.float64] | None:
    """Low and high ends (n × 2) of labels that all read as ``[low, high)``, else None.

    >>> borders(["[0, 18)", "[18, 65]"]).tolist(), borders(["[0, 18)", "old"])
    ([[0.0, 18.0], [18.0, 65.0]], None)
    """
    found = [INTERVAL.fullmatch(label) if isinstance(label, str) else None for label in labels]
    if not found or not all(found):
        return None
    return np.array([[float(match[1]), float(match[2])] for match in found if match], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Side:
    """Bins along one attribute: the place of each, the edges between places, and their labels.

    ``ends`` is None where the attribute is no row of touching intervals; edges are then halfway between whole numbers.
    """

    codes: NDArray[np.int64]
    edges: NDArray[np.float64]
    labels: list[str]
    ends: NDArray[np.float64] | None


def side(column: pl.Series) -> Side:
    """The places of the values of an attribute, in the order in which they appear.

    >>> side(pl.Series(["[0, 18)", "[18, 65]", "[0, 18)"])).edges.tolist()
    [0.0, 18.0, 65.0]
    """
    distinct = column.unique(maintain_order=True).to_list()
    places = {value: place for place, value in enumerate(distinct)}
    codes = np.array([places[value] for value in column.to_list()], dtype=np.int64)
    labels = [str(value) for value in distinct]
    ends = borders(distinct)
    if ends is not None and np.allclose(ends[1:, 0], ends[:-1, 1]):
        return Side(codes, np.append(ends[:, 0], ends[-1, 1]), labels, ends)
    return Side(codes, np.arange(len(distinct) + 1, dtype=np.float64) - 0.5, labels, None)


def decimals(ends: NDArray[np.float64]) -> int:
    """The fewest decimals that tell the ends apart within a twentieth of the narrowest interval.

    >>> decimals(np.array([[116.126666666667, 116.153333333333]]))
    3
    """
    width = float(np.min(ends[:, 1] - ends[:, 0]))
    digits = next((d for d in range(12) if np.max(np.abs(np.round(ends, d) - ends)) <= width / 20), 12)
    return max(0, min(digits, 12 if width <= 0 else math.ceil(-math.log10(width)) + 2))


def bin_names(bins: pl.DataFrame) -> list[str]:
    """A name for every bin, given as one row with its attributes.

    >>> bin_names(pl.DataFrame({"zone": ["a", "a"], "age": ["[0, 18)", "[18, 65]"]}))
    ['a, 0 to 18', 'a, 18 to 65']
    """
    if not bins.columns:
        return ["total"]
    parts = [_names(bins[name]) for name in bins.columns]
    return [", ".join(row) for row in zip(*parts, strict=True)]


def _names(column: pl.Series) -> list[str]:
    distinct = column.unique(maintain_order=True).to_list()
    ends = borders(distinct)
    if ends is None:
        return [str(value) for value in column.to_list()]
    digits = decimals(ends)
    names = {
        label: f"{low:,.{digits}f} to {high:,.{digits}f}" for label, (low, high) in zip(distinct, ends, strict=True)
    }
    return [names[label] for label in column.to_list()]


def shortened(name: str) -> str:
    """A name cut to the room that a picture has for it."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
