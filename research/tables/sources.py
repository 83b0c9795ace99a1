"""Tables of codes, generated or real, on which synthetic tables and sparse histograms are measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from research.workloads import dependent_table
from veilstream.errors import UnreadableFileError
from veilstream.evaluate.queries import Ranges, random_ranges, random_ranges_of_volume
from veilstream.trusted.statistics.pair_tables import count_ranges

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]

ADULT_FILES: Final = ("adult_pgm_discretized.csv.gz", "adult_pgm_discretized-domain.json")
ADULT: Final = ("age", "fnlwgt", "education-num", "capital-gain", "hours-per-week", "sex", "race", "income>50K")
ACS_FILES: Final = ("ipums_acs_temporal_nist.parquet", "ipums_acs_temporal_nist-domain.json")
ACS: Final = ("PUMA", "AGE", "EDUC", "INCTOT", "POVERTY", "DEPARTS", "SEX", "MARST")


@dataclass(frozen=True, slots=True, eq=False)
class CodedTable:
    """Rows × attributes of codes from 0 to the size of the attribute − 1."""

    codes: Codes
    shape: tuple[int, ...]

    def count(self, ranges: Ranges) -> Reals:
        """How many rows lie in each range."""
        return rows_in(list(self.codes.T), ranges)


class TableSource(Protocol):
    """Parameters of a table, small enough to travel to other processes."""

    def __hash__(self) -> int: ...

    def load(self) -> CodedTable: ...


def rows_in(columns: Sequence[Codes], ranges: Ranges) -> Reals:
    """How many rows of these columns lie in each range.

    >>> rows_in([np.array([0, 1, 1])], Ranges(np.array([[1]]), np.array([[2]]))).tolist()
    [2.0]
    """
    narrow = [column.astype(np.int32) for column in columns]
    return count_ranges(narrow, ranges.low, ranges.high).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Generated:
    """A table with Gaussian dependence, the synthetic data of the thesis (``dependent_table``).

    >>> Generated(rows=10, attributes=3).load().codes.shape
    (10, 3)
    """

    rows: int = 50_000
    attributes: int = 8
    domain: int = 1000
    margin: str = "gaussian"
    seed: int = 1

    def load(self) -> CodedTable:
        codes = dependent_table(self.seed, self.rows, self.attributes, self.domain, self.margin)
        return CodedTable(codes, (self.domain,) * self.attributes)


@dataclass(frozen=True, slots=True)
class AdultTable:
    """The Adult table, discretised by the authors of private-pgm: 48,842 rows."""

    directory: Path
    names: tuple[str, ...] = ADULT

    def load(self) -> CodedTable:
        data, domain = (_file(self.directory, name) for name in ADULT_FILES)
        return _columns(pl.read_csv(data), domain, self.names)


@dataclass(frozen=True, slots=True)
class ACSTable:
    """One of the seven years of the American Community Survey of NIST's temporal challenge: about 20,000 rows."""

    directory: Path
    year: int
    names: tuple[str, ...] = ACS

    def load(self) -> CodedTable:
        data, domain = (_file(self.directory, name) for name in ACS_FILES)
        return _columns(pl.read_parquet(data).filter(pl.col("YEAR") == self.year), domain, self.names)


@dataclass(frozen=True, slots=True)
class Shortened:
    """The first rows of another table."""

    source: AdultTable | ACSTable
    rows: int

    def load(self) -> CodedTable:
        table = self.source.load()
        return CodedTable(table.codes[: self.rows], table.shape)


@dataclass(frozen=True, slots=True)
class RangeCounts:
    """Random ranges over all attributes at once, and the sanity bound of their relative errors.

    Ranges are uniform among all boxes, or each covers about the share ``volume`` of the domain ("1/10").
    ``sanity_share`` gives the bound as a share of the rows instead.

    >>> RangeCounts(queries=3).ranges((10, 10), seed=1).low.shape
    (3, 2)
    """

    queries: int = 1000
    volume: str | None = None
    sanity: float = 1.0
    sanity_share: float = 0.0

    def ranges(self, shape: tuple[int, ...], seed: int) -> Ranges:
        if self.volume is None:
            return random_ranges(shape, self.queries, seed)
        return random_ranges_of_volume(shape, self.queries, self.volume, seed)

    def errors(self, answers: Reals, truth: Reals, rows: int) -> dict[str, float]:
        """Mean relative and mean absolute error."""
        gaps = np.abs(answers - truth)
        bound = max(self.sanity, self.sanity_share * rows)
        relative = float((gaps / np.maximum(truth, bound)).mean())
        return {"relative error": relative, "absolute error": float(gaps.mean())}


def _file(directory: Path, name: str) -> Path:
    if not (directory / name).is_file():
        raise UnreadableFileError(
            f"{name}: there is no such file in the directory of data sets", outcome="nothing was read"
        )
    return directory / name


def _columns(frame: pl.DataFrame, domain: Path, names: Sequence[str]) -> CodedTable:
    sizes: dict[str, int] = json.loads(domain.read_text(encoding="utf-8"))
    codes = frame.select(names).to_numpy().astype(np.int64)
    return CodedTable(codes, tuple(sizes[name] for name in names))
