"""What a workload is: counts that are made, not measured, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.random import Generator, Philox, SeedSequence  # noqa: TID251 (makes synthetic public data, releases nothing)
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError

Counts = NDArray[np.int64]


class Workload(Protocol):
    """A stream of histograms over bins of a public ``shape``, one at a time: a long one need not fit into memory."""

    @property
    def steps(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def snapshots(self, seed: int) -> Iterator[Counts]: ...


@dataclass(frozen=True, slots=True)
class First:
    """The first ``steps`` snapshots of another workload."""

    workload: Workload
    steps: int

    def __post_init__(self) -> None:
        at_least(self.steps, 1, "steps")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.workload.shape

    def snapshots(self, seed: int) -> Iterator[Counts]:
        return islice(self.workload.snapshots(seed), self.steps)


def as_array(workload: Workload, seed: int, steps: int | None = None) -> Counts:
    """The first ``steps`` snapshots (all of them by default) as steps × bins."""
    return np.stack(list(islice(workload.snapshots(seed), steps)))


def generator(seed: int) -> Generator:
    """The seeded source of all workloads; Philox gives the same numbers on every platform."""
    return Generator(Philox(SeedSequence(seed)))


def at_least(value: float, least: float, name: str) -> None:
    """Refuse a parameter below its limit."""
    if not value >= least:
        raise InvalidInputError(f"{name} {value} of a workload: at least {least} is needed")
