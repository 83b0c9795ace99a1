"""Meters that simulate many runs at once: one call of a mechanism's own code, with noise of shape (runs, bins).

They are for simulation and audit alone; a release is made by ``Meter`` itself, one run at a time.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.accountant import Accountant
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter, NoiseSource
from veilstream.trusted.records import SealedRecords
from veilstream.values.boxes import Boxes
from veilstream.values.values import Values

D = TypeVar("D", np.bool_, np.int64)
Rows: TypeAlias = NDArray[np.int64]


@runtime_checkable
class RepeatedNoise(Protocol):
    """A source that answers many questions many times at once."""

    def select_each(
        self,
        gaps: NDArray[np.int64],
        sizes: NDArray[np.int64],
        rate: Fraction,
        lengths: NDArray[np.int64] | None = None,
        repeats: int = 1,
    ) -> NDArray[np.int64]: ...


class BatchMeter(Meter):
    """A Meter whose answers have the axes of ``batch``, one entry for each run, before their own.

    Runs are charged once for all, as each of them would be. A decision must be that of all runs.

    >>> from veilstream.noise import ExactSampler
    >>> from veilstream.privacy.guarantee import Guarantee
    >>> from veilstream.testing.simulation import SeededSource
    >>> from veilstream.trusted.counts import seal
    >>> meter = BatchMeter(Accountant(Guarantee(1, w=1), 2), ExactSampler(SeededSource(7)), 0, batch=(500,))
    >>> meter.laplace(seal(np.array([3, 4]), 0), Fraction(1), "publish").numbers.shape
    (500, 2)
    """

    def __init__(self, accountant: Accountant, noise: NoiseSource, t: int, batch: tuple[int, ...]) -> None:
        super().__init__(accountant, noise, t)
        self.batch = batch

    def branch(self, decision: NDArray[D]) -> NDArray[D]:
        """The decision that all runs agree on; its first axes are those of the runs."""
        decisions = super().branch(decision)
        flat = decisions.reshape(math.prod(self.batch), -1)
        if (flat != flat[0]).any():
            self._disagree(flat)
        return np.asarray(flat[0].reshape(decisions.shape[len(self.batch) :]))

    def sampled_laplace(self, x: Sealed, epsilon: Fraction, rate: Fraction, purpose: str) -> Values:
        raise _one_run("sample for", purpose)

    def reaching(self, records: SealedRecords, level: int, epsilon: Fraction, purpose: str) -> Boxes:
        raise _one_run("list of cells for", purpose)

    def _draw_shape(self, size: int) -> tuple[int, ...]:
        return (*self.batch, size)

    def _choose(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        return int(self._choose_each(gaps, np.array([gaps.size], dtype=np.int64), rate, None)[0])

    def _choose_each(
        self,
        gaps: NDArray[np.int64],
        entries: NDArray[np.int64],
        rate: Fraction,
        lengths: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        if not isinstance(self._noise, RepeatedNoise):
            raise _one_run("choices by", type(self._noise).__name__)
        chosen = self._noise.select_each(gaps, entries, rate, lengths, math.prod(self.batch))
        return self.branch(chosen.reshape(*self.batch, entries.size))

    def _disagree(self, decisions: NDArray[Any]) -> NoReturn:
        """Runs, one a row, have come to different decisions."""
        raise InvalidInputError(
            name="decisions of", value=len(decisions), limit="runs at once differ; simulate run by run"
        )


class Disagreement(Exception):
    """The runs of a group do not agree; ``parts`` are those that do, by their positions in it."""

    def __init__(self, parts: list[Rows]) -> None:
        super().__init__("runs disagree")
        self.parts = parts


class ForkingMeter(BatchMeter):
    """A Meter for many runs that stops where their decisions differ."""

    def _disagree(self, decisions: NDArray[Any]) -> NoReturn:
        numbers = decisions.astype(np.int64)
        keys = numbers[:, 0] if numbers.shape[1] == 1 else numbers
        labels = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.argsort(labels, kind="stable")
        raise Disagreement(np.split(order, np.flatnonzero(np.diff(labels[order])) + 1))


def _one_run(name: str, value: str) -> InvalidInputError:
    return InvalidInputError(name=name, value=value, limit="not for many runs at once; simulate run by run")
